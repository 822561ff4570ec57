/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a copy of the process' live profile (profile_copy.c) into rows, together with current data from /proc. No state. Any
 * thread.
 */
#include "collect/attach/inspect.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/profile/profile_copy.h"
#include "collect/binaries/linked_in.h"
#include "collect/binaries/project_root.h"
#include "collect/profile/marks.h"
#include "collect/kernel/procfs.h"
#include "collect/process/memory_reading.h"
#include "collect/process/pages.h"
#include "collect/process/target.h"
#include "collect/run/collector.h"
#include "format/live/live_read.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

static void name_linked_in(struct process_rows *rows)
{
	AUTO(linked_in_release) struct linked_in files = { 0 };

	linked_in_find(&files, rows);
}

static char *exe_of(const struct live_own *own)
{
	return strndup(own->exe, sizeof own->exe);
}

static void fill_process(const struct profile_copy *c, uint64_t now_ns, struct process_rows *rows)
{
	struct process_row *row = &rows->process;
	AUTO_FREE char *exe = procfs_exe(c->pid);
	int statm = procfs_statm_open(c->pid);

	free(row->command);
	free(row->exe);
	row->command = procfs_command(c->pid);
	/* Another user may not ask. */
	row->exe = exe && *exe ? TAKE(exe) : exe_of(&profile_copy_head(c)->own);
	row->pid = (uint32_t)c->pid;
	row->ppid = (uint32_t)procfs_parent(c->pid);
	row->rank = profile_copy_head(c)->own.rank;
	row->uid = procfs_user(c->pid);
	row->end = END_RUNNING;
	row->duration_ns = saturating_sub(now_ns, profile_copy_head(c)->started_mono_ns);
	row->started_real_ns = clock_real_ns() - row->duration_ns;
	row->rss_bytes = procfs_rss(statm);
	row->peak_rss_bytes = MAX(procfs_peak_rss(c->pid), row->rss_bytes);
	if (statm >= 0)
		close(statm);
}

/* The clock has milliseconds, while snapshots have nanoseconds and may be later. */
static uint64_t leftover_duration_ns(const struct profile_copy *c, const struct process_rows *rows)
{
	uint64_t clock_ns = saturating_mul(c->control.clock_ms, NS_PER_MS);
	uint64_t last_ns =
		rows->snapshot_count ? rows->snapshots[rows->snapshot_count - 1].at_ns : 0;

	return MAX(clock_ns, last_ns);
}

/* For a process that has ended, only its own description is available. */
static void fill_leftover(const struct profile_copy *c, bool running, struct process_rows *rows)
{
	const struct live_own *own = &profile_copy_head(c)->own;
	struct process_row *row = &rows->process;
	struct stat st;

	free(row->command);
	free(row->exe);
	row->command = strndup(own->command, sizeof own->command);
	row->exe = exe_of(own);
	row->pid = profile_copy_head(c)->pid;
	row->uid = fstat(c->fd, &st) == 0 ? st.st_uid + 1
					  : 0; /* the file belongs to the user of the process */
	row->end = running ? END_RUNNING : END_UNKNOWN;
	row->duration_ns = leftover_duration_ns(c, rows);
	row->started_real_ns = own->started_real_ns;
}

int inspect_run(const struct profile_copy *c, const struct process_row *process,
		const char *version, struct run_row *run, struct error *error)
{
	const struct live_own *own = &profile_copy_head(c)->own;
	AUTO_FREE char *host = own->host[0] ? strndup(own->host, sizeof own->host) : NULL;

	*run = (struct run_row){ .started_real_ns = process->started_real_ns,
				 .duration_ns = process->duration_ns,
				 .peak_bytes = process->peak_bytes,
				 .peak_at_ns = process->peak_at_ns,
				 .peak_bound_bytes = process->peak_bound_bytes };
	return collector_fill_run(
		run, host, version, strdup(process->command ? process->command : ""),
		project_rule(process->exe && process->exe[0] ? process->exe : "/"), error);
}

/* If a collector has ended, or is stopped, its clock stops. A process' own clock stops while nothing happens, and the process
 * counts this itself if it distorts lifetimes. */
static void note_clock(const struct profile_copy *c, struct process_row *process)
{
	uint64_t behind_ms = saturating_sub(process->duration_ns / NS_PER_MS, c->control.clock_ms);

	if (behind_ms >= STOPPED_MS && profile_copy_head(c)->own.kept == LIVE_KEPT_COLLECTOR)
		process->health[HEALTH_clock_stopped_ms] += behind_ms;
	process->health[HEALTH_unkept] += profile_copy_head(c)->own.no_file != 0;
}

/* Fills in the rows from the copy, and the rest from /proc. */
static int fill(const struct profile_copy *copied, enum profile_copy_parts parts, bool running,
		const char *version, struct recording *recording, struct error *error)
{
	struct format_error reason = { "" };
	struct process_rows *rows = calloc(1, sizeof *rows);

	if (!rows)
		return error_set(error, "out of memory");
	recording->processes = rows;
	recording->process_count = 1;
	int status = (parts == PROFILE_COPY_SUMS ? live_read_sums : live_read_rows)(
		copied->memory, copied->bytes, &copied->moves, copied->control.mode, rows, &reason);

	if (status < 0 || (parts == PROFILE_COPY_ALL &&
			   live_read_ages(copied->memory, copied->bytes,
					  profile_copy_clock_ms(copied), rows, &reason) < 0))
		return error_set(error, "the profile cannot be read: %s", reason.message);
	if (parts == PROFILE_COPY_ALL)
		mark_rows_of_copy(copied, rows);
	if (copied->pid)
		fill_process(copied, clock_monotonic_ns(), rows);
	else
		fill_leftover(copied, running, rows);
	note_clock(copied, &rows->process);
	return inspect_run(copied, &rows->process, version, &recording->run, error);
}

static int read_copied(const struct profile_copy *copied, enum profile_copy_parts parts,
		       bool running, const char *version, struct recording *ret,
		       struct error *error)
{
	struct recording recording = { 0 };

	if (fill(copied, parts, running, version, &recording, error) < 0) {
		recording_release(&recording);
		return PROFILE_COPY_FAILED;
	}
	*ret = recording;
	return 0;
}

int inspect_copied(const struct profile_copy *copied, enum profile_copy_parts parts, bool running,
		   const char *version, struct recording *ret, struct error *error)
{
	int status = read_copied(copied, parts, running, version, ret, error);

	if (status == 0 && parts == PROFILE_COPY_ALL)
		name_linked_in(&ret->processes[0]); /* reads its executable */
	return status;
}

int inspect_recorded(struct profile_copy *copied, const struct recorded *recorded,
		     enum profile_copy_parts parts, const char *version, struct recording *ret,
		     struct error *error)
{
	int status = profile_copy_take(copied, recorded, parts, error);

	return status < 0 ? status : inspect_copied(copied, parts, true, version, ret, error);
}

static int read_pages(const struct recorded *recorded, struct pages_rows *ret, struct error *error)
{
	AUTO(live_profile_release) struct live_profile profile = LIVE_PROFILE_INIT;

	if (live_profile_take_memory(&profile, recorded->pid, recorded->profile, error) < 0)
		return -1;
	return pages_read(&profile, recorded->pid,
			  saturating_sub(clock_monotonic_ns(), profile.head->started_mono_ns), ret,
			  error);
}

static void lend_profile(struct live_profile *profile, const struct profile_copy *copied)
{
	live_profile_lend(profile, copied);
	if (copied->fd >= 0)
		profile->held.fd = fcntl(copied->fd, F_DUPFD_CLOEXEC, 0);
}

/* What a collector would have read. Whose the memory is, is not known of a fork, which has no profile of what it inherited, and of a
 * process that is not recorded any more. */
static void read_memory(const struct profile_copy *copied, const struct recorded *recorded,
			struct process_rows *rows)
{
	AUTO(memory_reading_release) struct memory_reading reading = { 0 };
	AUTO(live_profile_release) struct live_profile profile = LIVE_PROFILE_INIT;
	AUTO(cgroups_release) struct cgroups cgroups = { 0 };
	AUTO(static_data_release) struct static_data globals = { 0 };
	AUTO(loaded_release) struct loaded loaded = { 0 };
	struct inherited inherited = { 0 };
	const struct stat profile_file = { .st_dev = recorded->mapped.device,
					   .st_ino = recorded->mapped.inode };
	bool knows_parts = profile_copy_head(copied)->own.begin != LIVE_BEGIN_FORK &&
			   copied->control.mode != LIVE_MODE_DORMANT;

	cgroups_init(&cgroups, "");
	struct cgroup_memory cgroup = cgroups_memory(&cgroups, recorded->pid);

	reading.row.cgroup_limit_bytes = cgroup.limit_bytes;
	reading.row.cgroup_usage_bytes = cgroup.usage_bytes;
	reading.row.at_ns = rows->process.duration_ns; /* all of it is as of now */
	lend_profile(&profile, copied);
	memory_read_live(&profile, &reading.row);
	if (!memory_read(&reading, recorded->pid, knows_parts ? &profile : NULL, &inherited))
		return;
	static_data_read(&globals, recorded->pid, &reading.list, reading.row.at_ns);
	if (knows_parts && loaded_is_due(&reading.row))
		loaded_scan(&loaded, recorded->pid);
	/* Another program that it has executed has a profile of its own, or none. */
	rows->memory =
		recorded_maps(recorded->pid, &profile_file) ? malloc(sizeof *rows->memory) : NULL;
	if (!rows->memory)
		return;
	*rows->memory = reading.row;
	rows->memory_count = 1;
	static_data_give(&globals, rows);
	loaded_give(&loaded, rows);
	rows->process.peak_rss_bytes = MAX(rows->process.peak_rss_bytes, reading.row.rss_bytes);
}

int inspect_process(pid_t pid, bool reads_pages, const char *version, struct recording *ret,
		    struct error *error)
{
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;
	AUTO(pages_rows_release) struct pages_rows pages = { 0 };
	struct recorded recorded;

	if (recorded_find(pid, &recorded, error) < 0)
		return -1;
	/* Before the sites, all of which the rows then have. */
	if (reads_pages && read_pages(&recorded, &pages, error) < 0)
		return -1;
	/* In the memory of the process, what was swapped out of it looks like holes. */
	profile_copy_hold(&copied, &recorded);
	if (profile_copy_take(&copied, &recorded, PROFILE_COPY_ALL, error) < 0 ||
	    read_copied(&copied, PROFILE_COPY_ALL, true, version, ret, error) < 0)
		return -1;
	ret->processes[0].pages = pages;
	pages = (struct pages_rows){ 0 };
	read_memory(&copied, &recorded, &ret->processes[0]);
	name_linked_in(&ret->processes[0]); /* also the files that were found */
	return 0;
}

int inspect_file(const char *path, const char *version, struct recording *ret,
		 struct inspect_leftover *ret_left, struct error *error)
{
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;
	struct stat st;

	/* Before the copy: if the process is reported as ended, the copy is its final state. */
	bool running = stat(path, &st) == 0 && recorded_by(&st) != 0;

	if (profile_copy_take_file(&copied, path, PROFILE_COPY_ALL, error) < 0)
		return -1;
	running = running || file_has_writer(copied.fd);
	if (inspect_copied(&copied, PROFILE_COPY_ALL, running, version, ret, error) < 0)
		return -1;
	if (ret_left)
		*ret_left =
			(struct inspect_leftover){ profile_copy_head(&copied)->own,
						   profile_copy_head(&copied)->started_mono_ns };
	return 0;
}

static void fill_from_core(const struct core_file *core, struct process_row *row)
{
	row->ppid = (uint32_t)core->ppid;
	row->uid = core->uid;
	/* A debugger writes one of a process that goes on. */
	row->end = core->signal ? END_SIGNAL : END_RUNNING;
	row->exit_code = (uint32_t)core->signal;
}

int inspect_core_copied(const struct profile_copy *copied, const char *version,
			struct recording *ret, struct error *error)
{
	if (inspect_copied(copied, PROFILE_COPY_ALL, false, version, ret, error) < 0)
		return -1;
	fill_from_core(copied->core, &ret->processes[0].process);
	return 0;
}

int inspect_core_copy(struct profile_copy *copied, const struct core_file *core,
		      struct recorded *ret_recorded, struct error *error)
{
	if (recorded_find_core(core, ret_recorded, error) < 0 ||
	    profile_copy_take_core(copied, core, ret_recorded->profile, PROFILE_COPY_ALL, error) <
		    0)
		return -1;
	/* In another PID namespace its numbers differ. */
	if (profile_copy_head(copied)->pid != (uint32_t)core->pid &&
	    profile_copy_head(copied)->pid == (uint32_t)core->ppid)
		return error_set(
			error,
			"process %d had no profile of its own: it was a fork of a recorded one and had "
			"not allocated anything since",
			(int)core->pid);
	return 0;
}

int inspect_core(const char *path, const char *version, struct recording *ret, struct error *error)
{
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;
	AUTO(core_file_release) struct core_file core = CORE_FILE_INIT;
	struct recorded recorded;

	if (core_file_open(&core, path, error) < 0 ||
	    inspect_core_copy(&copied, &core, &recorded, error) < 0)
		return -1;
	return inspect_core_copied(&copied, version, ret, error);
}

uint64_t inspect_file_seen(const char *path)
{
	AUTO_CLOSE int fd = file_open_regular(path, NULL, NULL);
	struct live_control control;
	struct live_own own;
	uint64_t total;

	if (fd < 0 ||
	    pread(fd, &own, sizeof own, offsetof(struct live_header, own)) != (ssize_t)sizeof own ||
	    pread(fd, &total, sizeof total, offsetof(struct live_header, total_bytes)) !=
		    (ssize_t)sizeof total)
		return 0;
	if (pread(fd, &control, sizeof control, (off_t)total) != (ssize_t)sizeof control)
		return 0;
	return saturating_add(own.started_real_ns, saturating_mul(control.clock_ms, NS_PER_MS));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the process' live profile (copied.c), read by the usual reader into rows, beside what /proc says of the
 * process now. No state. Any thread.
 */
#include "collect/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/copied.h"
#include "collect/linked_in.h"
#include "collect/procfs.h"
#include "collect/ranks.h"
#include "collect/target.h"
#include "format/live_read.h"
#include "util/cleanup.h"

#define NS_PER_MS 1000000ull

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void name_linked_in(struct process_row *row)
{
	AUTO(linked_in_release) struct linked_in files = { 0 };
	const char *name = linked_in_find(&files, row->exe, row->allocator);

	row->linked_in = name ? strdup(name) : NULL;
}

static void fill_process(const struct copied *c, uint64_t now_ns, struct process_row *row)
{
	int statm = procfs_statm_open(c->pid);

	free(row->command);
	free(row->exe);
	row->command = procfs_command(c->pid);
	row->exe = procfs_exe(c->pid);
	row->pid = (uint32_t)c->pid;
	row->ppid = (uint32_t)procfs_parent(c->pid);
	row->rank = (uint32_t)(rank_of(c->pid) + 1);
	row->end = END_RUNNING;
	row->duration_ns = saturating_sub(now_ns, copied_head(c)->started_mono_ns);
	row->started_real_ns = clock_ns(CLOCK_REALTIME) - row->duration_ns;
	row->peak_rss_bytes = procfs_rss(statm);
	if (statm >= 0)
		close(statm);
}

static int fill_run(const struct process_row *process, const char *version, struct run_row *run,
		    struct error *error)
{
	struct utsname name;

	if (uname(&name) < 0)
		memset(&name, 0, sizeof name);
	*run = (struct run_row){ .started_real_ns = process->started_real_ns,
				 .duration_ns = process->duration_ns,
				 .peak_bytes = process->peak_bytes,
				 .peak_at_ns = process->peak_at_ns,
				 .peak_bound_bytes = process->peak_bound_bytes,
				 .host = strdup(name.nodename),
				 .version = strdup(version),
				 .command = strdup(process->command ? process->command : "") };
	if (asprintf(&run->kernel, "%s %s %s", name.sysname, name.release, name.machine) < 0)
		run->kernel = NULL;
	if (!run->host || !run->kernel || !run->version || !run->command)
		return error_set(error, "no memory left");
	return 0;
}

/* Without a collector the clock stands still. */
static void note_clock(struct process_row *process, uint32_t clock_ms)
{
	uint64_t behind_ms = saturating_sub(process->duration_ns / NS_PER_MS, clock_ms);

	if (behind_ms >= STOPPED_MS)
		process->health[HEALTH_clock_stopped] += behind_ms;
}

/* Everything but the rows is what /proc says now. */
static int fill(const struct copied *copied, enum copied_parts parts, const char *version,
		struct recording *recording, struct error *error)
{
	struct format_error reason = { "" };
	struct process_rows *rows = calloc(1, sizeof *rows);
	uint32_t clock_ms = copied->control.clock_ms;

	if (!rows)
		return error_set(error, "no memory left");
	recording->processes = rows;
	recording->process_count = 1;
	if (live_read_rows(copied->memory, copied->bytes, rows, &reason) < 0 ||
	    (parts == COPIED_ALL &&
	     live_read_ages(copied->memory, copied->bytes, clock_ms, rows, &reason) < 0))
		return error_set(error, "reading the profile of process %d: %s", (int)copied->pid,
				 reason.message);
	fill_process(copied, clock_ns(CLOCK_MONOTONIC), &rows->process);
	if (parts == COPIED_ALL)
		name_linked_in(&rows->process); /* reads its file */
	note_clock(&rows->process, clock_ms);
	return fill_run(&rows->process, version, &recording->run, error);
}

int inspect_recorded(struct copied *copied, const struct recorded *recorded,
		     enum copied_parts parts, const char *version, struct recording *ret,
		     struct error *error)
{
	struct recording recording = { 0 };
	int status = copied_take(copied, recorded, parts, error);

	if (status < 0)
		return status;
	if (fill(copied, parts, version, &recording, error) < 0) {
		recording_release(&recording);
		return COPIED_FAILED;
	}
	*ret = recording;
	return 0;
}

int inspect_process(pid_t pid, const char *version, struct recording *ret, struct error *error)
{
	AUTO(copied_release) struct copied copied = COPIED_INIT;
	struct recorded recorded;

	if (recorded_find(pid, &recorded, error) < 0)
		return -1;
	return inspect_recorded(&copied, &recorded, COPIED_ALL, version, ret, error) < 0 ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/maps says where the profile is mapped, process_vm_readv copies the head and the opened part of each region
 * to the same places of a private mapping, and the usual reader reads that. No state.
 *
 * The target writes while it is copied. Two rules of docs/format.md are kept: of records and slots the frees are taken
 * from an earlier copy than the allocations, so that no sum is negative; and if the peak's state has changed meanwhile,
 * all is copied again.
 */
#include "collect/inspect.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/linked_in.h"
#include "collect/map_line.h"
#include "collect/procfs.h"
#include "collect/target.h"
#include "format/live_read.h"
#include "format/live_view.h"
#include "util/cleanup.h"

enum { COPIES_MAX = 5 };
#define COPY_BYTES (16ull << 20)
#define NS_PER_MS 1000000ull

/* ---- why not ---- */

static long ptrace_scope(void)
{
	char text[16];

	if (procfs_small("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) == 0)
		return 0;
	return strtol(text, NULL, 10);
}

static int not_permitted(pid_t pid, struct error *error)
{
	long scope = ptrace_scope();

	if (scope >= 3)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is %ld, which forbids it to "
			"everybody until the next boot",
			(int)pid, scope);
	if (scope == 2)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is 2, which leaves it to root; "
			"run this as root",
			(int)pid);
	if (scope == 1)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is 1, which allows it for "
			"descendants only; run this as root, or set it to 0",
			(int)pid);
	return error_set(
		error,
		"process %d may not be read: it belongs to another user, or has privileges that you do not "
		"have; run this as root",
		(int)pid);
}

static int failed(pid_t pid, int number, struct error *error)
{
	if (number == ESRCH || number == ENOENT || (kill(pid, 0) < 0 && errno == ESRCH))
		return error_set(error, "there is no process %d", (int)pid);
	if (number == EPERM || number == EACCES)
		return not_permitted(pid, error);
	errno = number;
	return error_errno(error, "cannot read the memory of process %d", (int)pid);
}

/* ---- where ---- */

struct place {
	uint64_t profile; /* address of its head */
	uint64_t control; /* 0 = none */
};

/* The last one that begins with a head: a fork's child may still have its parent's before its own. */
static void find_places(const char *maps, struct place *ret)
{
	for (const char *line = maps; *line;) {
		const char *end = strchrnul(line, '\n');
		struct map_line map;

		if (map_line_parse(line, &map) && map.offset == 0) {
			if (strncmp(map.name, "/memfd:heapgauge-profile", 24) == 0)
				ret->profile = map.start;
			else if (strncmp(map.name, "/memfd:heapgauge-control", 24) == 0)
				ret->control = map.start;
		}
		line = *end ? end + 1 : end;
	}
}

static int find(pid_t pid, struct place *ret, struct error *error)
{
	AUTO_FREE char *maps = NULL;

	errno = 0;
	maps = procfs_file(pid, "maps", NULL);
	if (!maps)
		return failed(pid, errno, error);
	find_places(maps, ret);
	if (ret->profile == 0)
		return error_set(
			error,
			"process %d is not recorded: it holds no profile. Start it with 'heapgauge record "
			"PROGRAM'",
			(int)pid);
	return 0;
}

/* ---- copying ---- */

/* Returns 0, or an errno. */
static int copy(pid_t pid, uint64_t from, void *to, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = MIN(bytes - done, COPY_BYTES);
		struct iovec local = { (char *)to + done, part };
		struct iovec remote = { (void *)(uintptr_t)(from + done), part };
		ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (got <= 0)
			return got < 0 ? errno : EFAULT;
		done += (uint64_t)got;
	}
	return 0;
}

struct copied {
	pid_t pid;
	uint64_t at; /* the profile in the process */
	char *memory;
	uint64_t bytes;
};

static void copied_release(struct copied *copied)
{
	if (copied->memory)
		munmap(copied->memory, copied->bytes);
}

static int copy_region(struct copied *c, enum live_region region)
{
	const struct live_header *head = (const struct live_header *)(const void *)c->memory;
	uint64_t at = head->region[region].at;

	return copy(c->pid, c->at + at, c->memory + at, head->opened[region]);
}

/* Takes the frees of an earlier copy of the same tables. */
static void take_frees(struct copied *c, const struct live_record *records,
		       const struct live_slot *slots)
{
	const struct live_header *head = (const struct live_header *)(const void *)c->memory;
	struct live_record *new_records =
		(struct live_record *)(void *)(c->memory + head->region[LIVE_RECORDS].at);
	struct live_slot *new_slots =
		(struct live_slot *)(void *)(c->memory + head->region[LIVE_SLOTS].at);

	for (uint64_t i = 0; i < head->opened[LIVE_RECORDS] / sizeof *records; i++) {
		new_records[i].frees = records[i].frees;
		new_records[i].freed_bytes = records[i].freed_bytes;
		new_records[i].freed_slack = records[i].freed_slack;
	}
	for (uint64_t i = 0; i < head->opened[LIVE_SLOTS] / sizeof *slots; i++) {
		new_slots[i].frees = slots[i].frees;
		new_slots[i].freed_bytes = slots[i].freed_bytes;
		new_slots[i].freed_slack = slots[i].freed_slack;
	}
}

/* A copy of what a region held, apart from the mapping. NULL if there is no memory for it. */
static void *kept(const struct copied *c, enum live_region region)
{
	const struct live_header *head = (const struct live_header *)(const void *)c->memory;
	void *copy_of = malloc(head->opened[region] + 1);

	if (copy_of)
		memcpy(copy_of, c->memory + head->region[region].at, head->opened[region]);
	return copy_of;
}

static int copy_regions(struct copied *c)
{
	AUTO_FREE struct live_record *records = NULL;
	AUTO_FREE struct live_slot *slots = NULL;
	int number = copy_region(c, LIVE_RECORDS);

	if (number == 0)
		number = copy_region(c, LIVE_SLOTS);
	if (number != 0)
		return number;
	records = kept(c, LIVE_RECORDS);
	slots = kept(c, LIVE_SLOTS);
	if (!records || !slots)
		return ENOMEM;
	for (int i = 0; i < LIVE_REGIONS && number == 0; i++)
		number = copy_region(c, (enum live_region)i);
	if (number == 0)
		take_frees(c, records, slots);
	return number;
}

/* Checks what came, and cuts what it claims to have opened: it is another process' word. */
static int check_head(const struct copied *c, struct error *error)
{
	struct live_header *head = (struct live_header *)(void *)c->memory;
	const char *reason = live_header_check(head, c->bytes);

	if (reason)
		return error_set(error, "the profile of process %d cannot be read: %s", (int)c->pid,
				 reason);
	if (!head->ready)
		return error_set(error, "the recorder in process %d has not begun yet: try again",
				 (int)c->pid);
	for (int i = 0; i < LIVE_REGIONS; i++)
		head->opened[i] = MIN(head->opened[i], head->region[i].bytes);
	return 0;
}

/* Copies the head, then all regions, until the peak did not move meanwhile or it has been tried often enough. */
static int copy_profile(struct copied *c, struct error *error)
{
	struct live_header first;
	int number = copy(c->pid, c->at, &first, sizeof first);

	if (number != 0)
		return failed(c->pid, number, error);
	if (live_header_check(&first, first.total_bytes) || first.total_bytes > (1ull << 46))
		return error_set(error,
				 "the profile of process %d is damaged, or of another version",
				 (int)c->pid);
	c->bytes = first.total_bytes;
	c->memory = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->memory == MAP_FAILED) {
		c->memory = NULL;
		return error_errno(error, "cannot make room for the profile");
	}
	for (int i = 0; i < COPIES_MAX; i++) {
		uint32_t state;

		number = copy(c->pid, c->at, c->memory, sizeof first);
		if (number == 0 && check_head(c, error) < 0)
			return -1;
		if (number == 0)
			number = copy_regions(c);
		if (number == 0)
			number = copy(c->pid, c->at + offsetof(struct live_header, peak.state),
				      &state, sizeof state);
		if (number != 0)
			return failed(c->pid, number, error);
		if (state == ((const struct live_header *)(const void *)c->memory)->peak.state)
			break;
	}
	return 0;
}

/* ---- the recording ---- */

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
	const struct live_header *head = (const struct live_header *)(const void *)c->memory;
	int statm = procfs_statm_open(c->pid);

	free(row->command);
	free(row->exe);
	row->command = procfs_command(c->pid);
	row->exe = procfs_exe(c->pid);
	name_linked_in(row);
	row->pid = (uint32_t)c->pid;
	row->ppid = (uint32_t)procfs_parent(c->pid);
	row->end = END_RUNNING;
	row->duration_ns = saturating_sub(now_ns, head->started_mono_ns);
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

/* The collector's clock at this moment; without one it stands where it was left. */
static uint32_t control_clock(const struct copied *c, uint64_t control)
{
	struct live_control page;

	return control && copy(c->pid, control, &page, sizeof page) == 0 ? page.clock_ms : 0;
}

/* Without a collector the clock stands still. */
static void note_clock(struct process_row *process, uint32_t clock_ms)
{
	uint64_t behind_ms = saturating_sub(process->duration_ns / NS_PER_MS, clock_ms);

	if (behind_ms >= STOPPED_MS)
		process->health[HEALTH_clock_stopped] += behind_ms;
}

/* Everything but the rows is what /proc says now. */
static int fill(const struct copied *copied, uint64_t control, const char *version,
		struct recording *recording, struct error *error)
{
	struct format_error reason = { "" };
	struct process_rows *rows = calloc(1, sizeof *rows);

	if (!rows)
		return error_set(error, "no memory left");
	recording->processes = rows;
	recording->process_count = 1;
	uint32_t clock_ms = control_clock(copied, control);

	if (live_read_rows(copied->memory, copied->bytes, rows, &reason) < 0 ||
	    live_read_ages(copied->memory, copied->bytes, clock_ms, rows, &reason) < 0)
		return error_set(error, "reading the profile of process %d: %s", (int)copied->pid,
				 reason.message);
	fill_process(copied, clock_ns(CLOCK_MONOTONIC), &rows->process);
	note_clock(&rows->process, clock_ms);
	return fill_run(&rows->process, version, &recording->run, error);
}

int inspect_process(pid_t pid, const char *version, struct recording *ret, struct error *error)
{
	AUTO(copied_release) struct copied copied = { .pid = pid };
	struct recording recording = { 0 };
	struct place place = { 0 };

	if (find(pid, &place, error) < 0)
		return -1;
	copied.at = place.profile;
	if (copy_profile(&copied, error) < 0 || !copied.memory)
		return -1;
	if (fill(&copied, place.control, version, &recording, error) < 0) {
		recording_release(&recording);
		return -1;
	}
	*ret = recording;
	return 0;
}

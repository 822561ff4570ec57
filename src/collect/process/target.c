/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's state of one process. The target writes its profile at any time; all reads go through format/live_read, which
 * treats it as untrusted. Every tick costs one pwrite; totals are summed every 10 ms (less often with many slots), and RSS is
 * one pread. Slower reads are in target_sample.c.
 *
 * Owned by the collector's loop, then by the encoder.
 * Invariant: the profile is held until target_free, even long after the process has ended: it is the recording.
 */
#include "collect/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define BUDGET_INTERVAL_NS (100 * NS_PER_MS)
enum { SAMPLED_MEMORIES = 10 };
#define BUDGET_FAR_NS (500 * NS_PER_MS)
/* Until then the budget of the run's start applies: most processes have ended by then. */
#define BUDGET_FIRST_NS (10 * NS_PER_MS)
/* Inherited memory is measured best before the child has allocated and freed much itself. */
#define FORK_FIRST_NS (3 * NS_PER_MS)
#define PRESSURE_INTERVAL_NS (1000 * NS_PER_MS)
#define SYSTEM_INTERVAL_NS (50 * NS_PER_MS)
#define READING_NS (2 * NS_PER_MS) /* a reading of the totals that takes longer is repeated */

struct live_budget target_budget(uint64_t fixed_bytes, const struct cgroup_memory *cgroup,
				 uint64_t own_bytes)
{
	uint64_t group_free_bytes =
		cgroup->limit_bytes ? saturating_sub(cgroup->limit_bytes, cgroup->usage_bytes)
				    : UINT64_MAX;

	if (fixed_bytes)
		return (struct live_budget){ fixed_bytes, fixed_bytes };
	if (cgroup->limit_bytes) /* untouched memory is not charged */
		own_bytes = MIN(own_bytes, cgroup->usage_bytes);
	return live_budget_default(procfs_free_memory(), group_free_bytes, own_bytes);
}

void target_read_cgroup(struct target *target)
{
	target->cgroup = cgroups_memory(target->cgroups, target->pid);
	target->cgroup_is_read = true;
}

/* Recomputes the recorder's budget regularly, since free memory may shrink. The recorder keeps what it has. */
static void follow_budget(struct target *target, uint64_t fixed_bytes, uint64_t at_ns)
{
	struct live_budget budget;

	target_read_cgroup(target);
	budget = target_budget(fixed_bytes, &target->cgroup, target->totals.own_bytes);
	live_profile_write_budget(&target->profile, budget.bytes, budget.limit_bytes);
	/* The kernel's files are expensive to read: less often while the recorder is far below its budget. */
	target->next_budget_ns =
		at_ns +
		(target->totals.own_bytes < budget.bytes / 4 ? BUDGET_FAR_NS : BUDGET_INTERVAL_NS);
}

/* The process' own start time, if it is plausible: in another time namespace its clock differs. It may be long ago: the process
 * or the collector may have been stopped. */
static uint64_t start_of(const struct live_header *head, uint64_t run_start_ns, uint64_t now_ns)
{
	uint64_t started_ns = head->started_mono_ns;

	return started_ns >= run_start_ns && started_ns <= now_ns ? started_ns : now_ns;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Uses the profile's own data, since the process may have ended. */
static void describe(struct target *target, const struct collect_options *options)
{
	const struct live_own *own = &target->profile.head->own;
	bool same_numbers = target->pid == 0 || (uint32_t)target->pid == target->profile.head->pid;

	target->known = (struct process_row){
		.pid = target->pid ? (uint32_t)target->pid : target->profile.head->pid,
		.ppid = same_numbers ? own->ppid : (uint32_t)procfs_parent(target->pid),
		.command = strndup(own->command, sizeof own->command),
		.exe = strndup(own->exe, sizeof own->exe),
		.rank = own->rank,
		.uid = target->profile.user || !target->pid ? target->profile.user
							    : procfs_user(target->pid),
		.depth_limit = options->depth_limit,
	};
}

struct target *target_new(struct live_profile *profile, pid_t pid, int pid_fd,
			  const struct cgroups *cgroups, struct error *error)
{
	struct target *target = calloc(1, sizeof *target);

	if (!target) {
		live_profile_release(profile);
		if (pid_fd >= 0)
			close(pid_fd);
		error_set(error, "out of memory");
		return NULL;
	}
	target->profile = *profile;
	*profile = LIVE_PROFILE_INIT;
	target->id = target->profile.head->own.id;
	target->pid = pid;
	target->pid_fd = pid_fd;
	target->statm_fd = pid ? procfs_statm_open(pid) : -1;
	target->cgroups = cgroups;
	target->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	series_init(&target->series);
	snapshots_init(&target->snapshots);
	memories_init(&target->memories);
	return target;
}

void target_start(struct target *target, uint64_t started_ns, uint64_t now_ns)
{
	target->started_ns = started_ns;
	/* The time before the hand-over does not count as a stopped clock. */
	target->profile.control.clock_ms = saturating_sub(now_ns, started_ns) / NS_PER_MS;
}

struct target *target_take_over(struct live_profile *profile, pid_t pid, int pid_fd,
				const struct collect_options *options,
				const struct cgroups *cgroups, uint64_t run_start_ns,
				uint64_t now_ns, struct error *error)
{
	struct target *target = target_new(profile, pid, pid_fd, cgroups, error);

	if (!target)
		return NULL;
	target->left_out = options->children == COLLECT_CHILDREN_EXEC &&
			   target->profile.head->own.begin == LIVE_BEGIN_FORK;
	if (options->mode == LIVE_MODE_SAMPLE) /* the kernel walks all pages for each row */
		target->memories.interval_ns *= SAMPLED_MEMORIES;
	if (target->profile.head->own.begin == LIVE_BEGIN_FORK) {
		target->inherited.is_wanted = true;
		target->memories.earliest_ns = FORK_FIRST_NS;
	}
	target->next_budget_ns = BUDGET_FIRST_NS;
	describe(target, options);
	target_start(target, start_of(target->profile.head, run_start_ns, now_ns), now_ns);
	return target;
}

void target_free(struct target *target)
{
	if (!target)
		return;
	live_profile_release(&target->profile);
	series_release(&target->series);
	snapshots_release(&target->snapshots);
	memories_release(&target->memories);
	vector_release(&target->inherited.list);
	vector_release(&target->threads);
	loaded_release(&target->loaded);
	static_data_release(&target->static_data);
	vector_release(&target->size_moments);
	mark_rows_release(&target->marks);
	vector_release(&target->requests);
	vector_release(&target->sample.requests);
	for (size_t i = 0; target->triggers && i < target->conditions->list.count; i++)
		trigger_state_release(&target->triggers[i]);
	pages_rows_release(&target->pages);
	recording_release(&target->image);
	free(target->triggers);
	free(target->known.command);
	free(target->known.exe);
	free(target->seen_exe);
	if (target->pid_fd >= 0)
		close(target->pid_fd);
	if (target->statm_fd >= 0)
		close(target->statm_fd);
	free(target);
}

/* Whether blocks were, or may have been, allocated or freed since the totals were last read: only then does a stopped clock
 * distort their ages. */
static bool has_operated(struct target *target)
{
	struct live_totals now;

	return !live_profile_read_totals(&target->profile, &now) ||
	       now.calls != target->totals.calls || now.frees != target->totals.frees;
}

void target_tick(struct target *target, uint64_t now_ns)
{
	/* The loop's now_ns may be older than a target that connected in the same iteration. */
	uint64_t ms = saturating_sub(now_ns, target->started_ns) / NS_PER_MS;
	uint64_t gap_ms = saturating_sub(ms, target->profile.control.clock_ms);

	if (gap_ms >= STOPPED_MS && has_operated(target))
		target->stopped_ms += gap_ms;
	live_profile_write_clock(&target->profile, ms);
}

bool target_is_due(const struct target *target, uint64_t now_ns)
{
	return now_ns >= target->started_ns + target->next_totals_ns;
}

/* Returns when they were read, since the target's start: a collector that waits for a CPU in between reads them again. */
static uint64_t read_totals(struct target *target)
{
	enum { TRIES = 4 };
	struct live_totals totals;
	uint64_t began_ns, now_ns = clock_monotonic_ns();
	int tries = 0;

	do {
		began_ns = now_ns;
		if (live_profile_read_totals(&target->profile, &totals))
			target->totals = totals;
		now_ns = clock_monotonic_ns();
	} while (now_ns - began_ns > READING_NS && ++tries < TRIES);
	if (target->ended_ns == 0) {
		struct procfs_statm memory = procfs_statm(target->statm_fd);

		target->rss_bytes = memory.rss_bytes;
		target->peak_rss_bytes = MAX(target->peak_rss_bytes, memory.rss_bytes);
		target->peak_file_bytes = MAX(target->peak_file_bytes, memory.file_bytes);
	}
	return saturating_sub(now_ns, target->started_ns);
}

static void add_point(struct target *target, uint64_t at_ns)
{
	const struct live_totals *totals = &target->totals;
	struct series_row row = {
		.at_ns = at_ns,
		.live_bytes = totals->live.bytes,
		.live_blocks = totals->live.blocks,
		.live_bound_bytes = totals->live.bytes_bound,
		.live_bound_blocks = totals->live.blocks_bound,
		.calls = totals->calls,
		.bytes = totals->bytes,
		.frees = totals->frees,
		.rss_bytes = target->rss_bytes,
		.threads = totals->threads,
		.map_live_bytes = totals->map_live_bytes,
		.own_bytes = totals->own_bytes,
	};

	series_add(&target->series, &row);
}

void target_ended(struct target *target, uint64_t now_ns, enum process_end end, uint32_t exit_code)
{
	/* The loop's now_ns may be older than a target that connected in the same iteration, and than the last point. */
	uint64_t at_ns = saturating_sub(now_ns, target->started_ns);
	size_t points = target->series.points.count;

	if (points > 0)
		at_ns = MAX(at_ns, target->series.points.at[points - 1].at_ns);
	target->ended_ns = target->started_ns + at_ns;
	target->end_known = end != END_UNKNOWN;
	target->known.end = end;
	target->known.exit_code = exit_code;
	target_tick(target, now_ns); /* it may have ended while the collector was stopped */
	read_totals(target);
	add_point(target, at_ns);
}

/* The kernel appends " (deleted)" if the file was removed or replaced: it is still the same program. */
static void cut_deleted(char *exe)
{
	static const char mark[] = " (deleted)";

	if (exe && ends_with(exe, mark))
		exe[strlen(exe) - (sizeof mark - 1)] = '\0';
}

/* Whether the process has exec'd a program without the recorder: with it, it would have handed over again. */
static bool has_become_another(struct target *target)
{
	AUTO_FREE char *exe = target->pid ? procfs_exe(target->pid) : NULL;

	/* A path that fills the buffer may be truncated. */
	if (!exe || !exe[0] || !target->known.exe || !target->known.exe[0] ||
	    strlen(target->known.exe) + 1 >= sizeof((struct live_own *)0)->exe)
		return false;
	cut_deleted(exe);
	if (!target->seen_exe) {
		AUTO_FREE char *own = strdup(target->known.exe);

		cut_deleted(own);
		/* In a chroot, /proc shows a longer path than the process sees. */
		target->seen_exe = own && !ends_with(exe, own) ? TAKE(own) : strdup(exe);
	}
	return target->seen_exe && strcmp(exe, target->seen_exe) != 0;
}

bool target_sample(struct target *target, uint64_t now_ns, uint64_t budget_bytes, bool becomes)
{
	uint64_t at_ns = saturating_sub(now_ns, target->started_ns);
	bool is_free = !target_is_sampling(target);
	bool due = is_free && at_ns >= target->snapshots.next_ns, reads_memory;
	uint64_t read_ns = read_totals(target);

	reads_memory = is_free && memories_is_due(&target->memories, at_ns, target->rss_bytes,
						  target_least_live_bytes(target));
	if (at_ns >= target->next_budget_ns)
		follow_budget(target, budget_bytes, at_ns);
	/* Summing many slots is expensive: 64 of them are 8 KiB, read twice. */
	target->next_totals_ns = at_ns + SERIES_INTERVAL_NS * (1 + target->totals.slots / 64);
	if (at_ns >= target->series.next_ns)
		add_point(target, read_ns);
	if ((becomes || due) && has_become_another(target)) {
		target_ended(target, now_ns, END_EXEC, 0);
		return false;
	}
	if (due || reads_memory)
		target_sample_prepare(target, at_ns, due, reads_memory);
	return due || reads_memory;
}

void target_request(struct target *target, const char *name)
{
	struct target_request request = { "" };

	snprintf(request.name, sizeof request.name, "%s", name);
	(void)vector_push(&target->requests, request); /* if out of memory, it is dropped */
}

/* The kernel updates these averages every two seconds. */
static void follow_pressure(struct target *target, uint64_t at_ns)
{
	if (at_ns < target->next_pressure_ns ||
	    (!triggers_find(target->conditions, TRIGGER_PRESSURE) &&
	     !triggers_find(target->conditions, TRIGGER_PRESSURE_FULL)))
		return;
	target->pressure = cgroups_pressure(target->cgroups, target->pid);
	target->next_pressure_ns = at_ns + PRESSURE_INTERVAL_NS;
}

/* What is read only if a condition needs it. */
static void follow_system(struct target *target, uint64_t at_ns)
{
	bool vm = triggers_find(target->conditions, TRIGGER_VM) != NULL;
	bool system = triggers_find(target->conditions, TRIGGER_SYSTEM) != NULL;

	if (at_ns < target->next_system_ns || (!vm && !system))
		return;
	if (vm)
		target->vm_bytes = saturating_sub(procfs_statm(target->statm_fd).vm_bytes,
						  target->profile.head->total_bytes);
	if (system)
		target->system = procfs_system();
	target->next_system_ns = at_ns + SYSTEM_INTERVAL_NS;
}

/* Those on stacks are the worker's. The peak and the end are pages only, as often as reading them may take time. */
static bool is_evaluated(const struct target *target, const struct trigger *trigger, uint64_t at_ns)
{
	if (trigger->kind == TRIGGER_PEAK || trigger->kind == TRIGGER_END)
		return !target_is_sampling(target) && !target->wants_pages &&
		       at_ns >= target->next_pages_ns;
	return trigger->kind != TRIGGER_STACK;
}

void target_check_triggers(struct target *target, const struct triggers *triggers, uint64_t now_ns)
{
	uint64_t at_ns = saturating_sub(now_ns, target->started_ns);

	if (!target->triggers) {
		target->conditions = triggers;
		target->triggers = calloc(triggers->list.count + 1, sizeof *target->triggers);
	}
	follow_pressure(target, at_ns);
	follow_system(target, at_ns);
	struct trigger_input input = {
		.at_ns = at_ns,
		.rss_bytes = target->rss_bytes,
		.live_bytes = trigger_range_of(target->totals.live.bytes,
					       target->totals.live.bytes_bound),
		.calls = target->totals.calls,
		.memory_bytes = target->memory_bytes,
		.group_limit_bytes = target->cgroup.limit_bytes,
		.group_bytes = target->cgroup.usage_bytes,
		.some_pressure = target->pressure.some_10s,
		.full_pressure = target->pressure.full_10s,
		.vm_bytes = target->vm_bytes,
		.system_bytes = target->system.total_bytes,
		.system_used_bytes =
			saturating_sub(target->system.total_bytes, target->system.available_bytes),
	};

	if (input.group_limit_bytes != 0)
		input.memory_bytes = MIN(input.memory_bytes, input.group_limit_bytes);
	for (size_t i = 0; i < triggers->list.count && target->triggers; i++) {
		if (is_evaluated(target, &triggers->list.at[i], at_ns) &&
		    trigger_fires(&triggers->list.at[i], &target->triggers[i], &input))
			target_fire(target, &triggers->list.at[i]);
	}
}

void target_fire(struct target *target, const struct trigger *trigger)
{
	if (trigger->reads_pages)
		target->wants_pages = true;
	if (trigger->kind == TRIGGER_PEAK || trigger->kind == TRIGGER_END)
		return;
	char name[LIVE_TAG_TEXT_MAX + 1];

	trigger_name(trigger, name, sizeof name);
	target_request(target, name);
	if (trigger->writes && !target->dump)
		target->dump = trigger->text;
}

const char *target_take_dump(struct target *target)
{
	if (target_is_sampling(target))
		return NULL;
	if (!target->dump)
		target->dump = target->sample.dump;
	target->sample.dump = NULL;
	return TAKE(target->dump);
}

bool target_has_request(struct target *target, uint64_t now_ns)
{
	uint64_t marks = target->profile.head->used[LIVE_MARKS];
	uint64_t at_ns = saturating_sub(now_ns, target->started_ns);

	if (target_is_sampling(target))
		return false;
	if (!target_scan_is_due(target, at_ns) && target->requests.count == 0 &&
	    !target->wants_pages &&
	    (marks <= __atomic_load_n(&target->marks_read, __ATOMIC_RELAXED) ||
	     now_ns < target->next_marks_ns))
		return false;
	target_sample_prepare(target, at_ns, false, at_ns >= target->memories.earliest_ns);
	return true;
}

bool target_waits(struct target *target, uint64_t now_ns)
{
	if (!live_profile_waits(&target->profile))
		return false;
	live_profile_answer_exit(&target->profile);
	if (target_is_sampling(target))
		return false;
	target_sample_prepare(target, saturating_sub(now_ns, target->started_ns), false, false);
	target->sample.at_exit = true;
	return true;
}

/* Linux 6.15; missing from the headers that we build with. */
struct pidfd_info_v0 {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_v0) == 64, "the size is part of the request's number");
#define PIDFD_ASK_INFO _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_ASK_EXIT (1ull << 3)

static bool ask_pidfd(int fd, int *ret_status)
{
	struct pidfd_info_v0 info = { .mask = PIDFD_ASK_EXIT };

	if (fd < 0 || ioctl(fd, PIDFD_ASK_INFO, &info) < 0 || !(info.mask & PIDFD_ASK_EXIT))
		return false;
	*ret_status = info.exit_code;
	return true;
}

void target_ask_end(struct target *target)
{
	int status;

	/* The pidfd has the status once the parent has reaped the process, /proc only before. In this order: if the pidfd has
	 * none, the pid in /proc still belongs to this process. */
	if (!ask_pidfd(target->pid_fd, &status) &&
	    !(target->pid_fd >= 0 && procfs_zombie_status(target->pid, &status)))
		return;
	target->end_known = true;
	if (WIFSIGNALED(status)) {
		target->known.exit_code = (uint32_t)WTERMSIG(status);
		target->known.end = WTERMSIG(status) == SIGKILL ? END_KILLED : END_SIGNAL;
	} else {
		target->known.exit_code = (uint32_t)WEXITSTATUS(status);
		target->known.end = END_EXIT;
	}
}

bool target_is_ready(struct target *target)
{
	return live_profile_is_ready(&target->profile) ||
	       (live_profile_poll(&target->profile) && live_profile_is_ready(&target->profile));
}

/* The rows may be older than the pages if the profile was lost with its process. */
static void give_pages(struct target *target, struct process_rows *rows)
{
	const struct pages_rows *pages = &target->pages;
	bool known = pages->site_count == 0 ||
		     pages->sites[pages->site_count - 1].site < rows->site_count;

	for (size_t i = 0; i < pages->heap_count; i++)
		known = known && pages->heaps[i].holder_site < rows->site_count;
	for (size_t i = 0; i < pages->tile_count; i++)
		known = known && pages->tiles[i].site < rows->site_count;
	if (!known)
		return;
	rows->pages = target->pages;
	target->pages = (struct pages_rows){ 0 };
}

static void give_image(struct target *target, struct process_rows *rows)
{
	if (target->image.process_count == 0 ||
	    target->image.processes[0].site_count > rows->site_count)
		return;
	rows->image = target->image.processes[0].image;
	target->image.processes[0].image = (struct image_rows){ 0 };
}

/* Moves the time series and snapshots to the rows, which the caller releases. */
static void give_times(struct target *target, struct process_rows *rows)
{
	rows->series = target->series.points.at;
	rows->series_count = target->series.points.count;
	const struct memory_flow end = {
		.allocated_bytes = saturating_add(
			saturating_add(rows->process.bytes, rows->process.fragmentation),
			rows->process.map_bytes),
	};

	memories_note_flow(&target->memories, NULL, end);
	rows->memory = target->memories.rows.at;
	rows->memory_count = target->memories.rows.count;
	loaded_give(&target->loaded, rows);
	static_data_give(&target->static_data, rows);
	/* smaps counts pages, while the series uses the kernel's approximate counter. */
	for (size_t i = 0; i < rows->memory_count; i++)
		target->peak_rss_bytes = MAX(target->peak_rss_bytes, rows->memory[i].rss_bytes);
	mark_rows_give(&target->marks, &target->snapshots, rows);
	rows->size_moments = target->size_moments.at;
	rows->size_moment_count = target->size_moments.count;
	memset(&target->size_moments, 0, sizeof target->size_moments);
	give_pages(target, rows);
	give_image(target, rows);
	target->memories = (struct memories){ 0 };
	target->series = (struct series){ 0 };
	for (size_t i = 0; i < rows->thread_count && i < target->threads.count; i++) {
		const struct target_thread *thread = &target->threads.at[i];

		if (thread->name[0])
			memcpy(rows->threads[i].name, thread->name, sizeof rows->threads[i].name);
		rows->threads[i].stack_reserved_bytes = thread->stack_reserved_bytes;
		rows->threads[i].stack_used_bytes = thread->stack_used_bytes;
		rows->threads[i].stack_most_bytes = thread->stack_most_bytes;
	}
}

static void give_known(struct target *target, uint64_t end_ns, uint64_t run_start_ns,
		       uint64_t real_offset_ns, struct process_row *row)
{
	free(row->command);
	free(row->exe);
	row->command = TAKE(target->known.command);
	row->exe = TAKE(target->known.exe);
	row->pid = target->known.pid;
	row->ppid = target->known.ppid;
	row->rank = target->known.rank;
	row->uid = target->known.uid;
	row->end = target->known.end;
	row->exit_code = target->known.exit_code;
	row->started_real_ns = target->started_ns + real_offset_ns;
	row->started_offset_ns = saturating_sub(target->started_ns, run_start_ns);
	row->duration_ns = end_ns - target->started_ns;
	row->peak_rss_bytes = target->peak_rss_bytes;
	row->peak_file_bytes = target->peak_file_bytes;
	row->health[HEALTH_clock_stopped_ms] += target->stopped_ms;
	row->health[HEALTH_lost_end] += target->profile.is_old;
}

/* If the process is still alive, a snapshot may contain sites that the rows do not. */
static void drop_unknown_sites(struct process_rows *rows)
{
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		struct snapshot_row *row = &rows->snapshots[i];

		while (row->sites_count > 0 &&
		       rows->snapshot_sites[row->sites_at + row->sites_count - 1].site >=
			       rows->site_count)
			row->sites_count--;
	}
}

int target_rows(struct target *target, uint64_t now_ns, uint64_t run_start_ns,
		uint64_t real_offset_ns, struct process_rows *ret, struct error *error)
{
	uint64_t end_ns = target->ended_ns ? target->ended_ns : MAX(now_ns, target->started_ns);
	uint64_t end_ms = (end_ns - target->started_ns) / NS_PER_MS;
	struct format_error reason = { "" };

	if (live_profile_load(&target->profile, PROFILE_COPY_ALL, target->ended_ns != 0, error) < 0)
		return -1;
	if (target->ended_ns != 0)
		target_sample_last(target);
	if (live_read_rows(target->profile.memory, target->profile.bytes, &target->profile.moves,
			   live_profile_mode(&target->profile), ret, &reason) < 0)
		return error_set(error, "reading the profile of process %d: %s", (int)target->pid,
				 reason.message);
	if (live_read_ages(target->profile.memory, target->profile.bytes, end_ms, ret, &reason) <
	    0) {
		process_rows_release(ret);
		return error_set(error, "reading the blocks of process %d: %s", (int)target->pid,
				 reason.message);
	}
	give_times(target, ret);
	drop_unknown_sites(ret);
	give_known(target, end_ns, run_start_ns, real_offset_ns, &ret->process);
	return 0;
}

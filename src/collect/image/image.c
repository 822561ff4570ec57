/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order is that of docs/internals/image.md: a first copy of the profile, so that the second one, while the process is stopped, finds
 * its memory ready; the stop; the copy; then either a clone, after which the process goes on, or the scan at once. The profile is shared
 * memory, which a clone goes on sharing: that is why the block map must be copied during the stop.
 *
 * All of it that traces happens in one thread, which then ends: with it the kernel lets go of whatever did not stop in time. All of it that
 * reads happens in another one, since a read may hang (guard.h).
 */
#include "collect/image/image.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/attach/inspect.h"
#include "collect/trace/clone.h"
#include "collect/image/core_threads.h"
#include "collect/trace/guard.h"
#include "collect/image/reach_rows.h"
#include "collect/image/references.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/procfs.h"
#include "collect/profile/profile_copy.h"
#include "util/clock.h"
#include "util/cleanup.h"

enum { OWN_MAPS_MAX = 1 << 20, TRIES_MAX = 3 };

struct image {
	pid_t pid;
	bool stop, may_stop; /* instead of a clone; if it cannot be cloned */
	int statm;	     /* of the process; -1: its end does not matter */
	struct recorded recorded;
	struct profile_copy copied;
	struct stopped stopped;
	struct stopped threads; /* as they were; not stopped any more with a clone */
	struct process_clone copy;
	struct live_blocks blocks;
	struct root_ranges roots;
	struct references references;
	struct image_rows rows;
	uint64_t stopped_ns;	      /* in all tries */
	struct image_zombies zombies; /* by the tracing thread */
	atomic_bool
		is_complete; /* everything was read: a failure to end the copy does not matter */
};

static void image_release(struct image *i)
{
	vector_release(&i->threads.threads);
	vector_release(&i->threads.words);
	image_rows_release(&i->rows);
	references_release(&i->references);
	roots_release(&i->roots);
	live_blocks_release(&i->blocks);
	profile_copy_release(&i->copied);
	if (i->statm >= 0)
		close(i->statm);
}

static int check_profile(const struct image *i, struct error *error)
{
	const struct live_header *head = profile_copy_head(&i->copied);
	uint64_t unknown = head->health[HEALTH_untracked_blocks];

	if (i->copied.control.mode != LIVE_MODE_EXACT || head->used[LIVE_SAMPLED] != 0)
		return error_set(
			error,
			"an image needs every block with its stack (--mode exact): of a sampled process most blocks are unknown, and what "
			"they refer to would look unreachable");
	if (head->compatible & LIVE_MISSES_BLOCKS)
		return error_set(
			error,
			"an image needs every block, but recording began later or was off for a time: what blocks from then refer to would look "
			"unreachable");
	if (unknown != 0)
		return error_set(
			error,
			"an image needs every block, but the recorder had no memory for %llu of them, and what they refer to would look "
			"unreachable: record with a larger --budget",
			(unsigned long long)unknown);
	if (head->health[HEALTH_damaged_tables] != 0)
		return error_set(
			error,
			"the profile is damaged, and what the missing blocks refer to would look unreachable");
	return 0;
}

static int compare_own(const void *left, const void *right)
{
	const struct own_map *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* By address, each byte once, whatever the process says. Returns how many are left. */
static size_t make_disjoint(struct own_map *own, size_t count)
{
	uint64_t end = 0;
	size_t kept = 0;

	qsort(own, count, sizeof *own, compare_own);
	for (size_t i = 0; i < count; i++) {
		struct own_map map = { MAX(own[i].start, end), own[i].end };

		if (map.start >= map.end)
			continue;
		own[kept++] = map;
		end = map.end;
	}
	return kept;
}

/* The mappings that the program made itself: private to the recorder, so they are read from the process while it is stopped. */
static struct own_map *read_own_maps(const struct image *i, const struct memory_source *source,
				     size_t *ret_count)
{
	struct live_maps maps = profile_copy_head(&i->copied)->maps;
	uint64_t bytes = MIN(maps.used, (uint64_t)OWN_MAPS_MAX) * sizeof(struct live_map_range);
	AUTO_FREE struct live_map_range *table = malloc(bytes + 1);
	struct own_map *own = calloc(MIN(maps.used, (uint64_t)OWN_MAPS_MAX) + 1, sizeof *own);

	*ret_count = 0;
	if (table && own && bytes > 0 &&
	    memory_source_read(source, i->recorded.profile + maps.at, table, bytes) ==
		    (ssize_t)bytes)
		for (size_t k = 0; k < bytes / sizeof *table; k++)
			own[(*ret_count)++] = (struct own_map){ table[k].start, table[k].end };
	if (own)
		*ret_count = make_disjoint(own, *ret_count);
	return own;
}

/* ---- in the tracing thread ---- */

static int stop(void *context, struct error *error)
{
	struct image *i = context;

	return stop_all(i->pid, &i->stopped, error);
}

static int clone_and_resume(void *context, struct error *error)
{
	struct image *i = context;

	if (clone_make(&i->stopped, &i->copy, error) < 0)
		return -1;
	/* The registers stay roots after the threads went on. */
	i->threads = i->stopped;
	i->stopped = (struct stopped){ 0 };
	for (size_t k = 0; k < i->threads.threads.count; k++)
		stop_thread_resume(i->threads.threads.at[k].tid);
	i->stopped_ns += clock_monotonic_ns() - i->threads.began_ns;
	return 0;
}

static int kill_copy(void *context, struct error *error)
{
	struct image *i = context;

	(void)error;
	clone_kill(&i->copy);
	return 0;
}

static void let_go(void *context)
{
	struct image *i = context;
	struct error error = ERROR_INIT;

	i->stopped_ns += stop_resume(&i->stopped);
	if (clone_end(&i->copy, &error) < 0)
		i->zombies.remaining = error;
	i->zombies.collected = i->copy.collected;
}

static int finish(void *context, struct error *error)
{
	(void)error;
	let_go(context);
	return 0;
}

/* ---- in the reading thread ---- */

/* Copies what describes the moment, and makes the clone. After it the process is stopped only with --stop. */
static int take_moment(struct guard *guard, struct image *i, struct own_map **ret_own,
		       size_t *ret_own_count, struct error *error)
{
	/* The memory of the first copy stays present: page faults would take as long as the copy itself. */
	i->copied.refresh = i->copied.still = true;
	if (guard_trace(guard, stop, error) < 0 ||
	    profile_copy_take(&i->copied, &i->recorded, PROFILE_COPY_ALL, error) < 0)
		return -1;
	*ret_own = read_own_maps(i, &(struct memory_source){ .pid = i->pid }, ret_own_count);
	if (!*ret_own)
		return error_set(error, "out of memory");
	return i->stop ? 0 : guard_trace(guard, clone_and_resume, error);
}

static int follow(struct image *i, const char *maps, const struct memory_source *source,
		  const struct own_map *own, size_t own_count, struct error *error)
{
	const struct stopped *threads = i->stop ? &i->stopped : &i->threads;
	AUTO(scanner_release) struct scanner scanner;

	if (!scanner_init(&scanner, source))
		return error_set(error, "out of memory");
	if (check_profile(i, error) < 0 ||
	    live_blocks_read(i->copied.memory, i->copied.bytes, i->copied.control.clock_ms,
			     &i->blocks, error) < 0)
		return -1;
	i->blocks.has_parents = profile_copy_head(&i->copied)->own.begin == LIVE_BEGIN_FORK;
	if (roots_find(maps, source, threads, &i->blocks, own, own_count, &i->roots, error) < 0 ||
	    references_find(&scanner, &i->blocks, &i->roots, threads, &i->references, error) < 0 ||
	    reach_rows_make(&i->references, &i->blocks, &scanner, &i->rows, error) < 0)
		return -1;
	return 0;
}

static int follow_process(struct image *i, const struct own_map *own, size_t own_count,
			  struct error *error)
{
	pid_t pid = i->stop ? i->pid : i->copy.pid;
	AUTO_FREE char *maps = procfs_file(pid, "maps", NULL);
	AUTO_CLOSE int pagemap = pagemap_open(pid);
	AUTO_CLOSE int statm = procfs_statm_open(pid);
	const struct memory_source source = { .pid = pid, .pagemap = pagemap };

	if (!maps)
		return error_set(error, "process %d has ended", i->pid);
	if (pagemap < 0)
		return error_errno(error, "the memory of process %d cannot be read", i->pid);
	if (follow(i, maps, &source, own, own_count, error) < 0)
		return -1;
	/* What was not read any more refers to nothing. */
	if (procfs_rss(statm) == 0)
		return error_set(
			error,
			"process %d, or the copy of it, was ended before all of its memory was read",
			i->pid);
	return 0;
}

static int read_image(struct guard *guard, void *context, struct error *error)
{
	struct image *i = context;
	AUTO_FREE struct own_map *own = NULL;
	size_t own_count = 0;

	if (recorded_find(i->pid, &i->recorded, error) < 0)
		return -1;
	profile_copy_hold(&i->copied, &i->recorded);
	if (profile_copy_take(&i->copied, &i->recorded, PROFILE_COPY_ALL, error) < 0 ||
	    check_profile(i, error) < 0)
		return -1;
	if (!i->stop && clone_prepare(i->pid, &i->copy, error) < 0) {
		if (!i->may_stop)
			return -1;
		i->stop = true;
	}
	if (take_moment(guard, i, &own, &own_count, error) < 0 ||
	    follow_process(i, own, own_count, error) < 0)
		return -1;
	atomic_store(&i->is_complete, true);
	/* Nothing that happens from here on makes the image incomplete. The kernel may need long to release a large copy. */
	if (i->stop || guard_trace_patiently(guard, kill_copy, NULL) == 0)
		(void)guard_trace(guard, finish, NULL);
	return 0;
}

/* ---- both ---- */

/* Nobody shall wait for its end, its port or its pipes because we still hold them. */
static bool has_ended(void *context)
{
	const struct image *i = context;

	return procfs_rss(i->statm) == 0;
}

static int fill(struct image *i, const char *version, struct recording *ret, struct error *error)
{
	if (inspect_copied(&i->copied, PROFILE_COPY_ALL, true, version, ret, error) < 0)
		return -1;
	struct process_rows *rows = &ret->processes[0];

	reach_rows_put(&i->rows, rows);
	rows->image.reach->stopped_ns = i->stopped_ns;
	rows->image.reach->taken = i->stop ? REACH_STOPPED : REACH_CLONE;
	return 0;
}

static int take_once(const struct image *wanted, const char *version, struct recording *ret,
		     struct image_zombies *zombies, struct error *error)
{
	struct image *i = malloc(sizeof *i);

	if (!i)
		return error_set(error, "out of memory");
	*i = *wanted;
	/* One that waits for its image need not live until it is complete. */
	i->statm = i->may_stop ? -1 : procfs_statm_open(i->pid);
	int status =
		guard_run(&(struct guarded_work){ .read = read_image,
						  .let_go = let_go,
						  .has_ended = i->statm >= 0 ? has_ended : NULL,
						  .context = i },
			  error);

	bool hangs = status == GUARD_HANGS;

	if (hangs && atomic_load(&i->is_complete)) {
		error_wrap(error, "process %d may keep a zombie", i->pid);
		zombies->remaining = *error;
		status = 0;
	}
	if (status == 0)
		status = fill(i, version, ret, error);
	if (hangs) /* the threads that hang use the rest for ever */
		return status < 0 ? -1 : 0;
	zombies->collected += i->zombies.collected;
	zombies->remaining = i->zombies.remaining;
	image_release(i);
	free(i);
	return status;
}

/* A block that realloc is moving is not in the block map: what only it refers to looks unreachable. */
static bool is_doubtful(const struct image_rows *image)
{
	bool found = false;

	for (size_t i = 0; i < image->reach_site_count && !found; i++)
		found = reach_is_unreachable(image->reach_sites[i].class);
	return found && image->reach->in_flight > 0;
}

/* Once more if it is doubtful, but the last one is the result in any case. */
static int take(const struct image *wanted, const char *version, struct recording *ret,
		struct image_zombies *zombies, struct error *error)
{
	int status = take_once(wanted, version, ret, zombies, error);
	struct image next = *wanted;

	for (int i = 1; status == 0 && i < TRIES_MAX; i++) {
		const struct image_rows *image = &ret->processes[0].image;
		struct recording again = { 0 };
		struct error ignored = ERROR_INIT;

		if (!is_doubtful(image) || zombies->remaining.message[0])
			break;
		next.stopped_ns = image->reach->stopped_ns;
		if (take_once(&next, version, &again, zombies, &ignored) < 0) {
			recording_release(&again);
			break;
		}
		recording_release(ret);
		*ret = again;
	}
	return status;
}

int image_take(pid_t pid, bool stop, const char *version, struct recording *ret,
	       struct image_zombies *ret_zombies, struct error *error)
{
	const struct image wanted = { .pid = pid, .stop = stop, .copied = PROFILE_COPY_INIT };

	*ret_zombies = (struct image_zombies){ 0 };
	return take(&wanted, version, ret, ret_zombies, error);
}

/* ---- core files ---- */

static int follow_core(struct image *i, const struct core_file *core, struct error *error)
{
	const struct memory_source source = { .core = core };
	AUTO_FREE char *maps = core_file_maps(core);
	AUTO_FREE struct own_map *own = NULL;
	size_t own_count = 0;

	own = read_own_maps(i, &source, &own_count);
	if (!maps || !own)
		return error_set(error, "out of memory");
	if (!threads_of_core(core, &i->threads))
		return error_set(error, "out of memory, or its threads have no registers");
	return follow(i, maps, &source, own, own_count, error);
}

static int check_whole(const struct core_file *core, struct error *error)
{
	if (!core->is_cut)
		return 0;
	return error_set(
		error,
		"it was cut off, perhaps by a limit on the size of core files: what its missing memory "
		"referred to would look unreachable. 'heapgauge report' shows the profile");
}

int image_take_core(const char *path, const char *version, struct recording *ret,
		    struct error *error)
{
	AUTO(core_file_release) struct core_file core = CORE_FILE_INIT;
	AUTO(image_release) struct image i = { .statm = -1, .copied = PROFILE_COPY_INIT };

	if (core_file_open(&core, path, error) < 0 ||
	    inspect_core_copy(&i.copied, &core, &i.recorded, error) < 0 ||
	    check_whole(&core, error) < 0 || follow_core(&i, &core, error) < 0 ||
	    inspect_core_copied(&i.copied, version, ret, error) < 0)
		return -1;
	reach_rows_put(&i.rows, &ret->processes[0]);
	ret->processes[0].image.reach->taken = REACH_CORE;
	return 0;
}

int image_take_exiting(pid_t pid, struct recording *ret, struct error *error)
{
	const struct image wanted = { .pid = pid, .may_stop = true, .copied = PROFILE_COPY_INIT };
	struct image_zombies ignored = { 0 };

	return take(&wanted, "", ret, &ignored, error);
}

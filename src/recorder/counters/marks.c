/* SPDX-License-Identifier: Apache-2.0 */
/* Marks, and the values of a snapshot.
 *
 * Owns: LIVE_MARKS and LIVE_SAVED, a ring. The collector reads snapshots from the ring and publishes how far it has read in the
 * control page. A snapshot copies the site counters when the program requests it, some twenty instructions each, and nobody waits.
 * If the ring is full (the collector is behind, or there are too many site counters), the mark says that nothing was saved, and
 * the collector uses the values it finds when it sees the mark. Without a collector the ring fills up once: a reader of the
 * profile finds everything that was saved. */
#include "recorder/counters/marks.h"

#include <time.h>

#include "format/live/live_now.h"
#include "recorder/lock.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"
#include "recorder/api/tags.h"

enum {
	MORE = 64, /* site counters that may be allocated during the copy */
	TRIES = 4,
};

static PROCESS_STATE struct lock marks_lock;
static PROCESS_STATE uint64_t saved_until; /* position in the ring, never wraps; under the lock */
static PROCESS_STATE uint64_t
	saved_from; /* everything before it has been read, even if the collector has not said so yet */

static PROCESS_STATE uint64_t due_ms; /* the next snapshot by time */

void marks_reset(void)
{
	due_ms = 0;
	marks_lock = (struct lock){ 0 };
	saved_until = saved_from = 0;
}

void marks_recover(struct slot *slot)
{
	lock_recover(&marks_lock, slot->id);
}

/* Returns 0 if a filter forbids clock_gettime: then the collector's clock applies, in milliseconds. */
static uint64_t now_ns(void)
{
	struct timespec now = { 0 };

	if (!sys_may(SYS_OTHERS) ||
	    sys_failed(sys_call3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0)))
		return 0;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Finds room for `count` consecutive entries, or UINT64_MAX. Under the lock. */
static uint64_t room_for(uint64_t count)
{
	uint64_t size = memory.head->region[LIVE_SAVED].bytes / sizeof(struct live_saved);
	uint64_t done = __atomic_load_n(&memory.control->saved_read, __ATOMIC_ACQUIRE);
	uint64_t at = saved_until;

	bool empty = MAX(done, saved_from) == at;

	/* Start over at the beginning if nothing is left to read, to use little
	 * memory, and if the rest of the ring is too short. */
	if (at % size != 0 && (empty || at % size + count > size))
		at += size - at % size;
	if (empty)
		saved_from = at;
	done = MAX(done, saved_from);
	if (at + count - done > size ||
	    (at % size + count) * sizeof(struct live_saved) > memory_opened(LIVE_SAVED))
		return UINT64_MAX;
	return at;
}

/* `to` has LIVE_SAVED_ARRAYS arrays of `most`. */
static uint32_t save(struct live_saved *to, uint64_t most)
{
	struct live_saved *all = to + LIVE_SAVED_ALLOCATED * most;
	struct live_saved *other = to + LIVE_SAVED_OTHER * most;
	uint64_t now = MIN(memory_used(LIVE_SITE_COUNTERS), most);

	for (uint32_t i = 1; i < now; i++) {
		const struct live_site_counters *counters = memory_counters(i);

		all[i].blocks = __atomic_load_n(&counters->calls, __ATOMIC_RELAXED);
		all[i].bytes = __atomic_load_n(&counters->bytes, __ATOMIC_RELAXED);
		to[i].blocks = all[i].blocks - __atomic_load_n(&counters->frees, __ATOMIC_RELAXED);
		to[i].bytes =
			all[i].bytes - __atomic_load_n(&counters->freed_bytes, __ATOMIC_RELAXED);
		other[i].blocks = __atomic_load_n(&counters->temporary, __ATOMIC_RELAXED);
		other[i].bytes = __atomic_load_n(&counters->fragmentation, __ATOMIC_RELAXED);
	}
	return (uint32_t)now;
}

/* The totals of all threads. */
static struct live_counted done_so_far(void)
{
	uint64_t slots = memory_used(LIVE_SLOTS);
	struct live_counted sum = { 0 };

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < slots; i++) {
		const struct live_slot *slot = memory_slot(i);

		sum.calls += __atomic_load_n(&slot->calls, __ATOMIC_RELAXED);
		sum.bytes += __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED);
		sum.frees += __atomic_load_n(&slot->frees, __ATOMIC_RELAXED);
		sum.freed_bytes += __atomic_load_n(&slot->freed_bytes, __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return sum;
}

/* Retries if other threads ran for long during the copy. Stores a bound of the error of live sums in entry 0, which no site has. */
static uint32_t save_at_once(struct live_saved *to, uint64_t most)
{
	struct live_counted before, after;
	uint32_t count, left = TRIES;

	do {
		before = done_so_far();
		count = save(to, most);
		after = done_so_far();
	} while (after.calls - before.calls + after.frees - before.frees > most && --left > 0);
	struct live_moved moved = live_moved_between(&before, &after);

	to[0] = (struct live_saved){ .bytes = moved.bytes, .blocks = moved.blocks };
	return count;
}

static void save_site_counters(struct slot *slot, struct live_mark *mark)
{
	uint64_t size = memory.head->region[LIVE_SAVED].bytes / sizeof(struct live_saved);
	uint64_t first = memory_used(LIVE_SITE_COUNTERS);
	uint64_t each = first + MORE, count = each * LIVE_SAVED_ARRAYS;

	/* Open all of the ring that this may need, since the position is only known under the lock. */
	if (count > size ||
	    !memory_open(
		    LIVE_SAVED,
		    MIN(__atomic_load_n(&saved_until, __ATOMIC_RELAXED) % size + 2 * count, size) *
			    sizeof(struct live_saved)) ||
	    !lock_acquire(&marks_lock, slot->id))
		return;
	uint64_t at = room_for(count);

	if (at != UINT64_MAX) {
		RECORDER_CHECK(at >= saved_until && at % size + count <= size);
		__atomic_store_n(&saved_until, at + count, __ATOMIC_RELAXED);
	}
	lock_release(&marks_lock);
	if (at == UINT64_MAX)
		return;
	/* The room is ours until the collector has read the mark. */
	mark->site_counters_count = save_at_once(
		(struct live_saved *)(void *)memory.region[LIVE_SAVED] + at % size, each);
	mark->saved_at = at;
	mark->saved_arrays = LIVE_SAVED_ARRAYS;
	mark->saved_count = (uint32_t)count;
}

void marks_add(struct slot *slot, enum live_mark_kind kind, const char *name)
{
	uint32_t tag = name != NULL ? tags_name(slot, LIVE_TAG_SCOPE, name) : 0;
	uint64_t id = memory_append(LIVE_MARKS, 1, sizeof(struct live_mark));

	if (id == UINT64_MAX) {
		health_add(kind == LIVE_MARK_SNAPSHOT ? HEALTH_lost_snapshots
						      : HEALTH_lost_details);
		return;
	}
	struct live_mark *mark = (struct live_mark *)(void *)memory.region[LIVE_MARKS] + id;

	mark->kind = kind;
	mark->name = tag;
	mark->at_ms = clock_ms();
	mark->mono_ns = now_ns();
	if (kind == LIVE_MARK_SNAPSHOT) {
		save_site_counters(slot, mark);
		if (mark->saved_count == 0)
			health_add(settings_of_collector ? HEALTH_late_snapshots
							 : HEALTH_lost_snapshots);
	}
	__atomic_store_n(&mark->there, 1, __ATOMIC_RELEASE);
}

/* After a pause there is one snapshot, not one for each interval. */
void marks_by_time(struct slot *slot, uint64_t now_ms)
{
	uint64_t every = settings_every_ms, due = __atomic_load_n(&due_ms, __ATOMIC_RELAXED);

	if (now_ms < MAX(due, every) ||
	    !__atomic_compare_exchange_n(&due_ms, &due, now_ms - now_ms % every + every, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	marks_add(slot, LIVE_MARK_SNAPSHOT, "every");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Slots and the thread log.
 *
 * Owns: LIVE_SLOTS, LIVE_THREADS, and struct slot with its table and walk in scratch memory. The next thread that needs a slot
 * inherits one whose thread has ended, so that 10^4 short-lived threads need only a handful of slots and no destructor. Counters
 * are per thread: a thread that inherits a slot starts with none. With very many threads, or without memory, it continues with
 * the previous thread's counters, and the log says so. Invariant: a slot belongs to its owner from the compare-and-swap of
 * live_slot.tid on. */
#include "recorder/slot.h"

#include "recorder/api/pool_words.h"
#include "recorder/python/stack.h"

#include <errno.h>
#include <sys/prctl.h>

#include "recorder/counters/account.h"
#include "recorder/checks/chaos.h"
#include "recorder/unwind/cfi.h"
#include "recorder/unwind/stack_cache.h"
#include "recorder/sys.h"
#include "recorder/api/tags.h"
#include "recorder/unwind/walk.h"

enum {
	SCANS_PER_THREAD = 4,  /* slots checked for an ended thread per registration */
	SLOT_STRIDE = 1 << 12, /* pointers per page of the directory */
	SLOT_PAGES = SLOT_LIMIT / SLOT_STRIDE,
	OWN_COUNTERS = 1024, /* this many threads have their own counters ... */
	OWN_NAMED = 8192,    /* ... and this many if the slot's previous thread had another name */
};

__thread struct thread_state thread_state
	__attribute__((tls_model("initial-exec"))) = { .token = ~1ull };

const struct slot_tags tags_none = { .cached = { [0 ... TAG_CACHE_ENTRIES -
						  1] = { .key = TAGS_NOTHING } } };

/* struct slot by slot id; pages are allocated as needed and never freed. */
static PROCESS_STATE struct slot **directory[SLOT_PAGES];
static PROCESS_STATE uint32_t
	scan_from; /* where the next scan for an ended thread starts; relaxed */

void slot_reset(void)
{
	for (int i = 0; i < SLOT_PAGES; i++)
		directory[i] = NULL;
	scan_from = 0;
}

/* Returns the directory entry of an id, allocating its page if needed. NULL: no memory. */
static struct slot **place_of(uint32_t id)
{
	struct slot ***page = &directory[id / SLOT_STRIDE % SLOT_PAGES];
	struct slot **have = __atomic_load_n(page, __ATOMIC_ACQUIRE);

	if (id >= SLOT_LIMIT)
		return NULL;
	if (have == NULL) {
		struct slot **made = memory_scratch(SLOT_STRIDE * sizeof *made);

		if (made == NULL)
			return NULL;
		if (__atomic_compare_exchange_n(page, &have, made, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			have = made;
	}
	return &have[id % SLOT_STRIDE];
}

static bool has_ended(uint32_t tid, int my_tid)
{
	if (tid == (uint32_t)my_tid)
		return true; /* the kernel reused its thread id for us */
	return sys_call3(SYS_tgkill, sys_getpid(), (long)tid, 0) == -ESRCH;
}

/* Claims a slot whose thread has ended; NULL: none among the few checked. */
static struct slot *inherit(int my_tid)
{
	uint64_t used = memory_used(LIVE_SLOTS);

	for (int tried = 0; tried < SCANS_PER_THREAD && tried < (int)used; tried++) {
		uint32_t id = __atomic_fetch_add(&scan_from, 1, __ATOMIC_RELAXED) % (uint32_t)used;
		struct live_slot *live = memory_slot(id);
		uint32_t tid = __atomic_load_n(&live->tid, __ATOMIC_ACQUIRE);
		struct slot **place = place_of(id);

		if (tid == 0 || place == NULL || *place == NULL || !has_ended(tid, my_tid))
			continue;
		CHAOS_DELAY();
		__atomic_thread_fence(
			__ATOMIC_ACQUIRE); /* what that thread did last, now that it has ended */
		if (__atomic_compare_exchange_n(&live->tid, &tid, (uint32_t)my_tid, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return *place;
	}
	return NULL;
}

/* Allocates a thread's [other] site counters, one per kind. */
static bool make_others(struct slot *slot, uint32_t thread)
{
	uint64_t first =
		memory_append(LIVE_SITE_COUNTERS, LIVE_KINDS, sizeof(struct live_site_counters));

	if (first == UINT64_MAX || (first + LIVE_KINDS) >> LIVE_SMALL_COUNTERS_BITS != 0)
		return false;
	for (uint32_t kind = 0; kind < LIVE_KINDS; kind++) {
		struct live_site_counters *counters = memory_counters((uint32_t)first + kind);

		slot->counters_of_other[kind] = (uint32_t)first + kind;
		counters->thread = thread;
		counters->key = memory_site(LIVE_SITE_OTHER_HEAP + kind)->key;
		__atomic_store_n(&counters->site, LIVE_SITE_OTHER_HEAP + kind, __ATOMIC_RELEASE);
	}
	slot->thread = thread;
	return true;
}

/* As memory_scratch rounds it. */
static uint64_t scratch_bytes(uint64_t bytes)
{
	return (bytes + 63) & ~63ull;
}

/* Opens all memory that a new slot needs, before any of it is used. A thread that gets no slot tries again every now and then, and a
 * slot made in part would be lost each time. */
static bool open_memory_of_slot(uint32_t limit)
{
	uint64_t slots = memory_used(LIVE_SLOTS), threads = memory_used(LIVE_THREADS),
		 counters = memory_used(LIVE_SITE_COUNTERS);
	uint64_t scratch = scratch_bytes(sizeof(struct slot)) +
			   scratch_bytes(sizeof(struct stack_ranges)) +
			   2 * scratch_bytes(sizeof(struct cfi_scratch)) +
			   scratch_bytes(TABLE_FIRST * sizeof(struct table_entry)) +
			   scratch_bytes(walk_bytes(limit));

	if (slots % SLOT_STRIDE == 0) /* a new page of the directory */
		scratch += scratch_bytes(SLOT_STRIDE * sizeof(struct slot *));
	return slots < SLOT_LIMIT && (counters + LIVE_KINDS) >> LIVE_SMALL_COUNTERS_BITS == 0 &&
	       memory_open(LIVE_SCRATCH, memory_used(LIVE_SCRATCH) + scratch) &&
	       memory_open(LIVE_SLOTS, (slots + 1) * sizeof(struct live_slot)) &&
	       memory_open(LIVE_THREADS, (threads + 1) * sizeof(struct live_thread)) &&
	       memory_open(LIVE_SITE_COUNTERS,
			   (counters + LIVE_KINDS) * sizeof(struct live_site_counters));
}

static bool scratch_allocate(struct slot *slot, uint32_t limit)
{
	/* Small ones first, so that they share the slot's pages. */
	slot->ranges = memory_scratch(sizeof *slot->ranges);
	slot->cfi = memory_scratch(sizeof *slot->cfi);
	slot->site_counters = table_new(TABLE_FIRST);
	slot->cfi_nested = memory_scratch(sizeof *slot->cfi_nested);
	void *walk = memory_scratch(walk_bytes(limit));

	if (walk == NULL || slot->site_counters.entry == NULL || slot->ranges == NULL ||
	    slot->cfi == NULL || slot->cfi_nested == NULL)
		return false;
	slot->walk = walk_place(walk, limit);
	slot->tags = (struct slot_tags *)&tags_none; /* never written: lookups in it find nothing */
	return true;
}

/* Returns the next number of the thread log; UINT64_MAX: none left. Half of the log is for new slots, which need a number: there
 * are fewer slots than that. */
static uint64_t next_number(bool inherited)
{
	uint64_t room = memory.head->region[LIVE_THREADS].bytes / sizeof(struct live_thread);

	if (inherited && memory_used(LIVE_THREADS) >= room / 2)
		return UINT64_MAX;
	return memory_append(LIVE_THREADS, 1, sizeof(struct live_thread));
}

static struct slot *make(int my_tid)
{
	if (!open_memory_of_slot(memory.head->depth_limit))
		return NULL;
	struct slot *slot = memory_scratch(sizeof *slot);
	struct slot **place;
	uint64_t id, number;

	if (slot == NULL) /* another thread was faster: only then, some memory is lost */
		return NULL;
	id = memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));
	if (id == UINT64_MAX || (place = place_of((uint32_t)id)) == NULL)
		return NULL;
	slot->id = (uint32_t)id;
	slot->live = memory_slot(slot->id);
	if (!scratch_allocate(slot, memory.head->depth_limit) ||
	    (number = next_number(false)) == UINT64_MAX || !make_others(slot, (uint32_t)number))
		return NULL; /* the slot stays empty: tid 0 */
	slot->cache_memory = stack_cache_memory(slot->id);
	__atomic_store_n(place, slot, __ATOMIC_RELEASE);
	account_join(slot);
	__atomic_store_n(&slot->live->tid, (uint32_t)my_tid, __ATOMIC_RELEASE);
	return slot;
}

/* True if a thread that inherits a slot may get its own counters. */
static bool may_begin_anew(const struct slot *slot, uint32_t number)
{
	const char *name = memory_thread(number)->name;
	uint64_t count = memory_used(LIVE_SITE_COUNTERS) + LIVE_KINDS;

	if (number >= OWN_NAMED ||
	    (number >= OWN_COUNTERS &&
	     __builtin_memcmp(memory_thread(slot->thread)->name, name, LIVE_NAME_BYTES) == 0))
		return false;
	return memory_open_above_reserve(LIVE_SITE_COUNTERS,
					 count * sizeof(struct live_site_counters));
}

/* Drops every reference to the previous thread's site counters. */
static void forget_site_counters(struct slot *slot)
{
	table_clear(&slot->site_counters);
	stack_cache_forget(slot);
	tags_forget_visits(slot);
	python_forget(slot);
	pool_cache_forget(slot);
}

/* Gives a thread that inherits a slot its own counters, if possible. */
static void inherit_counters(struct slot *slot, uint32_t number)
{
	if (may_begin_anew(slot, number) && make_others(slot, number))
		forget_site_counters(slot);
}

static void log_thread(struct slot *slot, int my_tid, uint32_t number, bool inherited)
{
	const struct live_slot *live = slot->live;
	struct live_thread *thread = memory_thread(number);

	*thread = (struct live_thread){
		.slot = slot->id,
		.started_ms = clock_ms(),
		.calls = live->calls,
		.bytes = live->bytes,
		.frees = live->frees,
		.freed_bytes = live->freed_bytes,
		.passed_calls = live->countdown.calls,
		.passed_bytes = live->countdown.allotted - live->countdown.left,
	};
	sys_call6(SYS_prctl, PR_GET_NAME, (long)thread->name, 0, 0, 0, 0);
	if (inherited)
		inherit_counters(slot, number);
	thread->counted_as = slot->thread;
	__atomic_store_n(&thread->tid, (uint32_t)my_tid, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->live->thread, number, __ATOMIC_RELEASE);
}

COLD struct slot *slot_acquire(void)
{
	int my_tid = sys_gettid();
	struct slot *slot = inherit(my_tid);
	bool inherited = slot != NULL;

	if (slot == NULL)
		slot = make(my_tid);
	if (slot == NULL)
		return NULL;
	uint64_t number = inherited ? next_number(true) : slot->thread;

	slot->owner = &thread_state;
	slot->last_block = NULL;
	slot->cfi_nested_busy = false;
	slot->fast_cache = thread_state.tag == 0 ? slot->fast_cache_untagged : NULL;
	tags_forget_scopes(slot);
	slot->walk->stamp = 0;
	stack_forget(slot);
	if (number != UINT64_MAX)
		log_thread(slot, my_tid, (uint32_t)number, inherited);
	else
		health_add(HEALTH_unlogged_threads);
	return slot;
}

bool slot_reserve(struct slot *slot, bool use_reserve)
{
	uint64_t used = memory_used(LIVE_SITE_COUNTERS);
	struct table larger =
		table_larger(&slot->site_counters, 1,
			     use_reserve ? memory_scratch : memory_scratch_above_reserve);

	if (larger.entry != NULL)
		table_move(&slot->site_counters, larger);
	return !table_is_full(&slot->site_counters) && used >> LIVE_SMALL_COUNTERS_BITS == 0 &&
	       (use_reserve ? memory_open : memory_open_above_reserve)(
		       LIVE_SITE_COUNTERS, (used + 1) * sizeof(struct live_site_counters));
}

COLD uint32_t slot_counters(struct slot *slot, uint64_t key, uint32_t site, enum live_kind kind,
			    bool use_reserve)
{
	uint64_t id =
		slot_reserve(slot, use_reserve)
			? memory_append(LIVE_SITE_COUNTERS, 1, sizeof(struct live_site_counters))
			: UINT64_MAX;

	if (id >> LIVE_SMALL_COUNTERS_BITS != 0) {
		health_add(HEALTH_unsited_calls);
		return slot->counters_of_other[kind];
	}
	struct live_site_counters *counters = memory_counters((uint32_t)id);

	counters->thread = slot->thread;
	counters->key = key;
	__atomic_store_n(&counters->site, site, __ATOMIC_RELEASE);
	table_put(&slot->site_counters, table_tag(key), (uint32_t)id);
	return (uint32_t)id;
}

/* Returns the freer's counters for blocks of an owner. NULL: all entries are taken, or no memory. */
static uint64_t *count_of_owner(struct live_thread *freer, uint32_t owner, uint32_t kind)
{
	if (freer->owners == 0) {
		uint32_t unit = account_pool(sizeof(struct live_owners) / LIVE_POOL_UNIT);

		if (unit == 0)
			return NULL;
		__atomic_store_n(&freer->owners, unit, __ATOMIC_RELEASE);
	}
	struct live_owners *owners = memory_pool(freer->owners);

	for (int i = 0; i < LIVE_OWNERS; i++) {
		if (owners->entry[i].thread == 0) {
			owners->entry[i].kind = kind;
			__atomic_store_n(&owners->entry[i].thread, owner + 1, __ATOMIC_RELEASE);
		}
		if (owners->entry[i].thread == owner + 1 && owners->entry[i].kind == kind)
			return &owners->entry[i].blocks;
	}
	return NULL;
}

void slot_freed_for(struct slot *slot, const struct live_site_counters *owner, uint64_t blocks,
		    uint64_t bytes)
{
	struct live_thread *freer = memory_thread(slot->thread);
	uint32_t kind = memory_site(owner->site)->kind;
	uint64_t *of_owner = count_of_owner(freer, owner->thread, kind);

	arch_add(&freer->remote[kind].blocks, blocks);
	arch_add(&freer->remote[kind].bytes, bytes);
	if (of_owner != NULL) {
		arch_add(&of_owner[0], blocks);
		arch_add(&of_owner[1], bytes);
	}
}

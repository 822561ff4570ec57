/* SPDX-License-Identifier: Apache-2.0 */
/* Slots and the thread log.
 *
 * Owns: LIVE_SLOTS, LIVE_THREADS, and struct slot with its table and walk in scratch memory. A slot whose thread is
 * gone is inherited whole by the next thread that needs one, so that 10^4 short threads cost a handful of slots and
 * no destructor is needed. Invariant: a slot is its
 * owner's from the swap of live_slot.tid on. */
#include "recorder/slot.h"

#include <errno.h>
#include <sys/prctl.h>

#include "recorder/account.h"
#include "recorder/chaos.h"
#include "recorder/cfi.h"
#include "recorder/memo.h"
#include "recorder/sys.h"
#include "recorder/tags.h"
#include "recorder/walk.h"

enum {
	LOOKS_PER_THREAD = 4, /* slots asked whether their thread still lives, when one registers */
	SLOT_STRIDE = 4096,   /* pointers per page of the directory */
	SLOT_PAGES = 16,
};

__thread struct thread_state thread_state
	__attribute__((tls_model("initial-exec"))) = { .token = ~1ull };

const struct slot_tags tags_none = { .near = { [0 ... TAGS_NEAR - 1] = { .key = TAGS_NOTHING } } };

/* struct slot of a slot id; pages are made as needed and never given back. */
static struct slot **directory[SLOT_PAGES];
static uint32_t hand; /* where the next look for a dead thread begins; relaxed */

void slot_reset(void)
{
	for (int i = 0; i < SLOT_PAGES; i++)
		directory[i] = NULL;
	hand = 0;
}

/* The directory's place for an id, made if need be. NULL: no memory. */
static struct slot **place_of(uint32_t id)
{
	struct slot ***page = &directory[id / SLOT_STRIDE % SLOT_PAGES];
	struct slot **have = __atomic_load_n(page, __ATOMIC_ACQUIRE);

	if (id >= SLOT_STRIDE * SLOT_PAGES)
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

static bool is_gone(uint32_t tid, int my_tid)
{
	if (tid == (uint32_t)my_tid)
		return true; /* my number was theirs */
	return sys_call3(SYS_tgkill, sys_getpid(), (long)tid, 0) == -ESRCH;
}

/* A slot whose thread has ended, claimed for the caller; NULL: none found in a few looks. */
static struct slot *inherit(int my_tid)
{
	uint64_t used = memory_used(LIVE_SLOTS);

	for (int look = 0; look < LOOKS_PER_THREAD && look < (int)used; look++) {
		uint32_t id = __atomic_fetch_add(&hand, 1, __ATOMIC_RELAXED) % (uint32_t)used;
		struct live_slot *live = memory_slot(id);
		uint32_t tid = __atomic_load_n(&live->tid, __ATOMIC_ACQUIRE);
		struct slot **place = place_of(id);

		if (tid == 0 || place == NULL || *place == NULL || !is_gone(tid, my_tid))
			continue;
		CHAOS_DELAY();
		if (__atomic_compare_exchange_n(&live->tid, &tid, (uint32_t)my_tid, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return *place;
	}
	return NULL;
}

static bool furnish(struct slot *slot, uint32_t limit)
{
	void *walk = memory_scratch(walk_bytes(limit));

	slot->records = table_new(TABLE_FIRST);
	slot->ranges = memory_scratch(sizeof *slot->ranges);
	slot->cfi = memory_scratch(sizeof *slot->cfi);
	slot->cfi_nested = memory_scratch(sizeof *slot->cfi_nested);
	if (walk == NULL || slot->records.entry == NULL || slot->ranges == NULL ||
	    slot->cfi == NULL || slot->cfi_nested == NULL)
		return false;
	slot->walk = walk_place(walk, limit);
	slot->memo = memo_new(slot->id);
	slot->tags = (struct slot_tags *)&tags_none; /* never written: nothing in it is found */
	for (uint32_t kind = 0; kind < LIVE_KINDS; kind++) {
		uint64_t record = memory_append(LIVE_RECORDS, 1, sizeof(struct live_record));

		if (record == UINT64_MAX || record >> LIVE_SMALL_RECORD_BITS != 0)
			return false;
		slot->record_of_other[kind] = (uint32_t)record;
		memory_record((uint32_t)record)->slot = slot->id;
		memory_record((uint32_t)record)->key =
			memory_site(LIVE_SITE_OTHER_HEAP + kind)->key;
		__atomic_store_n(&memory_record((uint32_t)record)->site,
				 LIVE_SITE_OTHER_HEAP + kind, __ATOMIC_RELEASE);
	}
	return true;
}

static struct slot *make(int my_tid)
{
	struct slot *slot = memory_scratch(sizeof *slot);
	struct slot **place;
	uint64_t id;

	if (slot == NULL)
		return NULL;
	id = memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));
	if (id == UINT64_MAX || (place = place_of((uint32_t)id)) == NULL)
		return NULL;
	slot->id = (uint32_t)id;
	slot->live = memory_slot(slot->id);
	if (!furnish(slot, memory.head->depth_limit))
		return NULL; /* the slot stays empty: tid 0 */
	__atomic_store_n(place, slot, __ATOMIC_RELEASE);
	account_join(slot);
	__atomic_store_n(&slot->live->tid, (uint32_t)my_tid, __ATOMIC_RELEASE);
	return slot;
}

static void log_thread(struct slot *slot, int my_tid)
{
	const struct live_slot *live = slot->live;
	uint64_t id = memory_append(LIVE_THREADS, 1, sizeof(struct live_thread));

	if (id == UINT64_MAX)
		return;
	struct live_thread *thread = memory_thread((uint32_t)id);

	*thread = (struct live_thread){
		.slot = slot->id,
		.started_ms = clock_ms(),
		.calls = live->calls,
		.bytes = live->bytes,
		.frees = live->frees,
		.freed_bytes = live->freed_bytes,
	};
	sys_call6(SYS_prctl, PR_GET_NAME, (long)thread->name, 0, 0, 0, 0);
	__atomic_store_n(&thread->tid, (uint32_t)my_tid, __ATOMIC_RELEASE);
	slot->live->thread = (uint32_t)id;
}

COLD struct slot *slot_acquire(void)
{
	int my_tid = sys_gettid();
	struct slot *slot = inherit(my_tid);

	if (slot == NULL)
		slot = make(my_tid);
	if (slot == NULL)
		return NULL;
	slot->owner = &thread_state;
	slot->last_block = NULL;
	slot->cfi_nested_busy = false;
	slot->quick = thread_state.tag == 0 ? slot->memo : NULL;
	tags_forget_scopes(slot);
	slot->walk->stamp = 0;
	stack_forget(slot);
	log_thread(slot, my_tid);
	return slot;
}

bool slot_reserve(struct slot *slot, bool must)
{
	uint64_t used = memory_used(LIVE_RECORDS);
	struct table larger = table_larger(&slot->records, 1,
					   must ? memory_scratch : memory_scratch_above_reserve);

	if (larger.entry != NULL)
		table_move(&slot->records, larger);
	return !table_is_full(&slot->records) && used >> LIVE_SMALL_RECORD_BITS == 0 &&
	       (must ? memory_open : memory_open_above_reserve)(
		       LIVE_RECORDS, (used + 1) * sizeof(struct live_record));
}

COLD uint32_t slot_record(struct slot *slot, uint64_t key, uint32_t site, enum live_kind kind,
			  bool must)
{
	uint64_t id = slot_reserve(slot, must)
			      ? memory_append(LIVE_RECORDS, 1, sizeof(struct live_record))
			      : UINT64_MAX;

	if (id >> LIVE_SMALL_RECORD_BITS != 0) {
		health_add(HEALTH_unsited_calls);
		return slot->record_of_other[kind];
	}
	struct live_record *record = memory_record((uint32_t)id);

	record->slot = slot->id;
	record->key = key;
	__atomic_store_n(&record->site, site, __ATOMIC_RELEASE);
	table_put(&slot->records, table_tag(key), (uint32_t)id);
	return (uint32_t)id;
}

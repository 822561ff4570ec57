/* SPDX-License-Identifier: Apache-2.0 */
/* Each of the first slots has its own counters, so that counting writes no shared cache line; the others share theirs, so that a
 * thousand threads do not take megabytes. They are made at the first pair, and linked into a list that readers follow.
 *
 * Owns the shared counters. Runs inside a hook. Invariant: an object is complete before it is in the list. */
#include "recorder/counters/pairs.h"

#include "recorder/counters/account.h"

enum { OWN_SLOTS = 64 };

static PROCESS_STATE struct live_pairs *shared[LIVE_PAIRS_KINDS];

void pairs_reset(void)
{
	for (int i = 0; i < LIVE_PAIRS_KINDS; i++)
		shared[i] = NULL;
}

/* NULL: no memory, which is counted. */
static COLD struct live_pairs *make(enum live_pairs_kind kind)
{
	uint32_t unit = account_details(sizeof(struct live_pairs));
	uint64_t before = __atomic_load_n(&memory.head->pairs, __ATOMIC_RELAXED);

	if (unit == 0)
		return NULL;
	struct live_pairs *made = memory_pool(unit);

	made->kind = kind;
	do
		made->next = (uint32_t)before;
	while (!__atomic_compare_exchange_n(&memory.head->pairs, &before, unit, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	return made;
}

NOINLINE void pairs_count(struct slot *slot, enum live_pairs_kind kind, uint64_t first,
			  uint64_t second, uint64_t weight)
{
	bool is_own = slot->id < OWN_SLOTS;
	struct live_pairs **at = is_own ? &slot->pairs[kind] : &shared[kind];
	struct live_pairs *pairs = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	if (UNLIKELY(pairs == NULL)) {
		if (slot->lacks_pairs)
			return;
		pairs = make(kind);
		slot->lacks_pairs = pairs == NULL;
		if (pairs == NULL)
			return;
		__atomic_store_n(at, pairs, __ATOMIC_RELEASE);
	}
	uint64_t *count = &pairs->count[live_pair_class(first)][live_pair_class(second)];

	if (LIKELY(is_own))
		arch_add(count, weight);
	else
		__atomic_fetch_add(count, weight, __ATOMIC_RELAXED);
}

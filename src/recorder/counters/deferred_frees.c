/* SPDX-License-Identifier: Apache-2.0 */
/* See deferred_frees.h. */
#include "recorder/counters/deferred_frees.h"

COLD void deferred_frees_add(struct deferred_frees *late, struct deferred_free end)
{
	health_add(HEALTH_unknown_ends);
	if (end.key == 0)
		return; /* munmap(NULL, bytes): 0 marks an empty entry */
	__atomic_store_n(&late->touched, true, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < DEFERRED_FREES_MAX; i++) {
		uint64_t none = 0;

		if (!__atomic_compare_exchange_n(&late->end[i].key, &none, LATE_BEING_WRITTEN,
						 false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		late->end[i].value = end.value;
		late->end[i].until = end.until;
		__atomic_store_n(&late->end[i].key, end.key, __ATOMIC_RELEASE);
		__atomic_fetch_add(&late->count, 1, __ATOMIC_RELEASE);
		return;
	}
}

COLD bool deferred_frees_next(const struct deferred_frees *late, uint32_t *at,
			      struct deferred_free *ret)
{
	for (; *at < DEFERRED_FREES_MAX; ++*at) {
		ret->key = __atomic_load_n(&late->end[*at].key, __ATOMIC_ACQUIRE);
		ret->value = late->end[*at].value;
		ret->until = late->end[*at].until;
		if (ret->key != 0 && ret->key != LATE_BEING_WRITTEN)
			return true;
	}
	return false;
}

COLD void deferred_frees_done(struct deferred_frees *late, uint32_t at)
{
	__atomic_store_n(&late->end[at].key, 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&late->count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&memory.head->health[HEALTH_unknown_ends], 1, __ATOMIC_RELAXED);
}

void deferred_frees_reset(struct deferred_frees *late)
{
	if (late->touched)
		*late = (struct deferred_frees){ 0 };
}

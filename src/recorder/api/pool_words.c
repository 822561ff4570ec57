/* SPDX-License-Identifier: Apache-2.0 */
/* See pool_words.h. Owns: the leaves, in scratch memory, and their directory. It only grows; an entry is set once, by
 * compare-and-swap, and the loser of that race keeps its leaf as a spare. Inside a hook. */
#include "recorder/api/pool_words.h"

#include "base/hash.h"

enum {
	DIRECTORY = 1 << 14 /* leaves, together 16 GiB of the address space */,
	DIRECTORY_PROBES = 64,
	LOOKUPS_UNTIL_RETRY = 1 << 12, /* after the memory budget was used up */
};

struct pool_leaf {
	uintptr_t number;
	uint64_t pad[7];
	uint64_t words[1 << (POOL_LEAF_SHIFT - POOL_GRANULE_SHIFT)];
};

static PROCESS_STATE struct pool_leaf **directory, *spare;

void pool_words_reset(void)
{
	directory = NULL;
	spare = NULL;
}

static struct pool_leaf **directory_make(void)
{
	struct pool_leaf **now = __atomic_load_n(&directory, __ATOMIC_ACQUIRE), **fresh;

	if (now != NULL)
		return now;
	fresh = memory_scratch(DIRECTORY * sizeof(struct pool_leaf *));
	if (fresh != NULL && __atomic_compare_exchange_n(&directory, &now, fresh, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return fresh;
	return now;
}

static struct pool_leaf *leaf_make(uintptr_t number)
{
	struct pool_leaf *leaf = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL);

	if (leaf == NULL)
		leaf = memory_scratch_above_reserve(sizeof *leaf); /* the tables are a fallback */
	if (leaf != NULL)
		leaf->number = number;
	return leaf;
}

/* Returns the leaf with a number; NULL: none, no memory, or the directory is full. */
static struct pool_leaf *leaf_of(uintptr_t number, bool make)
{
	struct pool_leaf **all =
		make ? directory_make() : __atomic_load_n(&directory, __ATOMIC_ACQUIRE);
	uint64_t place = hash_mix(number);

	for (int i = 0; all != NULL && i < DIRECTORY_PROBES; i++, place++) {
		struct pool_leaf **at = &all[place & (DIRECTORY - 1)],
				 *leaf = __atomic_load_n(at, __ATOMIC_ACQUIRE);

		if (leaf == NULL && make) {
			struct pool_leaf *fresh = leaf_make(number);

			if (fresh == NULL)
				return NULL;
			if (__atomic_compare_exchange_n(at, &leaf, fresh, false, __ATOMIC_ACQ_REL,
							__ATOMIC_ACQUIRE))
				return fresh;
			__atomic_store_n(&spare, fresh, __ATOMIC_RELEASE);
		}
		if (leaf == NULL || leaf->number == number)
			return leaf;
	}
	return NULL;
}

struct pool_cache *pool_cache_make(struct slot *slot)
{
	if (slot->pool_cache == NULL)
		slot->pool_cache = memory_scratch(sizeof *slot->pool_cache);
	return slot->pool_cache;
}

void pool_cache_forget(struct slot *slot)
{
	if (slot->pool_cache != NULL)
		__builtin_memset(slot->pool_cache->tagged, 0, sizeof slot->pool_cache->tagged);
}

NOINLINE uint64_t *pool_words_leaf(struct slot *slot, uintptr_t address, bool make)
{
	uintptr_t number = address >> POOL_LEAF_SHIFT;
	struct pool_cache *cache = pool_cache_make(slot);
	struct pool_leaf *leaf;
	struct pool_cache_leaf *kept;

	if (cache == NULL)
		return NULL;
	if (make && UNLIKELY(cache->leaves_refused > 0)) {
		cache->leaves_refused--;
		make = false;
	}
	leaf = leaf_of(number, make);
	if (leaf == NULL) {
		cache->leaves_refused = make ? LOOKUPS_UNTIL_RETRY : cache->leaves_refused;
		return NULL;
	}
	kept = &cache->leaf[number % POOL_CACHE_LEAVES];
	kept->number = 0; /* a signal handler may abandon the hook between these stores */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	kept->words = leaf->words;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	kept->number = number;
	return leaf->words;
}

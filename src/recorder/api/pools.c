/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of pools.
 *
 * Owns: the pools and their tables of blocks, in scratch memory, and the counters of each name in LIVE_POOL. Tables are keyed by
 * the block's address and belong to one pool: the first block of an arena has the address of the malloc block below it, and a pool
 * inside another pool's block shares its address. Blocks may be packed arbitrarily closely, so this is a hash table and not a map
 * of the address space. Each pool has four tables with a lock each. Pools known to do none of this use words for their small blocks
 * (pool_words.h).
 *
 * An outgrown table is moved to the next one incrementally, a few entries per operation, so that the lock is never held for long.
 * After that, and when its pool is cleared, it is reused: an arena per request costs only what the largest number of simultaneous
 * arenas needs.
 *
 * If a free cannot get the lock, the next owner of the lock does it (deferred_frees.h). */
#include "recorder/api/pools.h"

#include "base/hash.h"
#include "recorder/hooks/free.h"
#include "recorder/counters/deferred_frees.h"
#include "recorder/lock.h"
#include "recorder/process/startup.h"
#include "recorder/api/pool_words.h"
#include "recorder/api/tags.h"
#include "recorder/counters/sites.h"

enum {
	SHARDS = 4,
	FIRST_SHIFT = 5, /* log2 of the first table's size */
	SHIFTS = 32,
	PAGE_POOLS = 64,
	PAGES = 1 << 12,
	TRIES = 3,
	STEP = 8, /* entries of an outgrown table that are examined per operation */
};

struct blocks_table {
	uint32_t shift, used;
	struct pool_block at[]; /* address 0 = empty */
};

struct shard {
	struct lock lock;
	uint32_t emptied; /* next entry of `old` to move */
	struct blocks_table *table;
	struct blocks_table *old; /* the rest of the outgrown table; NULL = none */
};

struct pool {
	struct shard shard[SHARDS];
	bool ended;
	uint32_t next; /* number of the next ended pool in the free list */
};

static struct pool *pages[PAGES];
static PROCESS_STATE uint32_t
	made; /* numbers handed out; kept in a forked child, which has the handles */
/* Protected by spare_lock: */
static PROCESS_STATE struct lock spare_lock;
static PROCESS_STATE uint32_t spare_pool;
static PROCESS_STATE struct blocks_table
	*spare_table[SHIFTS]; /* free lists; at[0].address is the next table */
static PROCESS_STATE struct deferred_frees
	late; /* key: the address of a block, or key_of_shard; value: the pool */

void pools_reset(void)
{
	/* Numbers are handed out in sequence: pages after the last one were never touched. */
	for (uint32_t i = 0; i < MIN((made + PAGE_POOLS - 1) / PAGE_POOLS, (uint32_t)PAGES); i++)
		pages[i] = NULL;
	for (int i = 0; i < SHIFTS; i++)
		spare_table[i] = NULL;
	spare_lock = (struct lock){ 0 };
	spare_pool = 0;
	deferred_frees_reset(&late);
	pool_words_reset();
}

/* ---- tables ---- */

/* Returns an empty table; NULL: no memory. */
static struct blocks_table *table_make(struct slot *slot, uint32_t shift)
{
	struct blocks_table *table = NULL;

	if (shift >= SHIFTS - 1)
		return NULL;
	if (__atomic_load_n(&spare_table[shift], __ATOMIC_RELAXED) != NULL &&
	    lock_acquire(&spare_lock, slot->id)) {
		table = spare_table[shift];
		if (table != NULL)
			spare_table[shift] = (struct blocks_table *)table->at[0].address;
		lock_release(&spare_lock);
	}
	if (table != NULL)
		__builtin_memset(table->at, 0, sizeof table->at[0] << shift);
	else
		table = memory_scratch(sizeof *table + (sizeof table->at[0] << shift));
	if (table != NULL) {
		table->shift = shift;
		table->used = 0;
	}
	return table;
}

static COLD void table_drop(struct slot *slot, struct blocks_table *table)
{
	if (!lock_acquire(&spare_lock, slot->id))
		return;
	table->at[0].address = (uintptr_t)spare_table[table->shift];
	__atomic_store_n(&spare_table[table->shift], table, __ATOMIC_RELAXED);
	lock_release(&spare_lock);
}

static uint32_t table_buckets(const struct blocks_table *table)
{
	return table != NULL ? UINT32_C(1) << table->shift : 0;
}

static uint32_t table_used(const struct blocks_table *table)
{
	return table != NULL ? table->used : 0;
}

/* Returns the entry of an address, or the empty one where it would go. */
static struct pool_block *place_of(struct blocks_table *table, uintptr_t address)
{
	uint64_t mask = table_buckets(table) - 1, i = hash_mix(address);

	while (table->at[i & mask].address != 0 && table->at[i & mask].address != address)
		i++;
	return &table->at[i & mask];
}

static void table_erase(struct blocks_table *table, struct pool_block *place)
{
	uint64_t mask = table_buckets(table) - 1, hole = (uint64_t)(place - table->at);

	for (uint64_t i = (hole + 1) & mask; table->at[i].address != 0; i = (i + 1) & mask) {
		uint64_t wanted = hash_mix(table->at[i].address);

		/* An entry may move to the hole if its home position is not after the hole. */
		if (((i - wanted) & mask) >= ((i - hole) & mask)) {
			table->at[hole] = table->at[i];
			hole = i;
		}
	}
	table->at[hole] = (struct pool_block){ 0 };
	table->used--;
}

/* Removes a block from a table, which may be NULL; false: not there. */
static bool table_take(struct blocks_table *table, uintptr_t address, struct pool_block *ret)
{
	struct pool_block *place = table != NULL ? place_of(table, address) : NULL;

	if (place == NULL || place->address == 0)
		return false;
	*ret = *place;
	table_erase(table, place);
	return true;
}

/* Recounts the entries: a hook abandoned while moving entries may have left some twice. With too low a count, the table would fill
 * up and a search would never end. */
static void table_recount(struct blocks_table *table)
{
	uint32_t filled = 0;

	for (uint64_t i = 0; i < table_buckets(table); i++)
		filled += table->at[i].address != 0;
	if (table != NULL)
		table->used = filled;
}

/* Releases the locks that an abandoned hook may hold. */
void pools_recover(struct slot *slot)
{
	struct lock *lock = slot->pool_lock;

	lock_recover(&spare_lock, slot->id);
	slot->pool_lock = NULL;
	if (lock == NULL || !lock_is_mine(lock, slot->id))
		return;
	table_recount(CONTAINER_OF(lock, struct shard, lock)->table);
	table_recount(CONTAINER_OF(lock, struct shard, lock)->old);
	lock_recover(lock, slot->id);
}

/* ---- shards, under their lock ---- */

/* True if one more entry would exceed three quarters. */
static bool shard_is_tight(const struct shard *shard)
{
	return shard->table == NULL || shard->table->used + table_used(shard->old) + 1 >
					       table_buckets(shard->table) / 4 * 3;
}

/* Replaces an outgrown table by a larger one. False: the previous one is not empty yet, or another thread was faster. */
static bool shard_grow(struct shard *shard, struct blocks_table *larger)
{
	if (shard->old != NULL || !shard_is_tight(shard) ||
	    table_buckets(larger) <= table_buckets(shard->table))
		return false;
	shard->emptied = 0;
	shard->old = shard->table;
	__atomic_store_n(&shard->table, larger, __ATOMIC_RELAXED);
	return true;
}

/* Continues to empty the outgrown table. Returns it once it is empty, else NULL. */
static NOINLINE struct blocks_table *shard_step(struct shard *shard)
{
	struct blocks_table *old = shard->old;

	if (old == shard->table) { /* a hook was abandoned in shard_grow */
		shard->old = NULL;
		return NULL;
	}
	/* At most two passes, in case a hook was abandoned between counting a block and storing it. */
	for (int i = 0; i < STEP && old->used > 0 && shard->emptied >> old->shift < 2; i++) {
		struct pool_block *from = &old->at[shard->emptied & (table_buckets(old) - 1)];

		if (from->address == 0) {
			shard->emptied++;
			continue;
		}
		struct pool_block *to = place_of(shard->table, from->address);

		shard->table->used += to->address == 0; /* count first, as in table_put */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		*to = *from;
		table_erase(old, from); /* moves another entry here, perhaps */
	}
	if (old->used > 0 && shard->emptied >> old->shift < 2)
		return NULL;
	shard->old = NULL;
	return old;
}

/* Removes a block; false: not there. */
static bool shard_erase(struct shard *shard, uintptr_t address, struct pool_block *ret)
{
	bool there = table_take(shard->table, address, ret);

	return (UNLIKELY(shard->old != NULL) && table_take(shard->old, address, ret)) || there;
}

/* Inserts a block if there is room. ret_old: an entry that was still there. */
static bool shard_enter(struct shard *shard, const struct pool_block *block,
			struct pool_block *ret_old)
{
	if (table_used(shard->table) + table_used(shard->old) >=
	    table_buckets(shard->table) / 8 * 7)
		return false;
	if (UNLIKELY(shard->old != NULL))
		table_take(shard->old, block->address, ret_old);
	struct pool_block *place = place_of(shard->table, block->address);

	if (place->address != 0)
		*ret_old = *place;
	shard->table->used += place->address == 0; /* count first, as in table_put */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*place = *block;
	return true;
}

/* ---- locks ---- */

static void release_lock(struct slot *slot, struct shard *shard)
{
	lock_release(&shard->lock);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	slot->pool_lock = NULL;
}

/* Key of a deferred free that ends all blocks of a shard. No block has such an address. */
static uint64_t key_of_shard(const struct pool *pool, const struct shard *shard)
{
	return (uint64_t)(shard - pool->shard) + 1;
}

static struct shard *shard_of(struct pool *pool, uintptr_t address)
{
	return &pool->shard[hash_mix(address) >> 62];
}
_Static_assert(SHARDS == 1 << 2, "what shard_of shifts by");

/* Takes the next deferred free of a shard from the list; false: none. Another
 * pool may have the number by now, but nothing was inserted since. */
static bool take_late(uint64_t handle, struct pool *pool, const struct shard *shard,
		      struct deferred_free *ret)
{
	for (uint32_t at = 0; deferred_frees_next(&late, &at, ret); at++) {
		if ((uint32_t)ret->value == (uint32_t)handle &&
		    (ret->key == key_of_shard(pool, shard) ||
		     (ret->key > SHARDS && shard_of(pool, ret->key) == shard))) {
			deferred_frees_done(&late, at);
			return true;
		}
	}
	return false;
}

static void end_all(struct slot *slot, uint64_t handle, struct blocks_table *table)
{
	for (uint64_t i = 0; i < table_buckets(table); i++) {
		if (table->at[i].address != 0)
			pools_end_block(slot, handle, &table->at[i]);
	}
	if (table != NULL)
		table_drop(slot, table);
}

/* Ends all blocks of a shard whose lock is held, and releases the lock. */
static void clear_and_release(struct slot *slot, uint64_t handle, struct shard *shard)
{
	struct blocks_table *table = shard->table, *old = shard->old;

	shard->old = NULL;
	__atomic_store_n(&shard->table, NULL, __ATOMIC_RELAXED);
	release_lock(slot, shard);
	end_all(slot, handle, table);
	if (old != table)
		end_all(slot, handle, old);
}

static bool acquire_lock_once(struct slot *slot, struct shard *shard)
{
	slot->pool_lock = &shard->lock;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return lock_acquire(&shard->lock, slot->id);
}

/* Does the deferred frees of a shard whose lock is held. Releases the lock and takes it again; false: could not take it again. */
static COLD bool catch_up(struct slot *slot, uint64_t handle, struct pool *pool,
			  struct shard *shard)
{
	struct pool_block block;
	struct deferred_free end;

	while (take_late(handle, pool, shard, &end)) {
		if (end.key <= SHARDS) {
			clear_and_release(slot, end.value, shard);
		} else {
			bool there = shard_erase(shard, end.key, &block);

			release_lock(slot, shard);
			if (there)
				pools_end_block(slot, end.value, &block);
		}
		if (!acquire_lock_once(slot, shard))
			return false;
	}
	return true;
}

/* Takes the lock of a shard, after its deferred frees are done. */
static inline bool acquire_lock(struct slot *slot, uint64_t handle, struct pool *pool,
				struct shard *shard)
{
	return acquire_lock_once(slot, shard) &&
	       (deferred_frees_is_empty(&late) || catch_up(slot, handle, pool, shard));
}

/* Checks that a lookup finds every block. Under the lock. */
static void check_blocks(struct blocks_table *table)
{
	uint32_t filled = 0;

	if (table == NULL)
		return;
	for (uint64_t i = 0; i < table_buckets(table); i++) {
		const struct pool_block *block = &table->at[i];

		if (block->address == 0)
			continue;
		filled++;
		RECORDER_CHECK(place_of(table, block->address) == block);
		RECORDER_CHECK(block->counters != 0 &&
			       block->counters < memory_used(LIVE_SITE_COUNTERS));
		RECORDER_CHECK(memory_site(memory_counters(block->counters)->site)->kind ==
			       LIVE_KIND_POOL);
	}
	RECORDER_CHECK(filled == table_used(table));
}

static void check_shard(struct shard *shard)
{
	static struct check_pace pace; /* shared by all: it need not be exact */

	if (!check_is_due(&pace))
		return;
	check_blocks(shard->table);
	check_blocks(shard->old);
	RECORDER_CHECK(table_used(shard->table) + table_used(shard->old) <=
		       table_buckets(shard->table) / 8 * 7);
	check_done(&pace, table_buckets(shard->table));
}

/* Releases the lock after an operation, and continues to empty the outgrown table. */
static inline void release_lock_after(struct slot *slot, struct shard *shard)
{
	struct blocks_table *empty = UNLIKELY(shard->old != NULL) ? shard_step(shard) : NULL;

	if (CHECKED)
		check_shard(shard);
	release_lock(slot, shard);
	if (UNLIKELY(empty != NULL))
		table_drop(slot, empty);
}

/* Inserts a block; allocates memory without the lock. False: no memory, or could not take the lock. */
static bool shard_put(struct slot *slot, uint64_t handle, struct pool *pool,
		      const struct pool_block *block, struct pool_block *ret_old)
{
	struct shard *shard = shard_of(pool, block->address);
	struct blocks_table *larger = NULL;
	bool done = false;

	for (int i = 0; i < TRIES && !done && acquire_lock(slot, handle, pool, shard); i++) {
		if (UNLIKELY(larger != NULL) && shard_grow(shard, larger))
			larger = NULL;
		done = (!shard_is_tight(shard) || i > 0) && shard_enter(shard, block, ret_old);
		uint32_t shift = shard->table != NULL ? shard->table->shift + 1 : FIRST_SHIFT;

		release_lock_after(slot, shard);
		if (UNLIKELY(!done && larger == NULL))
			larger = table_make(slot, shift);
	}
	if (UNLIKELY(larger != NULL))
		table_drop(slot, larger);
	return done;
}

/* ---- pools ---- */

static struct pool *page_of(uint32_t number)
{
	struct pool **place = &pages[(number - 1) / PAGE_POOLS], *page;

	page = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (page == NULL) {
		struct pool *fresh = memory_scratch(PAGE_POOLS * sizeof *fresh);

		if (fresh != NULL &&
		    __atomic_compare_exchange_n(place, &page, fresh, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			page = fresh;
	}
	return page;
}

static uint32_t name_of(uint64_t handle)
{
	return (uint32_t)(handle >> 32);
}

static uint32_t number_of(uint64_t handle)
{
	return (uint32_t)handle & ~POOL_HAS_WORDS;
}

/* NULL: not a pool of this process. */
static struct pool *pool_of(uint64_t handle)
{
	uint32_t number = number_of(handle), name = name_of(handle);

	if (number == 0 || number > PAGES * PAGE_POOLS ||
	    number > __atomic_load_n(&made, __ATOMIC_RELAXED) || name == 0 ||
	    name >= memory_used(LIVE_TAGS) || memory_tag(name)->kind != LIVE_TAG_POOL)
		return NULL;
	struct pool *page = page_of(number);

	return page != NULL ? &page[(number - 1) % PAGE_POOLS] : NULL;
}

/* The counters of a name, shared by all pools with that name; NULL: no memory. */
static struct live_pool *pool_counters_of(uint32_t name)
{
	uint32_t *place = &memory_tag(name)->pool;
	uint32_t unit = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (unit == 0) {
		uint32_t fresh = account_pool(sizeof(struct live_pool) / LIVE_POOL_UNIT);

		if (fresh != 0 && __atomic_compare_exchange_n(place, &unit, fresh, false,
							      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			unit = fresh;
	}
	return unit != 0 ? memory_pool(unit) : NULL;
}

static void count_name(uint32_t name, int64_t bytes)
{
	struct live_pool *counters = pool_counters_of(name);

	if (counters == NULL)
		return;
	int64_t live = __atomic_add_fetch(&counters->live_bytes, bytes, __ATOMIC_RELAXED);
	int64_t most = __atomic_load_n(&counters->most_bytes, __ATOMIC_RELAXED);

	while (live > most && !__atomic_compare_exchange_n(&counters->most_bytes, &most, live, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static uint32_t number_new(struct slot *slot)
{
	uint32_t number = 0;

	if (__atomic_load_n(&spare_pool, __ATOMIC_RELAXED) != 0 &&
	    lock_acquire(&spare_lock, slot->id)) {
		number = spare_pool;
		if (number != 0) /* its page exists */
			spare_pool =
				pages[(number - 1) / PAGE_POOLS][(number - 1) % PAGE_POOLS].next;
		lock_release(&spare_lock);
	}
	if (number == 0 && __atomic_load_n(&made, __ATOMIC_RELAXED) < PAGES * PAGE_POOLS)
		number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
	return number;
}

uint64_t pools_make(struct slot *slot, const char *name, bool has_words)
{
	uint32_t tag = name != NULL ? tags_name(slot, LIVE_TAG_POOL, name) : 0;
	uint32_t number = tag != 0 ? number_new(slot) : 0;
	uint64_t handle = (uint64_t)tag << 32 | (has_words ? POOL_HAS_WORDS : 0) | number;
	struct pool *pool = pool_of(handle);

	if (pool == NULL) {
		health_add(HEALTH_lost_pools);
		return 0;
	}
	pool->ended = false;
	struct live_pool *counters = pool_counters_of(tag);

	if (counters != NULL)
		__atomic_add_fetch(&counters->pools, 1, __ATOMIC_RELAXED);
	return handle;
}

/* ---- blocks ---- */

static void account_pool_block(struct live_site_counters *counters, uint32_t name, uint64_t bytes,
			       uint64_t weight)
{
	account_save(counters);
	account_counters_add(counters, bytes, weight);
	if (counters->first_size != bytes)
		account_size(counters, bytes, weight);
	count_name(name, (int64_t)(bytes * weight));
}

static uint64_t weight_of(const struct live_site_counters *counters, const struct pool_block *block)
{
	return (exact_weight_of(counters, block->bytes) >> 32) + block->rounded_up;
}

void pools_end_block(struct slot *slot, uint64_t pool, const struct pool_block *block)
{
	struct live_site_counters *counters = memory_counters(block->counters);
	uint64_t weight = weight_of(counters, block);
	bool sample = counters->samples != 0;

	if (counters->thread != slot->thread) {
		slot_freed_for(slot, counters, weight, block->bytes * weight);
		counters = memory_counters(sites_counters_of_site(slot, counters->site));
	}
	account_save(counters);
	ARCH_ORDER_STORES(); /* as in account_remove */
	arch_add(&counters->frees, weight);
	arch_add(&counters->freed_bytes, block->bytes * weight);
	if (block->birth_ms != clock_ms())
		account_lifetime(counters, block->birth_ms, weight);
	struct live_samples *samples = sample ? samples_of_counters(counters) : NULL;

	if (samples != NULL)
		sample_add_free(samples, block->bytes, exact_weight_of(counters, block->bytes));
	count_name(name_of(pool), -(int64_t)(block->bytes * weight));
}

/* Returns the site counters for a block according to the recording mode; 0: none. */
static uint32_t counters_for(struct slot *slot, uint64_t pool, uint64_t bytes,
			     uint64_t *ret_interval, const uintptr_t *frame)
{
	uint64_t decision = MODE_EXACTLY; /* a sampling interval, or a value of MODE_* */

	if (countdown_skips(slot, bytes))
		return 0;
	if (!mode_is_exact())
		decision = mode_decide(bytes, NULL);
	if (decision == MODE_SKIP)
		return 0;
	*ret_interval = decision != MODE_WITHOUT_STACK ? decision : (uint64_t)MODE_EXACTLY;
	if (*ret_interval == MODE_EXACTLY)
		return counters_of_pool(slot, frame, name_of(pool), decision == MODE_EXACTLY);
	return sites_counters_of_interval(slot, counters_of_pool_sample(slot, frame, name_of(pool)),
					  *ret_interval);
}

/* Ends a block that was still at an address, if there was one: its free was missed. */
static void end_missed(struct slot *slot, uint64_t handle, const struct pool_block *old)
{
	if (LIKELY(old->address == 0))
		return;
	health_add(HEALTH_repaired_blocks);
	pools_end_block(slot, handle, old);
}

/* Enters a block into the pool's tables. False: no memory, or no lock in time. */
static bool enter_table(struct slot *slot, uint64_t handle, const struct pool_block *block)
{
	struct pool *pool = pool_of(handle);
	struct pool_block old = { 0 };

	if (pool == NULL || !shard_put(slot, handle, pool, block, &old)) {
		health_add(HEALTH_untracked_blocks);
		return false;
	}
	end_missed(slot, handle, &old);
	return true;
}

static bool enter_block(struct slot *slot, uint64_t handle, const struct pool_block *block)
{
	struct pool_block old = { 0 };
	bool has_words = handle & POOL_HAS_WORDS;
	bool entered = has_words && LIKELY(pool_words_put(slot, block, &old));

	/* Also if it has no word of its own: its free would find that of the block before. */
	if (has_words && !entered)
		pool_words_take(slot, block->address, &old);
	end_missed(slot, handle, &old);
	return entered || enter_table(slot, handle, block);
}

/* pools_add. ret_weight: the number of blocks it represents. */
static uint32_t add_block(struct slot *slot, uint64_t pool, uintptr_t address, uint64_t bytes,
			  const uintptr_t *frame, uint64_t *ret_weight)
{
	uint64_t interval = MODE_SKIP;
	uint32_t id = counters_for(slot, pool, bytes, &interval, frame);
	struct pool_block block = {
		.address = address, .bytes = bytes, .counters = id, .birth_ms = clock_ms()
	};
	struct live_site_counters *counters = memory_counters(id);

	if (id == 0 || address == 0)
		return 0;
	struct live_samples *samples = NULL;
	uint64_t exact_weight = 0;

	*ret_weight = 1;
	if (interval != MODE_EXACTLY) {
		exact_weight = sample_weight(bytes, interval);
		*ret_weight = mode_round_weight(exact_weight);
		block.rounded_up = *ret_weight > exact_weight >> 32;
		samples = samples_of_counters(counters);
		if (samples == NULL) {
			health_add(HEALTH_lost_samples);
			return 0;
		}
	}
	if (!enter_block(slot, pool, &block))
		return 0; /* its free would not be found */
	account_pool_block(counters, name_of(pool), bytes, *ret_weight);
	if (samples != NULL)
		sample_add_allocation(samples, bytes, exact_weight);
	return id;
}

uint32_t pools_add(struct slot *slot, uint64_t pool, uintptr_t address, uint64_t bytes,
		   const uintptr_t *frame)
{
	uint64_t weight;

	return add_block(slot, pool, address, bytes, frame, &weight);
}

struct pool_block pools_take(struct slot *slot, uint64_t handle, uintptr_t address,
			     bool may_be_unknown)
{
	struct pool_block block = { 0 };

	if (handle & POOL_HAS_WORDS && LIKELY(pool_words_take(slot, address, &block)))
		return block;
	struct pool *pool = pool_of(handle);
	struct shard *shard = pool != NULL ? shard_of(pool, address) : NULL;
	bool there = false;

	if (shard != NULL && !acquire_lock(slot, handle, pool, shard)) {
		deferred_frees_add(&late, (struct deferred_free){ address, handle, 0 });
		return block;
	}
	if (shard != NULL) {
		there = shard_erase(shard, address, &block);
		release_lock_after(slot, shard);
	}
	if (!there && address != 0 && !may_be_unknown)
		record_unknown_free((const void *)address);
	return block;
}

void pools_moved(struct slot *slot, uint64_t pool, const struct pool_block *old, uintptr_t address,
		 uint64_t bytes, const uintptr_t *frame)
{
	if (old->counters != 0)
		pools_end_block(slot, pool, old);
	uint64_t weight;
	uint32_t id = add_block(slot, pool, address, bytes, frame, &weight);

	if (old->address != 0 && id != 0)
		account_realloc(NULL, memory_counters(id), old->bytes, bytes,
				old->address != address, weight);
}

static void clear_shard(struct slot *slot, uint64_t handle, struct pool *pool, struct shard *shard)
{
	if (__atomic_load_n(&shard->table, __ATOMIC_RELAXED) == NULL)
		return;
	if (acquire_lock(slot, handle, pool, shard))
		clear_and_release(slot, handle, shard);
	else
		deferred_frees_add(&late,
				   (struct deferred_free){ key_of_shard(pool, shard), handle, 0 });
}

void pool_clear(uint64_t handle, int end)
{
	struct slot *slot = pools_begin(HOOK_FRAME());

	if (slot == NULL)
		return;
	struct pool *pool = pool_of(pools_given(handle));

	for (int i = 0; pool != NULL && i < SHARDS; i++)
		clear_shard(slot, handle, pool, &pool->shard[i]);
	if (end && pool != NULL && lock_acquire(&spare_lock, slot->id)) {
		if (!pool->ended) {
			pool->ended = true;
			pool->next = spare_pool;
			spare_pool = number_of(handle);
		}
		lock_release(&spare_lock);
	}
	hook_leave();
}

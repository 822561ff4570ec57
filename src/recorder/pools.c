/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of pools.
 *
 * Owns: the pools and their tables of blocks, in scratch memory, and the counters of each name in LIVE_POOL. A table is by
 * the block's address and is of one pool alone: the first block of an arena has the address of the malloc block below it, and
 * a pool inside another one's block has that one's. Blocks may be packed as closely as the program likes, so this is a hash
 * table and no map of the address space. Four tables for each pool, with a lock each.
 *
 * Tables that were outgrown or emptied are used again, so that an arena for each request costs what the largest number of
 * them at one time needs. */
#include "recorder/pools.h"

#include "base/hash.h"
#include "recorder/hook.h"
#include "recorder/lock.h"
#include "recorder/start.h"
#include "recorder/tags.h"

enum {
	SHARDS = 4,
	FIRST_SHIFT = 5, /* places of a first table */
	SHIFTS = 32,
	PAGE_POOLS = 64,
	PAGES = 4096,
	TRIES = 3,
};

struct blocks_table {
	struct pool_block *at; /* address 0 = an empty place */
	uint32_t shift, used;
};

struct shard {
	struct lock lock;
	struct blocks_table table;
};

struct pool {
	struct shard shard[SHARDS];
	bool ended;
	uint32_t next; /* number of another one that has ended */
};

static struct pool *pages[PAGES];
static uint32_t made; /* numbers given out; goes on in a fork's child, which has the handles */
/* Under the lock: */
static struct lock spare_lock;
static uint32_t spare_pool;
static struct pool_block *spare_table[SHIFTS]; /* the next one's address is in its first place */

void pools_reset(void)
{
	for (int i = 0; i < PAGES; i++)
		pages[i] = NULL;
	for (int i = 0; i < SHIFTS; i++)
		spare_table[i] = NULL;
	spare_lock = (struct lock){ 0 };
	spare_pool = 0;
}

/* What a hook that was left without its end may hold. */
void pools_recover(struct slot *slot)
{
	lock_recover(&spare_lock, slot->id);
	if (slot->pool_lock != NULL)
		lock_recover(slot->pool_lock, slot->id);
	slot->pool_lock = NULL;
}

static bool take_lock(struct slot *slot, struct lock *lock)
{
	slot->pool_lock = lock;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return lock_take(lock, slot->id);
}

static void give_lock(struct slot *slot, struct lock *lock)
{
	lock_give(lock);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	slot->pool_lock = NULL;
}

/* ---- tables ---- */

static uint32_t table_places(const struct blocks_table *table)
{
	return table->at != NULL ? UINT32_C(1) << table->shift : 0;
}

/* An empty table; NULL: no memory. */
static struct pool_block *table_make(struct slot *slot, uint32_t shift)
{
	struct pool_block *at = NULL;

	if (shift >= SHIFTS - 1)
		return NULL;
	if (__atomic_load_n(&spare_table[shift], __ATOMIC_RELAXED) != NULL &&
	    lock_take(&spare_lock, slot->id)) {
		at = spare_table[shift];
		if (at != NULL)
			spare_table[shift] = (struct pool_block *)at->address;
		lock_give(&spare_lock);
	}
	if (at == NULL)
		return memory_scratch(sizeof *at << shift);
	__builtin_memset(at, 0, sizeof *at << shift);
	return at;
}

static void table_drop(struct slot *slot, struct blocks_table table)
{
	if (table.at == NULL || !lock_take(&spare_lock, slot->id))
		return;
	table.at->address = (uintptr_t)spare_table[table.shift];
	__atomic_store_n(&spare_table[table.shift], table.at, __ATOMIC_RELAXED);
	lock_give(&spare_lock);
}

/* The place of an address, or the empty one where it would be. */
static struct pool_block *place_of(const struct blocks_table *table, uintptr_t address)
{
	uint64_t mask = table_places(table) - 1, i = hash_mix(address);

	while (table->at[i & mask].address != 0 && table->at[i & mask].address != address)
		i++;
	return &table->at[i & mask];
}

static void table_erase(struct blocks_table *table, struct pool_block *place)
{
	uint64_t mask = table_places(table) - 1, hole = (uint64_t)(place - table->at);

	for (uint64_t i = (hole + 1) & mask; table->at[i].address != 0; i = (i + 1) & mask) {
		uint64_t wanted = hash_mix(table->at[i].address);

		/* Whoever is as far from where it belongs as the hole lies behind it may go there. */
		if (((i - wanted) & mask) >= ((i - hole) & mask)) {
			table->at[hole] = table->at[i];
			hole = i;
		}
	}
	table->at[hole] = (struct pool_block){ 0 };
	table->used--;
}

/* Moves all into an empty table. */
static void table_move_to(struct blocks_table *table, struct blocks_table larger)
{
	for (uint64_t i = 0; i < table_places(table); i++) {
		if (table->at[i].address != 0)
			*place_of(&larger, table->at[i].address) = table->at[i];
	}
	larger.used = table->used;
	*table = larger;
}

/* Whether one more would fill more than three quarters. */
static bool table_is_tight(const struct blocks_table *table)
{
	return table->used + 1 > table_places(table) / 4 * 3;
}

/* Enters a block where there is room. ret_old: one that was still there. Under the lock. */
static bool table_put_block(struct blocks_table *table, const struct pool_block *block,
			    struct pool_block *ret_old)
{
	if (table->used >= table_places(table) / 8 * 7)
		return false;
	struct pool_block *place = place_of(table, block->address);

	*ret_old = *place;
	table->used += place->address == 0;
	*place = *block;
	return true;
}

/* The same, with memory that is had before the lock is taken. False: no memory. */
static bool shard_put(struct slot *slot, struct shard *shard, const struct pool_block *block,
		      struct pool_block *ret_old)
{
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) { /* another thread may empty it meanwhile */
		struct blocks_table had = shard->table, other = { 0 };

		if (table_is_tight(&had)) {
			other.shift = had.at != NULL ? had.shift + 1 : FIRST_SHIFT;
			other.at = table_make(slot, other.shift);
		}
		if (take_lock(slot, &shard->lock)) {
			if (other.at != NULL && shard->table.at == had.at) {
				had = shard->table;
				table_move_to(&shard->table, other);
				other = had;
			}
			done = table_put_block(&shard->table, block, ret_old);
			give_lock(slot, &shard->lock);
		}
		table_drop(slot, other);
	}
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

/* NULL: no pool of this process'. */
static struct pool *pool_of(uint64_t handle)
{
	uint32_t number = (uint32_t)handle, name = name_of(handle);

	if (number == 0 || number > PAGES * PAGE_POOLS || name == 0 ||
	    name >= memory.head->used[LIVE_TAGS] || memory_tag(name)->kind != LIVE_TAG_POOL)
		return NULL;
	struct pool *page = page_of(number);

	return page != NULL ? &page[(number - 1) % PAGE_POOLS] : NULL;
}

static struct shard *shard_of(struct pool *pool, uintptr_t address)
{
	return &pool->shard[hash_mix(address) >> 62];
}
_Static_assert(SHARDS == 1 << 2, "what shard_of shifts by");

/* The counters of a name, shared by all pools that have it; NULL: no memory. */
static struct live_pool *counters_of(uint32_t name)
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
	struct live_pool *counters = counters_of(name);

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
	    lock_take(&spare_lock, slot->id)) {
		number = spare_pool;
		if (number != 0)
			spare_pool = page_of(number)[(number - 1) % PAGE_POOLS].next;
		lock_give(&spare_lock);
	}
	if (number == 0 && __atomic_load_n(&made, __ATOMIC_RELAXED) < PAGES * PAGE_POOLS)
		number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
	return number;
}

uint64_t pools_make(struct slot *slot, const char *name)
{
	uint32_t tag = name != NULL ? tags_name(slot, LIVE_TAG_POOL, name) : 0;
	uint32_t number = tag != 0 ? number_new(slot) : 0;
	uint64_t handle = (uint64_t)tag << 32 | number;
	struct pool *pool = pool_of(handle);

	if (pool == NULL) {
		health_add(HEALTH_lost_pools);
		return 0;
	}
	pool->ended = false;
	struct live_pool *counters = counters_of(tag);

	if (counters != NULL)
		__atomic_add_fetch(&counters->pools, 1, __ATOMIC_RELAXED);
	return handle;
}

/* ---- blocks ---- */

static void account_pool_block(struct live_record *record, uint32_t name, uint64_t bytes,
			       uint64_t times)
{
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);

	if (!(state & 1))
		account_save(record, state);
	account_record_add(record, bytes, times);
	if (record->first_size != bytes)
		account_size(record, bytes, times);
	count_name(name, (int64_t)(bytes * times));
}

static uint64_t times_of(const struct live_record *record, const struct pool_block *block)
{
	return sample_times(record_weight(record, block->bytes), block->address);
}

void pools_end_block(struct slot *slot, uint64_t pool, const struct pool_block *block)
{
	struct live_record *record = memory_record(block->record);
	uint64_t times = times_of(record, block);
	bool sample = record->samples != 0;

	if (record->slot != slot->id)
		record = memory_record(sites_record_of_site(slot, record->site));
	uint32_t state = __atomic_load_n(&memory.head->peak.state, __ATOMIC_RELAXED);

	if (!(state & 1))
		account_save(record, state);
	count(&record->frees, times);
	count(&record->freed_bytes, block->bytes * times);
	if (block->birth_code != clock_birth())
		account_lifetime(record, block->birth_code, times);
	struct live_samples *samples = sample ? sample_errors(record) : NULL;

	if (samples != NULL)
		sample_gave(samples, block->bytes, record_weight(record, block->bytes));
	count_name(name_of(pool), -(int64_t)(block->bytes * times));
}

/* The record for a block as the dial says; 0: none. */
static uint32_t record_for(struct slot *slot, uint64_t pool, uint64_t bytes, uint64_t *ret_interval,
			   const uintptr_t *frame)
{
	uint64_t verdict = DIAL_EXACTLY;

	if (dial_passes(bytes))
		return 0;
	if (dial_is_turned())
		verdict = dial_judge(bytes);
	if (verdict == DIAL_NOT)
		return 0;
	bool stack = verdict != DIAL_WITHOUT_STACK;
	uint32_t id = record_of_pool(slot, frame, name_of(pool), stack);

	*ret_interval = stack ? verdict : (uint64_t)DIAL_EXACTLY;
	return *ret_interval == DIAL_EXACTLY ? id
					     : sites_record_of_interval(slot, id, *ret_interval);
}

static bool enter_block(struct slot *slot, uint64_t handle, const struct pool_block *block)
{
	struct pool *pool = pool_of(handle);
	struct pool_block old = { 0 };

	if (pool == NULL || !shard_put(slot, shard_of(pool, block->address), block, &old)) {
		health_add(HEALTH_untracked_blocks);
		return false;
	}
	if (old.address != 0) {
		health_add(HEALTH_repaired_blocks);
		pools_end_block(slot, handle, &old);
	}
	return true;
}

uint32_t pools_add(struct slot *slot, uint64_t pool, uintptr_t address, uint64_t bytes,
		   const uintptr_t *frame)
{
	uint64_t interval = DIAL_NOT;
	uint32_t id = record_for(slot, pool, bytes, &interval, frame);
	struct pool_block block = { address, bytes, id, clock_birth() };
	struct live_record *record = memory_record(id);

	if (id == 0 || address == 0)
		return 0;
	struct live_samples *samples = interval != DIAL_EXACTLY ? sample_errors(record) : NULL;

	if (interval != DIAL_EXACTLY && samples == NULL) {
		health_add(HEALTH_lost_samples);
		return 0;
	}
	enter_block(slot, pool, &block);
	account_pool_block(record, name_of(pool), bytes, times_of(record, &block));
	if (samples != NULL)
		sample_took(samples, bytes, sample_weight(bytes, interval));
	return id;
}

struct pool_block pools_take(struct slot *slot, uint64_t handle, uintptr_t address)
{
	struct pool *pool = pool_of(handle);
	struct shard *shard = pool != NULL ? shard_of(pool, address) : NULL;
	struct pool_block block = { 0 };

	if (shard != NULL && take_lock(slot, &shard->lock)) {
		struct pool_block *place =
			shard->table.at != NULL ? place_of(&shard->table, address) : &block;

		if (place->address != 0) {
			block = *place;
			table_erase(&shard->table, place);
		}
		give_lock(slot, &shard->lock);
	}
	if (block.record == 0 && address != 0)
		record_unknown_free((const void *)address);
	return block;
}

void pools_put_back(struct slot *slot, uint64_t pool, const struct pool_block *block)
{
	if (block->record != 0)
		enter_block(slot, pool, block);
}

void pools_moved(struct slot *slot, uint64_t pool, const struct pool_block *old, uintptr_t address,
		 uint64_t bytes, const uintptr_t *frame)
{
	if (old->record != 0)
		pools_end_block(slot, pool, old);
	uint32_t id = pools_add(slot, pool, address, bytes, frame);

	if (old->address != 0 && id != 0) {
		struct pool_block block = { .address = address, .bytes = bytes };

		account_realloc(memory_record(id), old->bytes, bytes, old->address != address,
				times_of(memory_record(id), &block));
	}
}

static void clear_shard(struct slot *slot, uint64_t handle, struct shard *shard)
{
	struct blocks_table table;

	if (shard->table.at == NULL || !take_lock(slot, &shard->lock))
		return;
	table = shard->table;
	shard->table = (struct blocks_table){ 0 };
	give_lock(slot, &shard->lock);
	for (uint64_t i = 0; i < table_places(&table); i++) {
		if (table.at[i].address != 0)
			pools_end_block(slot, handle, &table.at[i]);
	}
	table_drop(slot, table);
}

/* ---- what programs call ---- */

struct slot *pools_begin(const uintptr_t *frame)
{
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return NULL;
	hook_record(frame);
	return slot;
}

uint64_t pool_new(const char *name)
{
	struct slot *slot = pools_begin(HOOK_FRAME());

	if (slot == NULL)
		return 0;
	uint64_t handle = pools_make(slot, name);

	hook_leave();
	return handle;
}

void pool_alloc(uint64_t pool, const void *address, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = pools_begin(frame);

	if (slot == NULL)
		return;
	pools_add(slot, pool, (uintptr_t)address, bytes, frame);
	hook_leave();
}

void pool_resize(uint64_t pool, const void *old, const void *address, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = pools_begin(frame);
	struct pool_block block = { 0 };

	if (slot == NULL)
		return;
	if (old != NULL)
		block = pools_take(slot, pool, (uintptr_t)old);
	pools_moved(slot, pool, &block, (uintptr_t)address, bytes, frame);
	hook_leave();
}

void pool_free(uint64_t pool, const void *address)
{
	struct slot *slot = address != NULL ? pools_begin(HOOK_FRAME()) : NULL;

	if (slot == NULL)
		return;
	struct pool_block block = pools_take(slot, pool, (uintptr_t)address);

	if (block.record != 0)
		pools_end_block(slot, pool, &block);
	hook_leave();
}

void pool_clear(uint64_t handle, int end)
{
	struct slot *slot = pools_begin(HOOK_FRAME());

	if (slot == NULL)
		return;
	struct pool *pool = pool_of(handle);

	for (int i = 0; pool != NULL && i < SHARDS; i++)
		clear_shard(slot, handle, &pool->shard[i]);
	if (end && pool != NULL && lock_take(&spare_lock, slot->id)) {
		if (!pool->ended) {
			pool->ended = true;
			pool->next = spare_pool;
			spare_pool = (uint32_t)handle;
		}
		lock_give(&spare_lock);
	}
	hook_leave();
}

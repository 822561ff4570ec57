/* SPDX-License-Identifier: Apache-2.0 */
/* The block map's upper levels and its large blocks.
 *
 * Owns: top[], LIVE_AREAS, LIVE_LEAVES, LIVE_LEAF_ERAS, LIVE_ERAS. A level is allocated on first use and published by
 * compare-and-swap; the loser of that race keeps its allocation as a spare. Invariant: blocks of LIVE_SMALL_LIMIT bytes or more
 * are indexed by the page they start in and store their exact address, because smaller ones may start in the same page.
 *
 * Eras are allocated for a unit of leaves when the first block of an era after 0 is inserted there: a process that ends on its
 * first day has none. */
#include "recorder/counters/blocks.h"

#include "recorder/checks/chaos.h"

PROCESS_STATE uint64_t blocks_tiny_limit, blocks_small_span = LIVE_SMALL_LIMIT;
PROCESS_STATE bool blocks_have_eras;
static PROCESS_STATE uint32_t spare_area, spare_unit, spare_large,
	spare_eras; /* number + 1 of each; 0 = none */
static PROCESS_STATE uint32_t
	page_next; /* next page to cut a tiny leaf from; a multiple of UNIT_PAGES = the unit is used up */

/* A small leaf and a table of tiny leaves are one unit each, a tiny leaf is a page. */
_Static_assert(sizeof(uint64_t) << (LIVE_SMALL_SHIFT - BLOCKS_GRANULE_SHIFT) == LIVE_LEAF_UNIT,
	       "small leaf");
_Static_assert(sizeof(uint64_t) << (LIVE_TINY_SHIFT - LIVE_TINY_GRANULE_SHIFT) == LIVE_PAGE,
	       "tiny leaf");
_Static_assert(sizeof(uint32_t) << (LIVE_TINY_TABLE_SHIFT - LIVE_TINY_SHIFT) == LIVE_LEAF_UNIT,
	       "tiny table");
enum {
	UNIT_PAGES = LIVE_LEAF_UNIT / LIVE_PAGE,
	LARGE_UNITS = (sizeof(struct live_large) << (LIVE_LARGE_SHIFT - LIVE_LARGE_GRANULE_SHIFT)) /
		      LIVE_LEAF_UNIT,
};

/* Returns the number in *place, allocating its object if it is 0. 0: no memory. */
static uint32_t number_at(uint32_t *place, uint32_t *spare, enum live_region region, uint64_t count,
			  uint64_t bytes)
{
	uint32_t number = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (number != 0)
		return number;
	uint32_t made = __atomic_exchange_n(spare, 0, __ATOMIC_ACQ_REL);

	if (made == 0) {
		uint64_t first = memory_append(region, count, bytes);

		if (first == UINT64_MAX)
			return 0;
		made = (uint32_t)first + 1;
	}
	CHAOS_DELAY();
	if (__atomic_compare_exchange_n(place, &number, made, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return made;
	__atomic_store_n(spare, made, __ATOMIC_RELEASE);
	return number;
}

static struct live_area *area_of(uintptr_t address, bool make)
{
	uint64_t index = address >> LIVE_AREA_SHIFT;

	if (index >= LIVE_TOP_ENTRIES)
		return NULL;
	uint32_t *place = &memory.head->top[index];
	uint32_t number =
		make ? number_at(place, &spare_area, LIVE_AREAS, 1, sizeof(struct live_area))
		     : __atomic_load_n(place, __ATOMIC_ACQUIRE);

	return number ? (struct live_area *)(void *)memory.region[LIVE_AREAS] + (number - 1) : NULL;
}

static void *unit_at(uint32_t number)
{
	return memory.region[LIVE_LEAVES] + (uint64_t)(number - 1) * LIVE_LEAF_UNIT;
}

/* The small leaf of an address; NULL: not allocated yet. */
static uint64_t *leaf_of(uintptr_t address)
{
	const struct live_area *area = area_of(address, false);
	uint32_t number = area != NULL
				  ? __atomic_load_n(&area->small[address >> LIVE_SMALL_SHIFT &
								 (ARRAY_SIZE(area->small) - 1)],
						    __ATOMIC_ACQUIRE)
				  : 0;

	return number != 0 ? unit_at(number) : NULL;
}

uint64_t *blocks_leaf(struct block_cache *cache, uintptr_t address)
{
	struct blocks_leaf *leaf = block_cache_leaf(cache, address);
	uint64_t *words = leaf_of(address);

	if (words != NULL) {
		/* Hooks in a signal handler only forward; if the handler leaves by longjmp, this cache entry is empty. */
		leaf->mib = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		leaf->words = words;
		leaf->eras = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		leaf->mib = address >> LIVE_SMALL_SHIFT;
	}
	return words;
}

/* Where the number of a unit's eras is stored; NULL: none, or no memory. */
static uint32_t *eras_place(uint64_t unit, bool make)
{
	uint64_t *used = &memory.head->used[LIVE_LEAF_ERAS];
	uint64_t covered = __atomic_load_n(used, __ATOMIC_ACQUIRE);

	if (unit >= covered) {
		if (!make || !memory_open(LIVE_LEAF_ERAS, (unit + 1) * sizeof(uint32_t)))
			return NULL;
		while (covered <= unit &&
		       !__atomic_compare_exchange_n(used, &covered, unit + 1, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			;
	}
	return (uint32_t *)(void *)memory.region[LIVE_LEAF_ERAS] + unit;
}

/* The era of a word of a small or tiny leaf, allocated if `make`; NULL: none, which means 0. */
static uint16_t *era_of(const uint64_t *word, bool make)
{
	uint64_t offset = (uint64_t)((const char *)word - memory.region[LIVE_LEAVES]);
	uint32_t *place = eras_place(offset / LIVE_LEAF_UNIT, make), number = 0;

	if (place != NULL)
		number = make ? number_at(place, &spare_eras, LIVE_ERAS, 1, LIVE_ERA_UNIT)
			      : __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (number == 0)
		return NULL;
	if (make)
		__atomic_store_n(&blocks_have_eras, true, __ATOMIC_RELAXED);
	uint16_t *eras = (uint16_t *)(void *)(memory.region[LIVE_ERAS] +
					      (uint64_t)(number - 1) * LIVE_ERA_UNIT);

	return eras + offset % LIVE_LEAF_UNIT / sizeof *word;
}

/* Caches where the eras of a leaf are. */
static void keep_eras(struct blocks_leaf *leaf, const uint64_t *word, const uint16_t *era)
{
	leaf->eras = (uintptr_t)era - ((uintptr_t)word >> 2);
}

NOINLINE const uint16_t *blocks_find_era(struct blocks_leaf *leaf, const uint64_t *word)
{
	const uint16_t *era = era_of(word, false);

	if (era != NULL)
		keep_eras(leaf, word, era);
	return era;
}

struct block blocks_unpack(const uint64_t *word)
{
	const uint16_t *era = ORDER_LOAD(blocks_have_eras) ? era_of(word, false) : NULL;
	uint64_t value = ORDER_LOAD(*word);

	return (struct block){ .counters = live_small_counters(value),
			       .birth_ms = live_birth(era != NULL ? ORDER_LOAD(*era) : 0,
						      live_small_birth(value)),
			       .size_bytes = live_small_size(value) };
}

/* The unit that *place names, allocated if `make`; NULL: none. */
static void *unit_of(uint32_t *place, bool make)
{
	uint32_t number = make ? number_at(place, &spare_unit, LIVE_LEAVES, 1, LIVE_LEAF_UNIT)
			       : __atomic_load_n(place, __ATOMIC_ACQUIRE);

	return number != 0 ? unit_at(number) : NULL;
}

/* Allocates a page of the leaves' region from a unit; returns its number + 1. 0: no memory. */
static uint32_t page_new(void)
{
	uint32_t page = __atomic_load_n(&page_next, __ATOMIC_RELAXED);

	for (;;) {
		uint32_t unit = 0, first = page;

		if (page % UNIT_PAGES == 0) { /* the last unit is used up */
			unit = __atomic_exchange_n(&spare_unit, 0, __ATOMIC_ACQ_REL);
			if (unit == 0) {
				uint64_t made = memory_append(LIVE_LEAVES, 1, LIVE_LEAF_UNIT);

				if (made == UINT64_MAX)
					return 0;
				unit = (uint32_t)made + 1;
			}
			first = (unit - 1) * UNIT_PAGES;
		}
		if (__atomic_compare_exchange_n(&page_next, &page, first + 1, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return first + 1;
		if (unit != 0)
			__atomic_store_n(&spare_unit, unit, __ATOMIC_RELEASE);
	}
}

static uint64_t *tiny_word(uintptr_t address, bool make)
{
	struct live_area *area = area_of(address, make);
	const uintptr_t tables = (uintptr_t)1 << (LIVE_AREA_SHIFT - LIVE_TINY_TABLE_SHIFT);
	const uintptr_t leaves = (uintptr_t)1 << (LIVE_TINY_TABLE_SHIFT - LIVE_TINY_SHIFT);
	uint32_t *table =
		area != NULL ? unit_of(&area->tiny[address >> LIVE_TINY_TABLE_SHIFT & (tables - 1)],
				       make)
			     : NULL;

	if (table == NULL)
		return NULL;
	uint32_t *place = &table[address >> LIVE_TINY_SHIFT & (leaves - 1)];
	uint32_t page = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (page == 0 && make) {
		uint32_t made = page_new();

		/* The loser of the race wastes a page. */
		if (made != 0 && __atomic_compare_exchange_n(place, &page, made, false,
							     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			page = made;
	}
	if (page == 0)
		return NULL;
	uint64_t *words =
		(uint64_t *)(void *)(memory.region[LIVE_LEAVES] + (uint64_t)(page - 1) * LIVE_PAGE);

	return &words[(address & ((1u << LIVE_TINY_SHIFT) - 1)) >> LIVE_TINY_GRANULE_SHIFT];
}

/* The word of a tiny block; NULL: none. */
static uint64_t *find_tiny(uintptr_t address)
{
	uint64_t *word = blocks_tiny_limit != 0 ? tiny_word(address, false) : NULL;

	return word != NULL && *word != 0 ? word : NULL;
}

static struct block of_large(const struct live_large *entry)
{
	return (struct block){ .counters = entry->counters,
			       .birth_ms = entry->birth_ms,
			       .size_bytes = entry->size_bytes };
}

static struct live_large *large_entry(uintptr_t address, bool make)
{
	struct live_area *area = area_of(address, make);

	if (area == NULL)
		return NULL;
	uint32_t *place = &area->large[address >> LIVE_LARGE_SHIFT & (ARRAY_SIZE(area->large) - 1)];
	uint32_t leaf =
		make ? number_at(place, &spare_large, LIVE_LEAVES, LARGE_UNITS, LIVE_LEAF_UNIT)
		     : __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (leaf == 0)
		return NULL;
	struct live_large *entries = unit_at(leaf);

	return &entries[(address & ((1u << LIVE_LARGE_SHIFT) - 1)) >> LIVE_LARGE_GRANULE_SHIFT];
}

static void put_large(struct block_cache *cache, uintptr_t address, const struct block *block,
		      struct block *ret_old)
{
	struct live_large *entry = large_entry(address, true);
	uint64_t *word = blocks_small_word(cache, address);

	if (word != NULL && __atomic_load_n(word, __ATOMIC_RELAXED) !=
				    0) { /* a small block whose free was missed */
		*ret_old = blocks_unpack(word);
		__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	}
	if (entry == NULL) {
		health_add(HEALTH_untracked_blocks);
		return;
	}
	if (entry->address != 0) {
		*ret_old = of_large(entry);
		__atomic_store_n(&entry->address, 0, __ATOMIC_RELEASE);
	}
	entry->size_bytes = block->size_bytes;
	entry->counters = block->counters;
	entry->birth_ms = block->birth_ms;
	__atomic_store_n(&entry->address, address, __ATOMIC_RELEASE);
}

/* Stores the era of a word's block; returns the birth to pack into the word. */
static uint32_t put_era(struct block_cache *cache, uintptr_t address, const uint64_t *word,
			const struct block *block)
{
	uint64_t era = live_era(block->birth_ms);
	uint16_t *place = era != 0 || ORDER_LOAD(blocks_have_eras) ? era_of(word, era != 0) : NULL;

	if (place != NULL) {
		__atomic_store_n(place, (uint16_t)era, __ATOMIC_RELAXED);
		if (block->size_bytes >= blocks_tiny_limit)
			keep_eras(block_cache_leaf(cache, address), word, place);
	} else if (era != 0) {
		health_add(HEALTH_lost_details);
		return LIVE_BIRTH_UNKNOWN;
	}
	return (uint32_t)block->birth_ms & LIVE_BIRTH_MASK;
}

/* Slow path: a tiny block, or a small one whose leaf may not exist yet. */
static void put_word(struct block_cache *cache, uintptr_t address, const struct block *block,
		     struct block *ret_old)
{
	bool tiny = block->size_bytes < blocks_tiny_limit;
	uint64_t *word = NULL;

	if (tiny) {
		word = tiny_word(address, true);
	} else {
		struct live_area *area = area_of(address, true);
		const size_t mask = ARRAY_SIZE(area->small) - 1;

		if (area != NULL &&
		    unit_of(&area->small[address >> LIVE_SMALL_SHIFT & mask], true) != NULL)
			word = blocks_small_word(cache, address);
	}
	if (word == NULL) {
		health_add(HEALTH_untracked_blocks);
		return;
	}
	if (*word != 0)
		*ret_old = blocks_unpack(word);
	uint32_t birth_code = put_era(cache, address, word, block);

	__atomic_store_n(word,
			 live_small_pack(block->counters, (uint32_t)block->size_bytes, birth_code,
					 live_small_place_of(address)),
			 __ATOMIC_RELEASE);
}

NOINLINE void blocks_put(struct block_cache *cache, uintptr_t address, const struct block *block,
			 struct block *ret_old)
{
	ret_old->counters = 0;
	if (CHECKED)
		check_block(block);
	if (block->size_bytes >= LIVE_SMALL_LIMIT)
		put_large(cache, address, block, ret_old);
	else
		put_word(cache, address, block, ret_old);
}

/* The entry of a large block; NULL: none. */
static struct live_large *find_large(uintptr_t address)
{
	struct live_large *entry = large_entry(address, false);

	return entry != NULL && __atomic_load_n(&entry->address, __ATOMIC_ACQUIRE) == address
		       ? entry
		       : NULL;
}

struct block blocks_take_slow(uintptr_t address)
{
	uint64_t *tiny = find_tiny(address);
	struct live_large *entry = tiny == NULL ? find_large(address) : NULL;
	struct block block = { 0 };

	if (tiny != NULL) {
		block = blocks_unpack(tiny);
		__atomic_store_n(tiny, 0, __ATOMIC_RELAXED);
	} else if (entry != NULL) {
		block = of_large(entry);
		__atomic_store_n(&entry->address, 0, __ATOMIC_RELEASE);
	}
	return block;
}

struct block blocks_find(uintptr_t address)
{
	const uint64_t *leaf = leaf_of(address);
	const uint64_t *word = leaf != NULL ? leaf + blocks_granule(address) : NULL;

	if (word == NULL || *word == 0 || live_small_place(*word) != live_small_place_of(address))
		word = find_tiny(address);
	if (word != NULL)
		return blocks_unpack(word);
	const struct live_large *entry = find_large(address);

	return entry != NULL ? of_large(entry) : (struct block){ 0 };
}

void blocks_start(bool packed_tightly)
{
	blocks_tiny_limit = packed_tightly ? LIVE_TINY_LIMIT : 0;
	blocks_small_span = LIVE_SMALL_LIMIT - blocks_tiny_limit;
}

void blocks_reset(void)
{
	spare_area = spare_unit = spare_large = spare_eras = page_next = 0;
	blocks_have_eras = false;
}

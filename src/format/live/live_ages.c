/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ages and sizes of the live blocks: walks the block map, from its top level in the header through areas and leaves to the
 * blocks' words. Owns a table of (site counters, bucket) -> blocks, bytes and one of (site counters, size) -> blocks during the
 * walk. Any thread.
 *
 * The map is untrusted memory (live_leaves.h).
 * Invariant: every row's `counters` is below rows->site_counters_count.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "format/live/live_leaves.h"
#include "format/live/live_read.h"

#define NO_ROW UINT32_MAX

enum { EXACT_SIZES_MAX = 1 << 17 }; /* further sizes are counted by class: bounds memory and file */

struct walk {
	struct live_view view;
	struct live_leaves leaves;
	uint64_t now_ms;
	uint32_t *row_of; /* by index of the site counters */
	size_t site_counters_count;
	struct age_row *table; /* open addressing; blocks 0 = empty */
	size_t mask, used;
	struct live_size_row *sizes; /* likewise */
	size_t sizes_mask, sizes_used;
	uint64_t
		left; /* live blocks that were not found yet: at 0, the rest of the map is empty and the walk stops */
	bool no_memory;
	struct live_size_class *
		classes; /* if set, only these are summed, and row_of is 0 for counters of the heap */
};

static uint32_t age_bucket(uint64_t now_ms, uint64_t birth_ms)
{
	uint64_t age = saturating_sub(now_ms, birth_ms);

	return age ? 64 - (uint32_t)__builtin_clzll(age) : 0;
}

static struct age_row *find(struct age_row *table, size_t mask, uint32_t row, uint32_t bucket)
{
	size_t at = hash_mix((uint64_t)row << 8 | bucket) & mask;

	while (table[at].blocks && (table[at].counters != row || table[at].bucket != bucket))
		at = (at + 1) & mask;
	return &table[at];
}

static void grow(struct walk *walk)
{
	size_t mask = walk->mask * 2 + 1;
	struct age_row *table = calloc(mask + 1, sizeof *table);

	if (!table) {
		walk->no_memory = true;
		return;
	}
	for (size_t i = 0; i <= walk->mask; i++) {
		if (walk->table[i].blocks)
			*find(table, mask, walk->table[i].counters, walk->table[i].bucket) =
				walk->table[i];
	}
	free(walk->table);
	walk->table = table;
	walk->mask = mask;
}

static struct live_size_row *find_size(struct live_size_row *table, size_t mask, uint32_t row,
				       uint64_t low, uint64_t high)
{
	size_t at =
		hash_mix(low * UINT64_C(0x9e3779b97f4a7c15) + high + ((uint64_t)row << 32)) & mask;

	while (table[at].blocks &&
	       (table[at].counters != row || table[at].low != low || table[at].high != high))
		at = (at + 1) & mask;
	return &table[at];
}

static void grow_sizes(struct walk *walk)
{
	size_t mask = walk->sizes_mask * 2 + 1;
	struct live_size_row *table = calloc(mask + 1, sizeof *table);

	if (!table) {
		walk->no_memory = true;
		return;
	}
	for (size_t i = 0; i <= walk->sizes_mask; i++) {
		const struct live_size_row *old = &walk->sizes[i];

		if (old->blocks)
			*find_size(table, mask, old->counters, old->low, old->high) = *old;
	}
	free(walk->sizes);
	walk->sizes = table;
	walk->sizes_mask = mask;
}

static void add_size(struct walk *walk, uint32_t row, uint64_t bytes, uint64_t weight)
{
	struct live_size_row *size = find_size(walk->sizes, walk->sizes_mask, row, bytes, bytes);
	uint64_t low = bytes, high = bytes;

	if (size->blocks == 0 && walk->sizes_used >= EXACT_SIZES_MAX) {
		unsigned bucket = live_size_bucket(bytes);

		low = live_size_bucket_floor(bucket);
		high = live_size_bucket_last(bucket);
		size = find_size(walk->sizes, walk->sizes_mask, row, low, high);
	}
	walk->sizes_used += size->blocks == 0;
	*size = (struct live_size_row){ row, low, high, saturating_add(size->blocks, weight) };
	if (walk->sizes_used > walk->sizes_mask / 2)
		grow_sizes(walk);
}

/* weight: the number of blocks that this one represents. */
static void add(struct walk *walk, uint32_t counters, uint64_t birth_ms, uint64_t size_bytes,
		uint64_t weight)
{
	uint32_t row = counters < walk->site_counters_count ? walk->row_of[counters] : NO_ROW;
	uint32_t bucket = age_bucket(walk->now_ms, birth_ms);
	struct age_row *age;

	walk->left = saturating_sub(walk->left, weight);
	if (row == NO_ROW || walk->no_memory || weight == 0)
		return;
	if (walk->classes) {
		struct live_size_class *class = &walk->classes[live_pair_class(size_bytes)];

		class->blocks = saturating_add(class->blocks, weight);
		class->bytes = saturating_add(class->bytes, saturating_mul(size_bytes, weight));
		return;
	}
	add_size(walk, row, size_bytes, weight);
	if (!live_birth_is_known(birth_ms))
		return;
	age = find(walk->table, walk->mask, row, bucket);
	walk->used += age->blocks == 0;
	age->counters = row;
	age->bucket = bucket;
	age->blocks = saturating_add(age->blocks, weight);
	age->bytes = saturating_add(age->bytes, saturating_mul(size_bytes, weight));
	if (walk->used > walk->mask / 2)
		grow(walk);
}

/* One word per block: for small and tiny leaves. A unit of words at a time, since that has its eras. */
static void add_words(struct walk *walk, const uint64_t *leaf, size_t words)
{
	enum { UNIT_WORDS = LIVE_LEAF_UNIT / sizeof(uint64_t) };
	struct live_eras eras = { 0 };

	for (size_t i = 0; leaf && i < words && walk->left; i++) {
		uint64_t word = __atomic_load_n(&leaf[i], __ATOMIC_ACQUIRE);

		if (i % UNIT_WORDS == 0)
			eras = live_leaves_eras(&walk->leaves, &leaf[i]);
		if (word != 0)
			add(walk, live_small_counters(word),
			    live_eras_birth(&eras, i % UNIT_WORDS, word), live_small_size(word), 1);
	}
}

static void walk_small(struct walk *walk, uint32_t number)
{
	size_t words = (size_t)1 << (LIVE_SMALL_SHIFT - walk->leaves.granule_shift);

	add_words(walk, live_leaves_leaf(&walk->leaves, number, words * sizeof(uint64_t)), words);
}

static void walk_tiny(struct walk *walk, uint32_t number)
{
	size_t leaves = (size_t)1 << (LIVE_TINY_TABLE_SHIFT - LIVE_TINY_SHIFT);
	const uint32_t *table = live_leaves_leaf(&walk->leaves, number, leaves * sizeof *table);

	for (size_t i = 0; table && i < leaves && walk->left; i++)
		add_words(walk, live_leaves_page(&walk->leaves, LIVE_LOAD_LAST(table[i])),
			  LIVE_PAGE / sizeof(uint64_t));
}

static void walk_large(struct walk *walk, uint32_t number)
{
	size_t entries = (size_t)1 << (LIVE_LARGE_SHIFT - LIVE_LARGE_GRANULE_SHIFT);
	const struct live_large *leaf =
		live_leaves_leaf(&walk->leaves, number, entries * sizeof *leaf);

	for (size_t i = 0; leaf && i < entries && walk->left; i++) {
		if (__atomic_load_n(&leaf[i].address, __ATOMIC_ACQUIRE) != 0)
			add(walk, LIVE_LOAD(leaf[i].counters), LIVE_LOAD(leaf[i].birth_ms),
			    LIVE_LOAD(leaf[i].size_bytes), 1);
	}
}

static void walk_area(struct walk *walk, uint32_t number)
{
	const struct live_area *area = live_leaves_area(&walk->leaves, number);

	if (!area)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(area->small) && walk->left; i++)
		walk_small(walk, __atomic_load_n(&area->small[i], __ATOMIC_ACQUIRE));
	for (size_t i = 0; i < ARRAY_SIZE(area->tiny) && walk->left; i++)
		walk_tiny(walk, __atomic_load_n(&area->tiny[i], __ATOMIC_ACQUIRE));
	for (size_t i = 0; i < ARRAY_SIZE(area->large) && walk->left; i++)
		walk_large(walk, __atomic_load_n(&area->large[i], __ATOMIC_ACQUIRE));
}

static void walk_sampled(struct walk *walk)
{
	const struct live_sampled *sampled = live_view_at(&walk->view, LIVE_SAMPLED);
	size_t count = live_view_used(&walk->view, LIVE_SAMPLED);

	for (size_t i = 0; i < count; i++) {
		if (__atomic_load_n(&sampled[i].address, __ATOMIC_ACQUIRE) != 0)
			add(walk, LIVE_LOAD(sampled[i].counters), LIVE_LOAD(sampled[i].birth_ms),
			    LIVE_LOAD(sampled[i].size_bytes), LIVE_LOAD(sampled[i].weight));
	}
}

/* The rows were made from the site counters in order, with some left out; a site has at most one set of counters in a thread. */
static void match_rows(struct walk *walk, const struct process_rows *rows)
{
	const struct live_site_counters *site_counters =
		live_view_at(&walk->view, LIVE_SITE_COUNTERS);
	size_t row = 0;
	uint64_t alive = 0; /* wraps: what is read may be anything */

	for (size_t i = 0; i < walk->site_counters_count; i++) {
		uint32_t site = LIVE_LOAD(site_counters[i].site);

		/* For another thread's blocks, a thread counts only the frees. */
		if (site < rows->site_count && rows->sites[site].kind == LIVE_KIND_HEAP)
			alive += LIVE_LOAD(site_counters[i].calls) -
				 LIVE_LOAD(site_counters[i].frees);
		walk->row_of[i] = NO_ROW;
		if (row < rows->site_counters_count &&
		    LIVE_LOAD(site_counters[i].site) == rows->site_counters[row].site &&
		    LIVE_LOAD(site_counters[i].thread) == rows->site_counters[row].slot)
			walk->row_of[i] = (uint32_t)row++;
	}
	walk->left = (int64_t)alive >= 0 ? alive : UINT64_MAX;
}

static int compare_ages(const void *a, const void *b)
{
	const struct age_row *x = a, *y = b;

	if (x->counters != y->counters)
		return x->counters < y->counters ? -1 : 1;
	return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

static int compare_sizes(const void *a, const void *b)
{
	const struct live_size_row *x = a, *y = b;

	if (x->counters != y->counters)
		return x->counters < y->counters ? -1 : 1;
	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->high < y->high ? -1 : x->high > y->high;
}

static bool walk_init(struct walk *walk, uint64_t now_ms)
{
	walk->now_ms = now_ms;
	walk->site_counters_count = live_view_used(&walk->view, LIVE_SITE_COUNTERS);
	walk->row_of = calloc(walk->site_counters_count + 1, sizeof *walk->row_of);
	walk->mask = 1023;
	walk->table = calloc(walk->mask + 1, sizeof *walk->table);
	walk->sizes_mask = 1023;
	walk->sizes = calloc(walk->sizes_mask + 1, sizeof *walk->sizes);
	return live_leaves_init(&walk->leaves, &walk->view) && walk->row_of && walk->table &&
	       walk->sizes;
}

static void walk_release(struct walk *walk)
{
	live_leaves_release(&walk->leaves);
	free(walk->row_of);
	free(walk->table);
	free(walk->sizes);
}

/* Moves the tables to sorted rows. */
static void take_rows(struct walk *walk, struct process_rows *rows)
{
	size_t count = 0;

	for (size_t i = 0; i <= walk->mask; i++) {
		if (walk->table[i].blocks)
			walk->table[count++] = walk->table[i];
	}
	qsort(walk->table, count, sizeof *walk->table, compare_ages);
	free(rows->ages);
	rows->ages = walk->table;
	rows->age_count = count;
	walk->table = NULL;
	count = 0;
	for (size_t i = 0; i <= walk->sizes_mask; i++)
		if (walk->sizes[i].blocks)
			walk->sizes[count++] = walk->sizes[i];
	qsort(walk->sizes, count, sizeof *walk->sizes, compare_sizes);
	free(rows->live_sizes);
	rows->live_sizes = walk->sizes;
	rows->live_size_count = count;
	walk->sizes = NULL;
}

static void walk_all(struct walk *walk)
{
	const uint32_t *top = walk->view.header->top;

	walk_sampled(walk);
	for (size_t i = 0; i < walk->view.top_entries && walk->left; i++)
		walk_area(walk, __atomic_load_n(&top[i], __ATOMIC_ACQUIRE));
}

static void leave_heap(struct walk *walk)
{
	const struct live_site_counters *counters = live_view_at(&walk->view, LIVE_SITE_COUNTERS);
	const struct live_site *sites = live_view_at(&walk->view, LIVE_SITES);
	size_t site_count = live_view_used(&walk->view, LIVE_SITES);

	for (size_t i = 0; i < walk->site_counters_count; i++) {
		uint32_t site = LIVE_LOAD_LAST(counters[i].site);

		if (site >= site_count || LIVE_LOAD(sites[site].kind) != LIVE_KIND_HEAP)
			walk->row_of[i] = NO_ROW;
	}
}

int live_read_size_classes(const void *memory, uint64_t mapped_bytes,
			   struct live_size_class ret[static LIVE_PAIR_CLASSES])
{
	struct walk walk = { .left = UINT64_MAX, .classes = ret };

	memset(ret, 0, LIVE_PAIR_CLASSES * sizeof *ret);
	if (live_view_init(&walk.view, memory, mapped_bytes))
		return -1;
	bool done = live_view_used(&walk.view, LIVE_SAMPLED) == 0 && walk_init(&walk, 0) &&
		    live_leaves_has_granules(&walk.leaves);

	if (done) {
		leave_heap(&walk);
		walk_all(&walk);
	}
	walk_release(&walk);
	return done ? 0 : -1;
}

int live_read_ages(const void *memory, uint64_t mapped_bytes, uint64_t now_ms,
		   struct process_rows *rows, struct format_error *error)
{
	struct walk walk = { 0 };
	const char *reason = live_view_init(&walk.view, memory, mapped_bytes);

	if (reason)
		return format_fail(error, "%s", reason);
	walk.no_memory = !walk_init(&walk, now_ms);
	if (!walk.no_memory && live_leaves_has_granules(&walk.leaves)) {
		match_rows(&walk, rows);
		walk_all(&walk);
	}
	if (!walk.no_memory)
		take_rows(&walk, rows);
	walk_release(&walk);
	return walk.no_memory ? format_fail(error, "out of memory") : 0;
}

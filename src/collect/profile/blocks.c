/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the block map page by page of the target's memory: the small leaf of the page's mebibyte, its tiny leaf and its entry in
 * the large leaf are each in order of address, and are merged.
 *
 * The profile is untrusted memory that may change meanwhile (live_leaves.h): each word is loaded once. An entry gives an address within
 * its granule or page only, so that the order cannot be forged.
 * Any thread; nothing here is shared.
 */
#include "collect/profile/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "format/live/live_leaves.h"
#include "util/cleanup.h"
#include "util/huge_pages.h"
#include "util/search.h"

enum {
	LARGE_ENTRIES = 1 << (LIVE_LARGE_SHIFT - LIVE_LARGE_GRANULE_SHIFT),
	TINY_LEAVES = 1 << (LIVE_TINY_TABLE_SHIFT - LIVE_TINY_SHIFT),
	TINY_WORDS = LIVE_PAGE >> LIVE_TINY_GRANULE_SHIFT,
	WINDOW_PAGES = 1 << (LIVE_SMALL_SHIFT - 12),
	WINDOWS_PER_LARGE = 1 << (LIVE_LARGE_SHIFT - LIVE_SMALL_SHIFT),
	WINDOWS_PER_TINY = 1 << (LIVE_TINY_TABLE_SHIFT - LIVE_SMALL_SHIFT),
	WINDOWS = 1 << (LIVE_AREA_SHIFT - LIVE_SMALL_SHIFT),
	/* A page has at most this many entries: granules of 8 bytes in both kinds of leaves, and one large block. */
	PAGE_BLOCKS_MAX = 2 * TINY_WORDS + 1,
};

struct walk {
	struct live_view view;
	struct live_blocks *to;
	/* If set, the blocks are compared with this list, and none is made. */
	struct live_blocks *earlier;
	size_t earlier_at, kept, later_count; /* next to compare; in both; in the later state */
	struct live_block last;		      /* the next one may cut it; at address 0: none */
	struct live_leaves leaves;
	uint64_t now_ms;
	uint32_t *site_of; /* by index of the site counters; 0 = unknown */
	size_t site_counters_count;
	struct live_block *page_blocks; /* PAGE_BLOCKS_MAX, of the current page */
	const char *reason;		/* why the list is incomplete; NULL = it is not */
};

/* The leaves of one mebibyte; NULL = it has none. */
struct window {
	const uint64_t *small;
	const uint32_t *tiny;
	const struct live_large *large;
};

/* ---- blocks ---- */

static uint32_t age_of(const struct walk *walk, uint64_t birth_ms)
{
	return live_birth_is_known(birth_ms) ? (uint32_t)MIN(saturating_sub(walk->now_ms, birth_ms),
							     (uint64_t)BLOCK_AGE_UNKNOWN - 1)
					     : BLOCK_AGE_UNKNOWN;
}

/* Writes the block to `to`, of which one more is used then. Returns how many. */
static size_t put(struct walk *walk, struct live_block *to, uint64_t address, uint64_t size_bytes,
		  uint32_t counters, uint64_t birth_ms)
{
	uint32_t site = counters < walk->site_counters_count ? walk->site_of[counters] : 0;

	*to = (struct live_block){ address, size_bytes, site, age_of(walk, birth_ms) };
	walk->to->dropped += site == 0;
	return site != 0;
}

/* Puts the blocks of the words of one page, which starts at `base`. Returns how many. */
static size_t put_words(struct walk *walk, struct live_block *to, const uint64_t *words,
			size_t count, unsigned shift, uint64_t base)
{
	const uint64_t within = (UINT64_C(1) << shift) - 1;
	const struct live_eras eras = live_leaves_eras(&walk->leaves, words);
	size_t put_count = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

		if (word == 0)
			continue;
		put_count += put(walk, to + put_count,
				 base + ((uint64_t)i << shift) +
					 (((uint64_t)live_small_place(word) << 3) & within),
				 live_small_size(word), live_small_counters(word),
				 live_eras_birth(&eras, i, word));
	}
	return put_count;
}

static size_t put_large(struct walk *walk, struct live_block *to, const struct live_large *large,
			uint64_t base)
{
	uint64_t address = __atomic_load_n(&large->address, __ATOMIC_ACQUIRE);

	if (address == 0)
		return 0;
	if (address - base >= LIVE_PAGE) {
		walk->to->dropped++;
		return 0;
	}
	return put(walk, to, address, LIVE_LOAD(large->size_bytes), LIVE_LOAD(large->counters),
		   LIVE_LOAD(large->birth_ms));
}

/* Merges two parts in order of address, each of which is in order. `left` directly precedes `right`. */
static void merge(struct live_block *left, size_t left_count, size_t right_count)
{
	struct live_block first[PAGE_BLOCKS_MAX];
	const struct live_block *right = left + left_count;
	size_t i = 0, k = 0;

	if (left_count == 0 || right_count == 0 || left[left_count - 1].address < right->address)
		return;
	memcpy(first, left, left_count * sizeof *first);
	while (i < left_count)
		*left++ = k < right_count && right[k].address < first[i].address ? right[k++]
										 : first[i++];
}

static bool is_same(const struct live_block *a, const struct live_block *b)
{
	return a->address == b->address && a->size_bytes == b->size_bytes && a->site == b->site &&
	       a->age_ms == b->age_ms;
}

static void compare(struct walk *walk, const struct live_block *b)
{
	const struct live_block *at = walk->earlier->list.at + walk->earlier_at,
				*end = walk->earlier->list.at + walk->earlier->list.count;

	while (at < end && at->address < b->address)
		at++;
	walk->earlier_at = (size_t)(at - walk->earlier->list.at);
	if (at < end && is_same(at, b))
		walk->earlier->list.at[walk->kept++] = *b;
	walk->later_count++;
}

/* Nothing can cut the last block any more. */
static void end_last(struct walk *walk)
{
	if (walk->last.address == 0)
		return;
	if (walk->earlier)
		compare(walk, &walk->last);
	else
		walk->to->list.at[walk->to->list.count++] = walk->last;
}

/* Adds the blocks of a page: without a second block at an address, and none that reaches into the next. */
static void keep(struct walk *walk, const struct live_block *part, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t room = part[i].address - walk->last.address;

		if (room == 0) {
			walk->to->dropped++;
			continue;
		}
		if (walk->last.size_bytes > room) {
			walk->last.size_bytes = room;
			walk->to->cut++;
		}
		end_last(walk);
		walk->last = part[i];
	}
}

static void walk_page(struct walk *walk, const struct window *window, size_t page, uint64_t base)
{
	struct live_block *at = walk->page_blocks;
	size_t words = (size_t)LIVE_PAGE >> walk->leaves.granule_shift, count = 0;
	const uint64_t *tiny =
		window->tiny ? live_leaves_page(&walk->leaves, LIVE_LOAD_LAST(window->tiny[page]))
			     : NULL;

	if (window->small)
		count = put_words(walk, at, window->small + page * words, words,
				  walk->leaves.granule_shift, base);
	if (tiny) {
		size_t more = put_words(walk, at + count, tiny, TINY_WORDS, LIVE_TINY_GRANULE_SHIFT,
					base);

		merge(at, count, more);
		count += more;
	}
	if (window->large && put_large(walk, at + count, &window->large[page], base) > 0)
		merge(at, count++, 1);
	if (walk->to->list.count > UINT32_MAX - PAGE_BLOCKS_MAX)
		walk->reason = "it has too many blocks";
	else if (!walk->earlier && !vector_reserve(&walk->to->list, count + 1))
		walk->reason = "out of memory";
	else
		keep(walk, at, count);
}

static void walk_area(struct walk *walk, uint32_t number, uint64_t start)
{
	const struct live_area *area = live_leaves_area(&walk->leaves, number);
	const size_t small_bytes = sizeof(uint64_t)
				   << (LIVE_SMALL_SHIFT - walk->leaves.granule_shift);
	struct window window = { 0 };
	const uint32_t *tiny = NULL;
	const struct live_large *large = NULL;

	if (!area)
		return;
	for (size_t i = 0; i < WINDOWS; i++) {
		uint64_t base = start + ((uint64_t)i << LIVE_SMALL_SHIFT);

		if (i % WINDOWS_PER_TINY == 0)
			tiny = live_leaves_leaf(&walk->leaves,
						LIVE_LOAD_LAST(area->tiny[i / WINDOWS_PER_TINY]),
						TINY_LEAVES * sizeof *tiny);
		if (i % WINDOWS_PER_LARGE == 0)
			large = live_leaves_leaf(&walk->leaves,
						 LIVE_LOAD_LAST(area->large[i / WINDOWS_PER_LARGE]),
						 LARGE_ENTRIES * sizeof *large);
		window.small = live_leaves_leaf(&walk->leaves, LIVE_LOAD_LAST(area->small[i]),
						small_bytes);
		window.tiny = tiny ? tiny + i % WINDOWS_PER_TINY * WINDOW_PAGES : NULL;
		window.large = large ? large + i % WINDOWS_PER_LARGE * WINDOW_PAGES : NULL;
		for (size_t page = 0;
		     (window.small || tiny || large) && page < WINDOW_PAGES && !walk->reason;
		     page++)
			walk_page(walk, &window, page, base + page * LIVE_PAGE);
	}
}

/* ---- the walk ---- */

/* Only sites of the heap have blocks in the map. */
static void match_sites(struct walk *walk)
{
	const struct live_site_counters *counters = live_view_at(&walk->view, LIVE_SITE_COUNTERS);
	const struct live_site *sites = live_view_at(&walk->view, LIVE_SITES);
	size_t site_count = live_view_used(&walk->view, LIVE_SITES);

	walk->to->site_count = (uint32_t)MIN(site_count, (size_t)UINT32_MAX);
	for (size_t i = 0; i < walk->site_counters_count; i++) {
		uint32_t site = LIVE_LOAD(counters[i].site);

		if (site < site_count && LIVE_LOAD(sites[site].kind) == LIVE_KIND_HEAP)
			walk->site_of[i] = site;
	}
}

static bool walk_init(struct walk *walk)
{
	/* The counters first: later blocks may refer to later counters, and are dropped. */
	walk->site_counters_count = live_view_used(&walk->view, LIVE_SITE_COUNTERS);
	walk->site_of = calloc(walk->site_counters_count + 1, sizeof *walk->site_of);
	walk->page_blocks = calloc(PAGE_BLOCKS_MAX, sizeof *walk->page_blocks);
	return live_leaves_init(&walk->leaves, &walk->view) && walk->site_of && walk->page_blocks;
}

/* Reserves the list for as many blocks as are live, which a target may state wrongly: it grows then, or stays untouched. In huge pages,
 * because it is filled at once. */
static void reserve(struct walk *walk)
{
	const struct live_site_counters *counters = live_view_at(&walk->view, LIVE_SITE_COUNTERS);
	uint64_t live = 0,
		 most = (uint64_t)walk->leaves.leaf_count * (LIVE_LEAF_UNIT / sizeof(uint64_t));

	for (size_t i = 0; i < walk->site_counters_count; i++)
		if (walk->site_of[i] != 0)
			live += LIVE_LOAD(counters[i].calls) - LIVE_LOAD(counters[i].frees);
	if (live > most || !vector_reserve(&walk->to->list, live + 1))
		return;
	huge_pages_advise(walk->to->list.at, walk->to->list.capacity * sizeof *walk->to->list.at);
}

static void walk_release(struct walk *walk)
{
	live_leaves_release(&walk->leaves);
	free(walk->site_of);
	free(walk->page_blocks);
}

static int walk_all(struct walk *walk, const void *memory, uint64_t mapped_bytes,
		    struct error *error)
{
	walk->reason = live_view_init(&walk->view, memory, mapped_bytes);
	if (!walk->reason && !walk_init(walk))
		walk->reason = "out of memory";
	if (!walk->reason && !live_leaves_has_granules(&walk->leaves))
		walk->reason = "the size of its granules is not valid";
	if (!walk->reason) {
		const uint32_t *top = walk->view.header->top;

		match_sites(walk);
		if (!walk->earlier)
			reserve(walk);
		for (size_t i = 0; i < walk->view.top_entries && !walk->reason; i++)
			walk_area(walk, LIVE_LOAD_LAST(top[i]), (uint64_t)i << LIVE_AREA_SHIFT);
	}
	/* Nothing follows the last block that could bound it. */
	walk->last.size_bytes =
		MIN(walk->last.size_bytes, (UINT64_C(1) << 48) - walk->last.address);
	end_last(walk);
	return walk->reason ? error_set(error, "the blocks cannot be listed: %s", walk->reason) : 0;
}

int live_blocks_read(const void *memory, uint64_t mapped_bytes, uint64_t now_ms,
		     struct live_blocks *ret, struct error *error)
{
	AUTO(walk_release) struct walk walk = { .to = ret, .now_ms = now_ms };

	*ret = (struct live_blocks){ 0 };
	return walk_all(&walk, memory, mapped_bytes, error);
}

int live_blocks_leave_same(struct live_blocks *blocks, const void *memory, uint64_t mapped_bytes,
			   uint64_t now_ms, uint64_t *ret_changed, struct error *error)
{
	struct live_blocks later = { 0 }; /* its list stays empty */
	AUTO(walk_release) struct walk walk = { .to = &later, .earlier = blocks, .now_ms = now_ms };
	int status = walk_all(&walk, memory, mapped_bytes, error);

	*ret_changed = blocks->list.count - walk.kept + (walk.later_count - walk.kept);
	blocks->list.count = walk.kept;
	return status;
}

void live_blocks_release(struct live_blocks *blocks)
{
	vector_release(&blocks->list);
}

size_t live_blocks_before(const struct live_blocks *blocks, uint64_t address)
{
	return FIRST_WHERE(i, blocks->list.count, blocks->list.at[i].address >= address);
}

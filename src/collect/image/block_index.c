/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each page the first block that ends after its start: the blocks of a page are from there to the first one of the next page. Pages are
 * in groups of 256 KiB with small blocks, which are in a hash table that is at most half full: two bytes for a KiB of a dense heap, so that
 * the table of a large one fits in the cache. Blocks on a page are mostly of similar size: the address in the page tells which it is, and a
 * step or two to its neighbours mend that.
 *
 * A large block would need groups for all of its pages, and the sizes are untrusted: it makes none, and is in a list.
 * Read only after it was made; any thread.
 */
#include "collect/image/block_index.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "util/huge_pages.h"
#include "util/search.h"

enum {
	PAGE_SHIFT = 12,
	GROUP_SHIFT = 18,
	GROUP_PAGES = 1 << (GROUP_SHIFT - PAGE_SHIFT),
	LARGE_BYTES = 64 << 10, /* a small block is in at most two groups */
};

struct block_group {
	uint64_t number;		 /* 1 + the address shifted; 0: empty */
	uint32_t first[GROUP_PAGES + 1]; /* by page, and of the page after the group */
};

static bool is_large(const struct live_block *block)
{
	return block->size_bytes >= LARGE_BYTES;
}

static struct block_group *group_at(const struct block_index *index, uint64_t number)
{
	size_t at = hash_mix(number) & index->mask;

	while (index->groups[at].number && index->groups[at].number != number)
		at = (at + 1) & index->mask;
	return &index->groups[at];
}

static uint64_t group_number(uint64_t address)
{
	return (address >> GROUP_SHIFT) + 1;
}

/* The groups of a block that come after `before`: from *ret_first to the returned one. */
static uint64_t new_groups(const struct live_block *block, uint64_t before, uint64_t *ret_first)
{
	*ret_first = MAX(group_number(block->address), before + 1);
	return group_number(block_end(block) - 1);
}

/* `block` is the first small one of the group. Large ones may be before it, at most four in the group. */
static void enter_group(struct block_index *index, uint64_t number, size_t block)
{
	struct block_group *group = group_at(index, number);
	uint64_t start = (number - 1) << GROUP_SHIFT;

	group->number = number;
	while (block > 0 && block_end(&index->blocks[block - 1]) > start)
		block--;
	for (size_t page = 0; page <= GROUP_PAGES; page++) {
		while (block < index->count &&
		       block_end(&index->blocks[block]) <= start + (page << PAGE_SHIFT))
			block++;
		group->first[page] = (uint32_t)block;
	}
}

/* Blocks are disjoint and ascend, and so do their groups. */
static void enter_blocks(struct block_index *index)
{
	uint64_t entered = 0;

	for (size_t i = 0; i < index->count; i++) {
		const struct live_block *block = &index->blocks[i];
		uint64_t n, last;

		if (is_large(block)) {
			index->large[index->large_count++] = (uint32_t)i;
			continue;
		}
		for (last = new_groups(block, entered, &n); n <= last; n++) {
			enter_group(index, n, i);
			entered = n;
		}
	}
}

bool block_index_make(const struct live_blocks *blocks, struct block_index *ret)
{
	size_t groups = 0, large = 0, slots = 64;
	uint64_t counted = 0; /* the last group that a small block has */

	*ret = (struct block_index){ .blocks = blocks->list.at, .count = blocks->list.count };
	for (size_t i = 0; i < ret->count; i++) {
		uint64_t first, last;

		if (is_large(&ret->blocks[i])) {
			large++;
			continue;
		}
		last = new_groups(&ret->blocks[i], counted, &first);
		groups += last + 1 - first;
		counted = last;
	}
	while (slots < 2 * groups)
		slots *= 2;
	ret->mask = slots - 1;
	ret->groups = huge_calloc(slots, sizeof *ret->groups);
	ret->large = malloc((large + 1) * sizeof *ret->large);
	if (!ret->groups || !ret->large)
		return false;
	if (ret->count > 0) {
		ret->low = ret->blocks[0].address;
		ret->high = block_end(&ret->blocks[ret->count - 1]);
	}
	enter_blocks(ret);
	return true;
}

void block_index_release(struct block_index *index)
{
	free(index->groups);
	free(index->large);
	*index = (struct block_index){ 0 };
}

static uint32_t edge_to(const struct block_index *index, uint32_t block, uint64_t address)
{
	const struct live_block *b = &index->blocks[block];

	if (address < b->address || address >= block_end(b))
		return GRAPH_NONE;
	return block | (address == b->address ? 0 : GRAPH_INTERIOR);
}

static uint32_t find_large(const struct block_index *index, uint64_t address)
{
	size_t low = FIRST_WHERE(i, index->large_count,
				 index->blocks[index->large[i]].address > address);

	return low == 0 ? GRAPH_NONE : edge_to(index, index->large[low - 1], address);
}

struct block_guess block_index_guess(const struct block_index *index, uint64_t address)
{
	const struct block_group *group = group_at(index, group_number(address));
	size_t page = address >> PAGE_SHIFT & (GROUP_PAGES - 1);
	uint64_t offset = address & ((1u << PAGE_SHIFT) - 1);
	struct block_guess guess;

	if (!group->number)
		return (struct block_guess){ GRAPH_NONE, GRAPH_NONE, GRAPH_NONE };
	guess.first = group->first[page];
	guess.last = MIN(group->first[page + 1], (uint32_t)(index->count - 1));
	guess.probable =
		guess.first + (uint32_t)((guess.last - guess.first) * offset >> PAGE_SHIFT);
	__builtin_prefetch(&index->blocks[guess.probable]);
	return guess;
}

uint32_t block_index_settle(const struct block_index *index, uint64_t address,
			    struct block_guess guess)
{
	uint32_t at = guess.probable;

	if (at == GRAPH_NONE)
		return index->large_count ? find_large(index, address) : GRAPH_NONE;
	while (at > guess.first && index->blocks[at].address > address)
		at--;
	while (at < guess.last && index->blocks[at + 1].address <= address)
		at++;
	return edge_to(index, at, address);
}

uint32_t block_index_find(const struct block_index *index, uint64_t address)
{
	return block_index_covers(index, address)
		       ? block_index_settle(index, address, block_index_guess(index, address))
		       : GRAPH_NONE;
}

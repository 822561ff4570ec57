/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the blocks by address, which makes the edges of each block adjacent, then one over the roots. Memory is read in pieces
 * that ignore the borders of blocks; a cursor goes along the blocks.
 *
 * Invariant: first.count is the number of nodes whose edges have begun; when all are done, one more.
 */
#include "collect/image/references.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/image/globals.h"
#include "util/cleanup.h"
#include "util/huge_pages.h"

enum {
	WORD = sizeof(uint64_t),
	/* Several times as many as memory accesses that a core has under way, so that few wait. */
	LOOKUPS_MAX = 64,
	ROOTS_USUAL = 10000, /* groups; more of them need a larger array */
};
#define EDGES_MAX (UINT32_MAX - 1)

struct builder {
	struct references *to;
	struct block_index index;
	size_t block; /* the one that is being scanned; of roots, the first one that ends after the last address */
	struct lookup {
		uint64_t word;
		size_t block; /* that has the word */
		struct block_guess guess;
	} lookups[LOOKUPS_MAX]; /* of words in blocks, begun and not settled */
	size_t lookup_count;
	/* roots */
	const struct root_range *range;
	struct globals globals;
	struct global current; /* the variable whose group is open */
	bool group_open, failed;
};

static bool push_edge(struct builder *b, uint32_t edge)
{
	if (b->to->to.count >= EDGES_MAX || !vector_push(&b->to->to, edge))
		b->failed = true;
	return !b->failed;
}

/* Begins the edges of all nodes before `node`, and of itself. */
static bool begin_node(struct builder *b, size_t node)
{
	while (b->to->first.count <= node)
		if (!vector_push(&b->to->first, (uint32_t)b->to->to.count)) {
			b->failed = true;
			return false;
		}
	return true;
}

/* ---- blocks ---- */

/* Adds the edges of the words whose lookup has begun. */
static bool settle_lookups(struct builder *b)
{
	for (size_t i = 0; i < b->lookup_count; i++) {
		const struct lookup *l = &b->lookups[i];
		uint32_t edge = block_index_settle(&b->index, l->word, l->guess);

		if (edge != GRAPH_NONE && (!begin_node(b, l->block) || !push_edge(b, edge)))
			return false;
	}
	b->lookup_count = 0;
	return true;
}

static bool add_block_words(struct builder *b, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!block_index_covers(&b->index, words[i]))
			continue;
		if (b->lookup_count == LOOKUPS_MAX && !settle_lookups(b))
			return false;
		b->lookups[b->lookup_count++] =
			(struct lookup){ words[i], b->block,
					 block_index_guess(&b->index, words[i]) };
	}
	return true;
}

/* Out of memory is no error here: types are additional. */
static void note_type(struct builder *b, size_t block, uint64_t first_word)
{
	uint16_t type = vtables_type(&b->to->vtables, first_word);

	if (type && !b->to->type_of)
		b->to->type_of = calloc(b->index.count, sizeof *b->to->type_of);
	if (type && b->to->type_of)
		b->to->type_of[block] = type;
}

/* Hands the words of each block in the piece on, and moves the cursor. A block that ends after the piece stays current. */
static bool scan_piece(void *context, uint64_t address, const uint64_t *words, size_t count)
{
	struct builder *b = context;
	uint64_t end = address + count * WORD;

	while (b->block < b->index.count) {
		const struct live_block *block = &b->index.blocks[b->block];
		uint64_t from = MAX(block->address, address),
			 to = MIN(block->address + block->size_bytes, end);

		from = (from + WORD - 1) & ~(WORD - 1ull);
		if (block->address >= end)
			return true;
		if (from + WORD <= to && from == block->address)
			note_type(b, b->block, words[(from - address) / WORD]);
		if (from + WORD <= to &&
		    !add_block_words(b, words + (from - address) / WORD, (to - from) / WORD))
			return false;
		if (block->address + block->size_bytes > end)
			return true;
		b->block++;
	}
	return true;
}

/* Neighbouring blocks are read together: most are smaller than a page. */
static bool scan_blocks(struct builder *b, struct scanner *scanner)
{
	enum { GAP_BYTES = 4096 };
	const struct live_block *blocks = b->index.blocks;

	for (size_t i = 0; i < b->index.count;) {
		uint64_t start = blocks[i].address, end = start + blocks[i].size_bytes;

		b->block = i;
		for (i++; i < b->index.count && blocks[i].address <= end + GAP_BYTES; i++)
			end = blocks[i].address + blocks[i].size_bytes;
		if (!scan_range(scanner, start, end, scan_piece, b))
			return false;
	}
	return settle_lookups(b) && begin_node(b, b->index.count);
}

/* ---- roots ---- */

/* Starts the next root group. Takes ownership of the name. */
static bool open_group(struct builder *b, struct holder holder)
{
	if (!vector_push(&b->to->holders, holder)) {
		free(holder.name);
		b->failed = true;
		return false;
	}
	b->group_open = true;
	if (!vector_push(&b->to->classes, (uint8_t)holder.class))
		b->failed = true;
	return !b->failed && begin_node(b, b->index.count + b->to->holders.count - 1);
}

/* glibc's arena refers to free chunks by their headers, whose first word is the end of the block before them. */
bool reference_is_next_chunk(const struct live_block *block, uint64_t word)
{
	return word != block->address &&
	       word == block->address + block_glibc_usable_bytes(block->size_bytes) - WORD;
}

/* NULL: it has none, or out of memory. */
static char *thread_range_name(const struct root_range *range)
{
	char *name = NULL;
	const char *what = range->class == REACH_STACK ? "stack" : "thread-local storage";

	return range->thread && asprintf(&name, "%s of thread %d", what, range->thread) > 0 ? name
											    : NULL;
}

static bool open_variable(struct builder *b, uint64_t address)
{
	const struct root_range *range = b->range;

	struct holder holder = { .class = range->class,
				 .base = range->start,
				 .start = range->start,
				 .end = range->end,
				 .is_allocator = range->is_allocator };

	if (range->class != REACH_GLOBAL || !range->path) {
		if (b->group_open)
			return true;
		holder.name = thread_range_name(range);
		return open_group(b, holder);
	}
	if (b->group_open && address >= b->current.start && address < b->current.end)
		return true;
	b->current = globals_find(&b->globals, range->path, range->file_at, range->bias, address);
	holder.name = global_name(&b->current, range->path);
	holder.base = b->current.name ? b->current.start : range->bias;
	holder.start = MAX(range->start, b->current.start);
	holder.end = MIN(range->end, b->current.end);
	return open_group(b, holder);
}

/* Whether the range does not have it, but a block. Addresses ascend. */
static bool is_in_block(struct builder *b, uint64_t address)
{
	if (!b->range->has_blocks)
		return false;
	while (b->block < b->index.count && block_end(&b->index.blocks[b->block]) <= address)
		b->block++;
	return b->block < b->index.count && b->index.blocks[b->block].address <= address;
}

static bool scan_root(void *context, uint64_t address, const uint64_t *words, size_t count)
{
	struct builder *b = context;

	for (size_t i = 0; i < count; i++) {
		uint32_t edge = block_index_find(&b->index, words[i]);

		if (edge == GRAPH_NONE || is_in_block(b, address + i * WORD) ||
		    (b->range->is_allocator &&
		     reference_is_next_chunk(&b->index.blocks[graph_target(edge)], words[i])))
			continue;
		if (!open_variable(b, address + i * WORD) || !push_edge(b, edge))
			return false;
	}
	return true;
}

static bool add_registers(struct builder *b, const struct stopped *stopped)
{
	if (!open_group(b, (struct holder){ .class = REACH_STACK, .name = strdup("registers") }))
		return false;
	for (size_t i = 0; i < stopped->words.count; i++) {
		uint32_t edge = block_index_find(&b->index, stopped->words.at[i]);

		if (edge != GRAPH_NONE && !push_edge(b, edge))
			return false;
	}
	return true;
}

static bool scan_roots(struct builder *b, struct scanner *scanner, const struct root_ranges *roots)
{
	b->block = 0;
	for (size_t i = 0; i < roots->list.count; i++) {
		b->range = &roots->list.at[i];
		b->group_open = false;
		if (!scan_range(scanner, b->range->start, b->range->end, scan_root, b))
			return false;
	}
	return true;
}

int references_find(struct scanner *scanner, const struct live_blocks *blocks,
		    const struct root_ranges *roots, const struct stopped *stopped,
		    struct references *ret, struct error *error)
{
	struct builder b = { .to = ret };

	*ret = (struct references){ 0 };
	vtables_init(&ret->vtables, scanner, roots);
	globals_init(&b.globals, scanner->source);
	bool done = blocks->list.count < GRAPH_NODES_MAX && block_index_make(blocks, &b.index) &&
		    vector_reserve(&ret->first, blocks->list.count + ROOTS_USUAL);

	huge_pages_advise(ret->first.at, ret->first.capacity * sizeof *ret->first.at);
	done = done && scan_blocks(&b, scanner);

	ret->heap_read_bytes = scanner->read_bytes;
	done = done && add_registers(&b, stopped) && scan_roots(&b, scanner, roots) &&
	       begin_node(&b, blocks->list.count + ret->holders.count);
	ret->root_read_bytes = scanner->read_bytes - ret->heap_read_bytes;
	ret->unreadable_bytes = scanner->unreadable_bytes;
	block_index_release(&b.index);
	globals_release(&b.globals);
	if (!done)
		return error_set(error, "out of memory for the references between %zu blocks",
				 blocks->list.count);
	ret->graph = (struct graph){ (uint32_t)blocks->list.count,
				     (uint32_t)(blocks->list.count + ret->holders.count),
				     ret->first.at, ret->to.at, ret->classes.at };
	return 0;
}

void references_release(struct references *r)
{
	for (size_t i = 0; i < r->holders.count; i++)
		free(r->holders.at[i].name);
	vector_release(&r->holders);
	vector_release(&r->first);
	vector_release(&r->to);
	vector_release(&r->classes);
	vtables_release(&r->vtables);
	free(r->type_of);
}

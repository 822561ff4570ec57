/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the graph of references from the memory of a process: each aligned word that points into a block is an edge. */
#ifndef COLLECT_IMAGE_REFERENCES_H
#define COLLECT_IMAGE_REFERENCES_H

#include "collect/image/block_index.h"
#include "collect/image/graph.h"
#include "collect/image/roots.h"
#include "collect/image/scan.h"
#include "collect/image/vtables.h"

/* A root group: a variable, the stack of a thread, a mapping. */
struct holder {
	enum reach_class class;
	char *name;    /* owned; NULL = unknown */
	uint64_t base; /* where the variable, or the module, begins; of a stack: where it ends */
	uint64_t start, end; /* what was read of it; both 0: registers */
	bool is_allocator;
};
struct references {
	struct graph graph; /* its arrays are those below */
	VECTOR(uint32_t) first;
	VECTOR(uint32_t) to;
	VECTOR(uint8_t) classes;
	VECTOR(struct holder) holders; /* the root groups in their order */
	uint16_t *type_of;	       /* by block: see vtables_type; NULL: no block has one */
	struct vtables vtables;
	uint64_t heap_read_bytes, root_read_bytes, unreadable_bytes;
};

/* -1 with error set: out of memory, or too many. Release it in either case. The scanner and the roots must outlive it. */
int references_find(struct scanner *scanner, const struct live_blocks *blocks,
		    const struct root_ranges *roots, const struct stopped *stopped,
		    struct references *ret, struct error *error);
/* Whether a word that glibc's own data has refers to the free chunk behind the block, and not to the block. */
bool reference_is_next_chunk(const struct live_block *block, uint64_t word);
void references_release(struct references *references);

#endif

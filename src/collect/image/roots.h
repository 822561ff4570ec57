/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program keeps pointers outside of the heap: variables of modules, thread-local variables, stacks from the stack pointer up,
 * and private writable mappings of unknown use. Neither free memory of the allocator, nor memory of the recorder, nor shared memory.
 */
#ifndef COLLECT_IMAGE_ROOTS_H
#define COLLECT_IMAGE_ROOTS_H

#include "collect/trace/stop.h"
#include "collect/kernel/memory_source.h"
#include "collect/profile/blocks.h"
#include "format/reach.h"

struct root_range {
	uint64_t start, end;
	enum reach_class class;
	char *path;	   /* of the module; NULL: none. Owned */
	uint64_t bias;	   /* address minus ELF virtual address, of a module */
	uint64_t file_at;  /* where the beginning of its file is mapped; 0: nowhere */
	bool is_allocator; /* libc: it refers to free chunks as well */
	bool has_blocks;   /* which are not part of it */
	pid_t thread; /* whose stack or thread-local storage it is; 0: of none, or of several */
};
/* Readable memory of a module: code, data, and tables of virtual functions. */
struct module_range {
	uint64_t start, end;
};
struct root_ranges {
	VECTOR(struct root_range) list;	     /* by address, disjoint */
	VECTOR(struct module_range) modules; /* by address */
};
/* A mapping that the program made itself; by address. */
struct own_map {
	uint64_t start, end;
};

/* maps: the text of /proc/PID/maps; source: for the sizes of thread-local storage. -1 with error set. Release
 * it in either case. */
int roots_find(const char *maps, const struct memory_source *source, const struct stopped *stopped,
	       const struct live_blocks *blocks, const struct own_map *own, size_t own_count,
	       struct root_ranges *ret, struct error *error);
void roots_release(struct root_ranges *roots);

#endif

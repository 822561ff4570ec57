/* SPDX-License-Identifier: Apache-2.0 */
/* Function, inline chain and line of an address from a module's DWARF. One thread at a time. */
#ifndef SYMBOLS_DEBUG_DWARF_INDEX_H
#define SYMBOLS_DEBUG_DWARF_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>

/* An inline chain longer than this is shown without its middle part; 64 has not been seen. */
enum { DWARF_CHAIN_MAX = 128 };

struct dwarf_frame {
	const char *linkage_name; /* NULL: none; */
	const char *name; /* NULL: none; qualified by its scopes where it has no linkage name */
	/* "<r::Blob, alloc::alloc::Global>" where the linkage name has none; or NULL */
	const char *arguments;
	const char *file;   /* NULL: unknown; */
	const char *folder; /* that `file` is relative to, if it is; NULL: unknown */
	uint32_t line;	    /* 0: unknown */
	bool inlined;
	bool mangles; /* its language mangles names: without linkage_name ELF may know better */
};

struct dwarf_index;
struct split_package;
struct unit_map;

/*
 * `file` is where the DWARF is, without symbolic links. `map` is of this DWARF, whichever handle it was made with; `package`
 * (may be NULL) has the split units that libdw does not find. All must outlive the index. NULL if out
 * of memory.
 */
struct dwarf_index *dwarf_index_new(Dwarf *dwarf, const char *file, const struct unit_map *map,
				    struct split_package *package);
void dwarf_index_free(struct dwarf_index *index);

/*
 * The frames at the address, innermost first, at most DWARF_CHAIN_MAX. Returns their number: 0 if no
 * unit covers the address. A unit without a function for it (assembler) gives one frame with a line
 * and no name. Strings live as long as the index.
 */
size_t dwarf_index_find(struct dwarf_index *index, uint64_t address, struct dwarf_frame *frames);

#endif

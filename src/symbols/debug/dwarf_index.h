/* SPDX-License-Identifier: Apache-2.0 */
/* Function, inlined calls and line of an address, from a module's DWARF. Not thread-safe. */
#ifndef SYMBOLS_DEBUG_DWARF_INDEX_H
#define SYMBOLS_DEBUG_DWARF_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>

/* A longer chain of inlined calls is shown without its middle part; even 64 has not been seen. */
enum { DWARF_CHAIN_MAX = 128 };

struct dwarf_frame {
	const char *linkage_name; /* NULL: none */
	const char *name; /* NULL: none; qualified by its scopes if it has no linkage name */
	/* "<r::Blob, alloc::alloc::Global>" if the linkage name lacks them; or NULL */
	const char *arguments;
	const char *file;   /* NULL: unknown */
	const char *folder; /* base of a relative `file`; NULL: unknown */
	uint32_t line;	    /* 0: unknown */
	bool inlined;
	bool mangles; /* its language mangles: without linkage_name, the ELF symbol may be better */
};

struct dwarf_index;
struct split_package;
struct unit_map;

/*
 * `file` is the path of the DWARF, without symbolic links. `map` is of this DWARF, created with any handle; `package` (may
 * be NULL) has the split units that libdw does not find. All must outlive the index. NULL if out of memory.
 */
struct dwarf_index *dwarf_index_new(Dwarf *dwarf, const char *file, const struct unit_map *map,
				    struct split_package *package);
void dwarf_index_free(struct dwarf_index *index);

/*
 * The frames at the address, innermost first, at most DWARF_CHAIN_MAX. Returns their number: 0 if no
 * unit covers the address. A unit without a function there (assembly) gives one frame with a line
 * and no name. Strings live as long as the index.
 */
size_t dwarf_index_find(struct dwarf_index *index, uint64_t address, struct dwarf_frame *frames);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names on disk, one file for each build-id: what was found once is not looked for again. A build-id
 * stands for the bytes of a program, so that its names never grow old; what is in a store is right
 * whatever lies at the program's path by now.
 */
#ifndef SYMBOLS_NAME_STORE_H
#define SYMBOLS_NAME_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "symbols/dwarf_index.h"
#include "symbols/symbolizer.h"

struct name_store;

/* What the folder has for the build-id; NULL if that is nothing, damaged, or not ours. */
struct name_store *name_store_open(const char *folder, struct span build_id);
/* The same from the bytes of a file, which must outlive the store. */
struct name_store *name_store_read(struct span file, struct span build_id);
void name_store_free(struct name_store *store);

/*
 * False if the store does not know the instruction. Else *ret_count frames, innermost first, at most
 * DWARF_CHAIN_MAX; 0 if it is known that nothing is known. Only name, arguments, file, line and
 * inlined are set; the strings live as long as the store.
 */
bool name_store_find(const struct name_store *store, uint64_t address, struct dwarf_frame *frames,
		     size_t *ret_count);

struct name_entry {
	uint64_t address;
	struct symbol_list list;
};

/*
 * Writes a store of the entries, which it sorts, and of those of `old` (may be NULL) that they do not
 * name again. Then removes the oldest files until the folder holds no more than limit_bytes. 0, or -1
 * if nothing could be written.
 */
int name_store_save(const char *folder, struct span build_id, const struct name_store *old,
		    struct name_entry *entries, size_t count, uint64_t limit_bytes);

/*
 * Where a user's names are kept: $XDG_CACHE_HOME/heapgauge/names, or ~/.cache/heapgauge/names. The
 * caller's (free). NULL if the environment does not say, or out of memory.
 */
char *name_store_folder(void);

#endif

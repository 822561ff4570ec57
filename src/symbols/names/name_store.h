/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name cache on disk, one file per module, so that names are resolved only once. The file name is derived
 * from the module's path and build-id; the file contains the key of the contents that its names are of
 * (content_key.h). So names are validated while the module exists, and remain usable when it was rebuilt or
 * removed: as the names read at that very path, not as those of any file that claims the same build-id.
 */
#ifndef SYMBOLS_NAMES_NAME_STORE_H
#define SYMBOLS_NAMES_NAME_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "symbols/debug/content_key.h"
#include "symbols/debug/dwarf_index.h"
#include "symbols/symbolizer.h"

struct name_store;

/* Opens the folder's file of that name, if it is of that content (NULL: of any); NULL if missing, damaged, or not ours. */
struct name_store *name_store_open(const char *folder, const struct content_key *name,
				   const struct content_key *content);
/* The same for the bytes of a file, which must outlive the store. */
struct name_store *name_store_read(struct span file, const struct content_key *content);
void name_store_free(struct name_store *store);

/*
 * False if the store lacks the instruction. Else *ret_count frames, innermost first, at most
 * DWARF_CHAIN_MAX; 0 if it is known to have no name. Only name, arguments, file, line and inlined
 * are set; the strings live as long as the store.
 */
bool name_store_find(const struct name_store *store, uint64_t address, struct dwarf_frame *frames,
		     size_t *ret_count);

struct name_entry {
	uint64_t address;
	struct symbol_list list;
};

/*
 * Writes a store with the entries, which it sorts, and with those of `old` (may be NULL) that they do
 * not replace. Then evicts the oldest files until the folder is within limit_bytes. 0, or -1 if
 * nothing could be written.
 */
int name_store_save(const char *folder, const struct content_key *name,
		    const struct content_key *content, const struct name_store *old,
		    struct name_entry *entries, size_t count, uint64_t limit_bytes);

/* The folder's secret, created on first use; if it cannot be stored there, a temporary one that matches no existing file. False
 * if there is none. */
bool name_store_secret(const char *folder, struct content_secret *ret);

/*
 * The folder of a user's name cache: $XDG_CACHE_HOME/heapgauge/names, or ~/.cache/heapgauge/names.
 * Owned by the caller (free). NULL if the environment does not define it, or out of memory.
 */
char *name_store_folder(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names on disk, one file for each module: what was found once is not looked for again. Its name stands
 * for the module's path and build-id; inside it says of which contents the names are (content_key.h). So they
 * are known to be right while the module is there, and still serve when it was rebuilt or removed: as the names
 * that were read at that very path, not as those of whatever claimed that build-id.
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

/* What the folder has under the name, if it is of that content (NULL: of any); NULL if that is nothing, damaged, or not ours. */
struct name_store *name_store_open(const char *folder, const struct content_key *name,
				   const struct content_key *content);
/* The same from the bytes of a file, which must outlive the store. */
struct name_store *name_store_read(struct span file, const struct content_key *content);
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
int name_store_save(const char *folder, const struct content_key *name,
		    const struct content_key *content, const struct name_store *old,
		    struct name_entry *entries, size_t count, uint64_t limit_bytes);

/* The secret of the folder, which is made when it is first asked for; if it cannot be kept there, one that fits nothing that is
 * there. False if there is none. */
bool name_store_secret(const char *folder, struct content_secret *ret);

/*
 * Where a user's names are kept: $XDG_CACHE_HOME/heapgauge/names, or ~/.cache/heapgauge/names. The
 * caller's (free). NULL if the environment does not say, or out of memory.
 */
char *name_store_folder(void);

#endif

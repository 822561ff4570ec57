/* SPDX-License-Identifier: Apache-2.0 */
/* Caches frames by (module, instruction address). Not thread-safe. Zeroed is empty. */
#ifndef SYMBOLS_FRAME_CACHE_H
#define SYMBOLS_FRAME_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/symbolizer.h"

struct frame_entry {
	uint64_t address;
	symbol_module_id module; /* 0: free */
	bool stored;		 /* loaded from the name cache */
	struct symbol_list list;
};

struct frame_cache {
	struct frame_entry *entries; /* open addressing */
	size_t size;		     /* a power of two, or 0 */
	size_t used;
};

void frame_cache_release(struct frame_cache *cache);
/* NULL: not cached. */
const struct frame_entry *frame_cache_find(const struct frame_cache *cache, symbol_module_id module,
					   uint64_t address);
/* Pre: the entry is not cached. False if out of memory. */
bool frame_cache_add(struct frame_cache *cache, struct frame_entry entry);

#endif

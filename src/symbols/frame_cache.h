/* SPDX-License-Identifier: Apache-2.0 */
/* (module, instruction) -> frames, once found. One thread at a time. Zeroed is empty. */
#ifndef SYMBOLS_FRAME_CACHE_H
#define SYMBOLS_FRAME_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/symbolizer.h"

struct frame_entry {
	uint64_t address;
	symbol_module_id module; /* 0: free */
	bool stored;		 /* came from the disk */
	struct symbol_list list;
};

struct frame_cache {
	struct frame_entry *entries; /* open addressing */
	size_t size;		     /* a power of two, or 0 */
	size_t used;
};

void frame_cache_release(struct frame_cache *cache);
/* NULL: not there. */
const struct frame_entry *frame_cache_find(const struct frame_cache *cache, symbol_module_id module,
					   uint64_t address);
/* Pre: it is not there. False if out of memory. */
bool frame_cache_add(struct frame_cache *cache, struct frame_entry entry);

#endif

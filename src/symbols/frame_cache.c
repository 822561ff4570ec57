/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all frames looked up so far: open addressing, at most three quarters full. Entries are
 * never changed or removed.
 */
#include "symbols/frame_cache.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"

enum { FIRST_SIZE = 1024 };

void frame_cache_release(struct frame_cache *cache)
{
	free(cache->entries);
	*cache = (struct frame_cache){ 0 };
}

static struct frame_entry *slot_of(struct frame_entry *entries, size_t size, uint32_t module,
				   uint64_t address)
{
	for (size_t i = hash_combine(address, module) & (size - 1);; i = (i + 1) & (size - 1)) {
		struct frame_entry *e = &entries[i];

		if (e->module.v == 0 || (e->module.v == module && e->address == address))
			return e;
	}
}

static bool grow(struct frame_cache *cache)
{
	size_t size = cache->size ? cache->size * 2 : FIRST_SIZE;
	struct frame_entry *grown = calloc(size, sizeof *grown);

	if (!grown)
		return false;
	for (size_t i = 0; i < cache->size; i++) {
		const struct frame_entry *e = &cache->entries[i];

		if (e->module.v)
			*slot_of(grown, size, e->module.v, e->address) = *e;
	}
	free(cache->entries);
	cache->entries = grown;
	cache->size = size;
	return true;
}

const struct frame_entry *frame_cache_find(const struct frame_cache *cache, symbol_module_id module,
					   uint64_t address)
{
	if (cache->size == 0)
		return NULL;
	const struct frame_entry *e = slot_of(cache->entries, cache->size, module.v, address);

	return e->module.v ? e : NULL;
}

bool frame_cache_add(struct frame_cache *cache, struct frame_entry entry)
{
	if (cache->used * 4 >= cache->size * 3 && !grow(cache))
		return false;
	struct frame_entry *e = slot_of(cache->entries, cache->size, entry.module.v, entry.address);

	ASSERT(e->module.v == 0);
	*e = entry;
	cache->used++;
	return true;
}

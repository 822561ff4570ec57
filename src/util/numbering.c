/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing, at most half full; items are stored in the order of their
 * numbers, which index them. */
#include "util/numbering.h"

#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

static size_t slot_of(const void *item, size_t item_bytes, size_t slot_count)
{
	return (size_t)hash_bytes(item, item_bytes, 0) & (slot_count - 1);
}

static bool grow(struct numbering *n, size_t item_bytes)
{
	size_t wanted = n->slot_count ? n->slot_count * 2 : 256;
	uint32_t *slots = calloc(wanted, sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < n->count; i++) {
		size_t at = slot_of(n->items.at + i * item_bytes, item_bytes, wanted);

		while (slots[at])
			at = (at + 1) & (wanted - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(n->slots);
	n->slots = slots;
	n->slot_count = wanted;
	return true;
}

/* The slot of the item, or the free one where it belongs. */
static size_t slot_find(const struct numbering *n, const void *item, size_t item_bytes)
{
	size_t at = slot_of(item, item_bytes, n->slot_count);

	while (n->slots[at] &&
	       memcmp(n->items.at + (n->slots[at] - 1) * item_bytes, item, item_bytes) != 0)
		at = (at + 1) & (n->slot_count - 1);
	return at;
}

size_t numbering_find(const struct numbering *n, const void *item, size_t item_bytes)
{
	uint32_t found = n->slot_count ? n->slots[slot_find(n, item, item_bytes)] : 0;

	return found ? found - 1 : SIZE_MAX;
}

size_t numbering_add(struct numbering *n, const void *item, size_t item_bytes)
{
	ASSERT(n->items.count == n->count * item_bytes);
	if (n->count * 2 >= n->slot_count && !grow(n, item_bytes))
		return SIZE_MAX;
	size_t at = slot_find(n, item, item_bytes);

	if (n->slots[at])
		return n->slots[at] - 1;
	if (!vector_reserve(&n->items, item_bytes))
		return SIZE_MAX;
	memcpy(n->items.at + n->items.count, item, item_bytes);
	n->items.count += item_bytes;
	n->slots[at] = (uint32_t)++n->count;
	return n->count - 1;
}

void numbering_release(struct numbering *n)
{
	vector_release(&n->items);
	free(n->slots);
	*n = (struct numbering){ 0 };
}

const void *numbered(const struct numbering *n, size_t number)
{
	const void *item;

	ASSERT(number < n->count);
	memcpy(&item, n->items.at + number * sizeof item, sizeof item);
	return item;
}

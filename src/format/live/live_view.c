/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of a live profile, and the totals of the time series, which need only its slots. Any thread, any process that has
 * mapped the memory.
 * Invariant: no index from the memory is used before it is checked against its region, and sizes come from the checked copy of
 * the header, never from the header itself.
 */
#include "format/live/live_view.h"

#include <string.h>

#include "base/checked.h"
#include "format/live/live_read.h"

const char *live_view_init(struct live_view *view, const void *memory, uint64_t mapped_bytes)
{
	const char *reason = live_header_check(memory, mapped_bytes);
	uint64_t header_bytes;

	if (reason)
		return reason;
	view->header = memory;
	/* The target may have changed them meanwhile: only the copy is used. */
	__builtin_memcpy(view->region, view->header->region, sizeof view->region);
	header_bytes = __atomic_load_n(&view->header->header_bytes, __ATOMIC_RELAXED);
	header_bytes = MIN(MAX(header_bytes, LIVE_FRONT_BYTES), mapped_bytes);
	view->top_entries = live_top_entries(header_bytes);
	return live_regions_check(view->region, header_bytes, mapped_bytes);
}

size_t live_view_used(const struct live_view *view, enum live_region region)
{
	uint64_t used = __atomic_load_n(&view->header->used[region], __ATOMIC_ACQUIRE);
	uint64_t room = view->region[region].bytes / live_entry_bytes(region);

	return (size_t)MIN(used, room);
}

const void *live_view_pool(const struct live_view *view, size_t used, uint32_t reference,
			   size_t bytes)
{
	if (reference == 0 || !range_within(reference, bytes / LIVE_POOL_UNIT, used))
		return NULL;
	return (const char *)live_view_at(view, LIVE_POOL) + (size_t)reference * LIVE_POOL_UNIT;
}

static void add_slot(struct live_totals *sum, const struct live_slot *slot)
{
	sum->calls += LIVE_LOAD(slot->calls);
	sum->bytes += LIVE_LOAD(slot->bytes);
	sum->fragmentation += LIVE_LOAD(slot->fragmentation);
	sum->temporary += LIVE_LOAD(slot->temporary);
	sum->map_bytes += LIVE_LOAD(slot->map_bytes);
	sum->frees += LIVE_LOAD(slot->frees);
	sum->freed_bytes += LIVE_LOAD(slot->freed_bytes);
	sum->freed_fragmentation += LIVE_LOAD(slot->freed_fragmentation);
	sum->unmap_bytes += LIVE_LOAD(slot->unmap_bytes);
}

void live_totals_read(struct live_totals *ret, const struct live_slot *slots, size_t count,
		      const struct live_moves *moves, const struct live_header *head)
{
	uint64_t threads = head->region[LIVE_THREADS].bytes / sizeof(struct live_thread);

	*ret = (struct live_totals){ .slots = (uint32_t)count };
	for (size_t i = 0; i < count; i++)
		add_slot(ret, &slots[i]);
	ret->live = live_now_of(ret->bytes - ret->freed_bytes, ret->calls - ret->frees, moves);
	ret->map_live_bytes = LIVE_LOAD(head->map_live_bytes);
	ret->own_bytes = LIVE_LOAD(head->opened_bytes);
	ret->peak_bytes = LIVE_LOAD(head->peak.peak_bytes);
	ret->threads = (uint32_t)MIN(LIVE_LOAD(head->used[LIVE_THREADS]), threads);
}

int live_read_totals(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		     struct live_totals *ret)
{
	struct live_moves all = { 0 };
	struct live_view view;

	if (live_view_init(&view, memory, mapped_bytes))
		return -1;
	size_t count = live_view_used(&view, LIVE_SLOTS);

	for (size_t i = 0; moves && i < moves->slots.count; i++)
		(i < count ? live_moves_add_one : live_moves_add_missing)(&all, moves->slots.at[i]);
	live_totals_read(ret, live_view_at(&view, LIVE_SLOTS), count, &all, view.header);
	return 0;
}

void live_view_tag_text(const struct live_view *view, const struct live_tag *tag,
			char to[static LIVE_TAG_TEXT_MAX + 1])
{
	const char *text = live_view_at(view, LIVE_STRINGS);
	size_t bytes = MIN(tag->text_bytes, (uint32_t)LIVE_TAG_TEXT_MAX);

	if (range_within(tag->text_at, bytes, live_view_used(view, LIVE_STRINGS)))
		text += tag->text_at;
	else
		bytes = 0;
	bytes = strnlen(text, bytes);
	memcpy(to, text, bytes);
	to[bytes] = '\0';
}

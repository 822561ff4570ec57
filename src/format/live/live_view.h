/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checked view of a live profile that may be written to concurrently. The header's regions are copied and checked once;
 * everything else is loaded and checked where it is used.
 */
#ifndef FORMAT_LIVE_LIVE_VIEW_H
#define FORMAT_LIVE_LIVE_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "format/live/live.h"

/* Counters change while they are read; each load is one machine word. live_view_fence orders loads. */
#define LIVE_LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
/* A word that was stored last, and what was stored before it. */
#define LIVE_LOAD_LAST(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)

struct live_view {
	const struct live_header *header;
	struct live_span region[LIVE_REGIONS]; /* checked copies */
	size_t top_entries;		       /* of the header's `top`, which are mapped */
};

/* Returns NULL, or why this is not a live profile. */
const char *live_view_init(struct live_view *view, const void *memory, uint64_t mapped_bytes);

/* The number of published entries, limited to what fits into the region. Acquire: the entries are visible. */
size_t live_view_used(const struct live_view *view, enum live_region region);

/* The first entry of a region. */
static inline const void *live_view_at(const struct live_view *view, enum live_region region)
{
	return (const char *)view->header + view->region[region].at;
}

/* Loads after this are not older than loads before it. */
static inline void live_view_fence(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* An object of the pool that is fully published, or NULL. */
const void *live_view_pool(const struct live_view *view, size_t used, uint32_t reference,
			   size_t bytes);

/* The text of a tag, up to its first zero byte; "" if it is not within the strings. */
void live_view_tag_text(const struct live_view *view, const struct live_tag *tag,
			char to[static LIVE_TAG_TEXT_MAX + 1]);

/* How to read the values at the peak: doc: peak. */
struct live_peak_rule {
	uint32_t epoch;
	bool rising;
};
static inline struct live_peak_rule live_peak_rule_of(uint32_t state)
{
	return (struct live_peak_rule){ .epoch = state >> 1, .rising = state & 1 };
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* doc: live_entry
 * What the program called for the blocks of a site of LIVE_KIND_HEAP. */
#ifndef FORMAT_LIVE_LIVE_ENTRY_H
#define FORMAT_LIVE_LIVE_ENTRY_H

#include "format/live/live.h"

enum live_entry {
	LIVE_ENTRY_UNKNOWN = 0, /* an allocator in the executable did not say */
	LIVE_ENTRY_MALLOC = 1,
	LIVE_ENTRY_CALLOC = 2,
	LIVE_ENTRY_REALLOC = 3, /* and reallocarray */
	LIVE_ENTRY_ALIGNED = 4, /* posix_memalign, aligned_alloc, memalign, valloc, pvalloc */
	LIVE_ENTRY_NEW = 5,
	LIVE_ENTRY_NEW_ARRAY = 6,
	LIVE_ENTRY_FREE = 7, /* whatever ends a block; of LIVE_KIND_FREED and LIVE_KIND_TIMED */
	LIVE_ENTRIES,
};

/* Whether the `tag` of a site of this kind is another site. */
static inline int live_tag_is_site(uint32_t kind)
{
	return kind == LIVE_KIND_FREED || kind == LIVE_KIND_TIMED;
}
#endif

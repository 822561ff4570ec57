/* SPDX-License-Identifier: Apache-2.0 */
/* Names for what a program called. They are words of options, of JSON and of the page, so they never change. Owns nothing; any
 * thread may call it. */
#include "model/entries.h"

#include "format/live/live_entry.h"

const char *profile_entry_name(const struct profile_site *site)
{
	static const char *const names[LIVE_ENTRIES] = {
		[LIVE_ENTRY_UNKNOWN] = "",	   [LIVE_ENTRY_MALLOC] = "malloc",
		[LIVE_ENTRY_CALLOC] = "calloc",	   [LIVE_ENTRY_REALLOC] = "realloc",
		[LIVE_ENTRY_ALIGNED] = "memalign", [LIVE_ENTRY_NEW] = "new",
		[LIVE_ENTRY_NEW_ARRAY] = "new[]",  [LIVE_ENTRY_FREE] = "",
	};

	if (site->kind != PROFILE_HEAP)
		return site->kind == PROFILE_MMAP ? "mmap" : "";
	return names[site->entry];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that may hold debug information.
 *
 * The search itself is libdwfl's (by build-id, then by .gnu_debuglink, whose file must have the same
 * build-id or else the CRC that the link names); it takes the folders as one text with colons. We keep
 * them apart too, for what libdwfl does not look for: the debug file of a module that is not there
 * any more, and packages of split units.
 */
#include "symbols/debug_search.h"

#include <stdlib.h>
#include <string.h>

#include "util/buffer.h"
#include "util/cleanup.h"

static const char system_folder[] = "/usr/lib/debug";

bool debug_search_init(struct debug_search *search, const char *const *extra, size_t count)
{
	AUTO(buffer_release) struct buffer list = BUFFER_INIT;

	*search = (struct debug_search){ 0 };
	search->folders = calloc(count + 1, sizeof *search->folders);
	if (!search->folders)
		return false;
	for (size_t i = 0; i <= count; i++) {
		const char *folder = i < count ? extra[i] : system_folder;

		search->folders[i] = strdup(folder);
		search->folder_count += search->folders[i] != NULL;
		/* "+": a debug file without a build-id must have the right CRC. */
		buffer_printf(&list, "%s%s", i ? ":" : "+", i < count ? folder : "");
	}
	/* The empty one is the folder of the module itself. */
	buffer_printf(&list, ":.debug:%s", system_folder);
	search->list = buffer_take_string(&list);
	search->callbacks = (Dwfl_Callbacks){
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = &search->list,
	};
	if (search->list && search->folder_count == count + 1)
		return true;
	debug_search_release(search);
	return false;
}

void debug_search_release(struct debug_search *search)
{
	for (size_t i = 0; i < search->folder_count; i++)
		free(search->folders[i]);
	free(search->folders);
	free(search->list);
	*search = (struct debug_search){ 0 };
}

char *debug_search_path(const struct debug_search *search, size_t folder, struct span build_id,
			const char *suffix)
{
	AUTO(buffer_release) struct buffer path = BUFFER_INIT;

	if (build_id.size < 2)
		return NULL;
	buffer_printf(&path, "%s/.build-id/%02x/", search->folders[folder], build_id.data[0]);
	for (size_t i = 1; i < build_id.size; i++)
		buffer_printf(&path, "%02x", build_id.data[i]);
	buffer_text(&path, suffix);
	return buffer_take_string(&path);
}

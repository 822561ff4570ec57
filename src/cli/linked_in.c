/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of the allocator are in the program or, if it is stripped, in its debug file. The debug file is searched for only in a
 * program that shows signs of an allocator. Nothing is fetched from servers. No state.
 */
#include "cli/linked_in.h"

#include <elfutils/libdwelf.h>
#include <libelf.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "collect/binaries/allocator_hooks.h"
#include "collect/binaries/preflight.h"
#include "symbols/debug/debug_search.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { WORDS_MAX = 16 }; /* of the command line that may be programs */

/* NULL: none. The caller frees it. */
static char *debug_file_of(const char *path, struct span program)
{
	Elf *elf = elf_version(EV_CURRENT) != EV_NONE
			   ? elf_memory((char *)(uintptr_t)program.data, program.size)
			   : NULL;
	struct debug_search search;
	char *found = NULL;

	if (elf && debug_search_init(&search, NULL, 0)) {
		GElf_Word checksum = 0;
		const char *link = dwelf_elf_gnu_debuglink(elf, &checksum);
		int fd = debug_search_debug_file(&search, path, elf_build_id(elf), link, checksum,
						 &found);

		if (fd >= 0)
			close(fd);
		debug_search_release(&search);
	}
	elf_end(elf);
	return found;
}

bool linked_in_find_hooks(const char *path, struct live_hooks *ret)
{
	AUTO(file_map_release) struct file_map program = FILE_MAP_INIT, symbols = FILE_MAP_INIT;

	*ret = (struct live_hooks){ 0 };
	if (file_map_open(&program, path, NULL) < 0)
		return false;
	if (allocator_hooks_of(program.bytes, program.bytes, ret))
		return true;
	if (!preflight_linked_in(path))
		return false;
	AUTO_FREE char *debug = debug_file_of(path, program.bytes);

	return debug && file_map_open(&symbols, debug, NULL) == 0 &&
	       allocator_hooks_of(program.bytes, symbols.bytes, ret);
}

/* Some versions of it; whether it is one of them is not known without symbols. */
static bool has_hooks(const char *name)
{
	return strcmp(name, "jemalloc") == 0 || strcmp(name, "tcmalloc") == 0;
}

void linked_in_prepare(char *const *argv, bool quiet, struct live_hooks *ret)
{
	const char *name = quiet ? NULL : preflight_linked_in(argv[0]);

	*ret = (struct live_hooks){ 0 };
	for (size_t i = 0; argv[i] && i < WORDS_MAX && ret->program == 0; i++) {
		AUTO_FREE char *path = program_path(argv[i]);

		if (path && access(path, X_OK) == 0 && linked_in_find_hooks(path, ret) && i == 0)
			return;
	}
	if (name)
		cli_error(
			"%s is linked statically into %s: its allocations cannot be recorded%s. Link "
			"it as a shared library, or use the C library's malloc.",
			name, argv[0], has_hooks(name) ? " without its symbols" : "");
}

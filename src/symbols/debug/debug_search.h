/* SPDX-License-Identifier: Apache-2.0 */
/* Where separate debug information is looked for: the system's folders, and those the user names. */
#ifndef SYMBOLS_DEBUG_DEBUG_SEARCH_H
#define SYMBOLS_DEBUG_DEBUG_SEARCH_H

#include <stddef.h>

#include <elfutils/libdwfl.h>

#include "base/span.h"
#include "util/files.h"

struct debug_fetch;

/* The file's own build-id; empty: none. */
struct span elf_build_id(Elf *elf);
/* A section that has contents; NULL: none. */
Elf_Scn *elf_section(Elf *elf, const char *wanted);

struct debug_search {
	char **folders; /* in the order of the search; the last is the system's */
	size_t folder_count;
	const char
		*root; /* modules are looked for below it first; NULL: nowhere else; the caller's */
	struct debug_fetch *fetch; /* NULL: servers are not asked; the caller's */
	Dwfl_Callbacks callbacks;
};

/* What the user data of a Dwfl_Module points to. */
struct debug_question {
	const struct debug_search *search;
	struct file_identity found; /* the debug file that libdwfl was given; all zero: none */
};

/*
 * The extra folders come before the system's. A folder is like /usr/lib/debug: it has a .build-id of
 * its own, or files under the path of their module. False if out of memory. The search may not move
 * once it is used.
 */
bool debug_search_init(struct debug_search *search, const char *const *extra, size_t count);
void debug_search_release(struct debug_search *search);

/*
 * "<folder>/.build-id/ab/cdef.debug": where the folder keeps what belongs to a build-id. The caller's
 * (free). NULL if out of memory, or if no file can be called so.
 */
char *debug_search_path(const struct debug_search *search, size_t folder, struct span build_id,
			const char *suffix);

/*
 * Opens the debug file of a module: `link` (NULL: none) and `checksum` are what its .gnu_debuglink says. As debug_search_open.
 */
int debug_search_debug_file(const struct debug_search *search, const char *module_path,
			    struct span build_id, const char *link, uint32_t checksum,
			    char **ret_path);

/* A file that belongs to another one. */
struct debug_wanted {
	const char *beside;   /* the file that it belongs to */
	const char *name;     /* that the other file knows it by */
	struct span build_id; /* that it must have; empty: its checksum counts */
	uint32_t checksum;    /* of .gnu_debuglink; 0: none */
	bool is_common;	      /* dwz's, of several files: its name may be a path */
};

/*
 * Opens it: only a regular file that is the wanted one, without waiting for anybody. *ret_path is the caller's (free).
 * -1: it is nowhere.
 */
int debug_search_open(const struct debug_search *search, const struct debug_wanted *wanted,
		      char **ret_path);

#endif

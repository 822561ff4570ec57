/* SPDX-License-Identifier: Apache-2.0 */
/* The search path for separate debug information: the system's folders and the user's. */
#ifndef SYMBOLS_DEBUG_DEBUG_SEARCH_H
#define SYMBOLS_DEBUG_DEBUG_SEARCH_H

#include <stddef.h>

#include <elfutils/libdwfl.h>

#include "base/span.h"
#include "util/files.h"

struct debug_fetch;

/* The file's own build-id; empty: none. */
struct span elf_build_id(Elf *elf);
/* A section with contents; NULL: none. */
Elf_Scn *elf_section(Elf *elf, const char *wanted);

struct debug_search {
	char **folders; /* in search order; the last is the system's */
	size_t folder_count;
	const char *root;	   /* searched for modules first; NULL: none; owned by the caller */
	struct debug_fetch *fetch; /* NULL: do not query servers; owned by the caller */
	Dwfl_Callbacks callbacks;
};

/* The user data of a Dwfl_Module. */
struct debug_question {
	const struct debug_search *search;
	struct file_identity found; /* the debug file that libdwfl was given; all zero: none */
};

/*
 * The extra folders precede the system's. A folder is like /usr/lib/debug: it has its own .build-id,
 * or files under the path of their module or a part of it, which may be debug files or modules that were
 * not stripped. False if out of memory. The search must not be moved after its first use.
 */
bool debug_search_init(struct debug_search *search, const char *const *extra, size_t count);
void debug_search_release(struct debug_search *search);

/*
 * "<folder>/.build-id/ab/cdef.debug": the path for a build-id in the folder. Owned by the caller
 * (free). NULL if out of memory, or if the build-id is too short for a path.
 */
char *debug_search_path(const struct debug_search *search, size_t folder, struct span build_id,
			const char *suffix);

/*
 * Opens the debug file of a module: `link` (NULL: none) and `checksum` come from its .gnu_debuglink. Returns as
 * debug_search_open.
 */
int debug_search_debug_file(const struct debug_search *search, const char *module_path,
			    struct span build_id, const char *link, uint32_t checksum,
			    char **ret_path);

/* A file that another one refers to. */
struct debug_wanted {
	const char *beside;   /* the file that refers to it */
	const char *name;     /* name given by that file */
	struct span build_id; /* required build-id; empty: check the checksum instead */
	uint32_t checksum;    /* of .gnu_debuglink; 0: none */
	bool is_common;	      /* dwz's common file: its name may be a path */
};

/*
 * Opens the file, if it is a regular file and the wanted one; never blocks. *ret_path is owned by the caller (free).
 * -1: not found.
 */
int debug_search_open(const struct debug_search *search, const struct debug_wanted *wanted,
		      char **ret_path);

#endif

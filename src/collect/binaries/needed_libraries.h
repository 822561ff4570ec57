/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries that a program needs, found like the loader does, without running anything. */
#ifndef COLLECT_BINARIES_NEEDED_LIBRARIES_H
#define COLLECT_BINARIES_NEEDED_LIBRARIES_H

#include "util/vector.h"

struct needed {
	VECTOR(char *) files;
};
void needed_release(struct needed *needed);

/* Finds the program's file and those of all libraries that it needs, directly or indirectly, each once, the program first.
 * Libraries loaded later by dlopen are not included, nor those that are not in the usual folders, LD_LIBRARY_PATH and the
 * files' own RUNPATH. */
void needed_find(struct needed *needed, const char *program);

#endif

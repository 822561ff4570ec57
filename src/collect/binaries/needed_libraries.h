/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries that a program asks for, found as the loader would, without running anything. */
#ifndef COLLECT_BINARIES_NEEDED_LIBRARIES_H
#define COLLECT_BINARIES_NEEDED_LIBRARIES_H

#include "util/vector.h"

struct needed {
	VECTOR(char *) files;
};
void needed_release(struct needed *needed);

/* The program's file and those of all libraries that it and they need, each once, the program first. What dlopen loads later is not
 * among them, nor what cannot be found in the usual folders, LD_LIBRARY_PATH and the files' own RUNPATH. */
void needed_find(struct needed *needed, const char *program);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before anything runs whether a program can be recorded: from its file, its interpreter's, and the recorder's. */
#ifndef COLLECT_BINARIES_PREFLIGHT_H
#define COLLECT_BINARIES_PREFLIGHT_H

#include "util/error.h"

/* -1 with the reason and the remedy. 0: no obstacle was found; exec reports a program that does not exist. `program` is looked
 * up like execvp does. */
int preflight_program(const char *program, struct error *error);

/* The allocator linked into a program that can otherwise be recorded; NULL: none is known. A literal. */
const char *preflight_linked_in(const char *program);

/* Whether LD_PRELOAD can name the recorder, and the loader can load it. */
int preflight_recorder(const char *recorder, struct error *error);

#endif

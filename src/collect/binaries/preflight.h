/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program can be recorded, judged before anything runs: by its file, its interpreter's, and the recorder's. */
#ifndef COLLECT_BINARIES_PREFLIGHT_H
#define COLLECT_BINARIES_PREFLIGHT_H

#include "util/error.h"

/* -1 with the reason and the remedy. 0: nothing speaks against it; a program that is not there at all is for exec to
 * complain about. `program` is looked up as execvp does. */
int preflight_program(const char *program, struct error *error);

/* The allocator that is linked into a program which can be recorded otherwise; NULL: none is known. A literal. */
const char *preflight_linked_in(const char *program);

/* Whether LD_PRELOAD can name the recorder, and the loader load it. */
int preflight_recorder(const char *recorder, struct error *error);

#endif

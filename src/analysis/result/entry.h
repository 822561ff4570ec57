/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a program starts, which tells its own code from that of other installed packages.
 *
 * A program that a package manager installed (cargo install, pip install) has its sources among those of its libraries. Its own
 * package is the one that defines main; of a Python program, the first that its console script calls, if both are installed in the
 * same environment, or the one that python -m names.
 */
#ifndef ANALYSIS_RESULT_ENTRY_H
#define ANALYSIS_RESULT_ENTRY_H

#include "analysis/result/locations.h"

struct program_entry {
	const char *main_file; /* the source file of main; NULL: unknown */
	const char *script;    /* the console script; NULL: none */
	struct span package;   /* the folder of its installed package; empty: none */
};

/* Looks only at the first stacks of the process. False if out of memory. */
bool entry_find(struct locations *locations, const struct profile_process *process,
		struct program_entry *ret);

/* Whether the location is in the package, or starts it. */
bool entry_has(const struct program_entry *entry, const struct location *location);

#endif

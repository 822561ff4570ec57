/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descendants that have not connected yet: a forked child connects at its first allocation, and so does a new program. When the
 * last target has ended, they are searched for in /proc: a child still maps the profile of its parent, and a starting program
 * has our socket in its environment.
 */
#ifndef COLLECT_RUN_UNCONNECTED_CHILDREN_H
#define COLLECT_RUN_UNCONNECTED_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/vector.h"

struct unconnected_process {
	pid_t pid;
	uint64_t until_ns; /* it may connect until then */
	bool doubtful; /* not identified as ours: its environment was empty, as during an exec */
};

struct unconnected_children {
	VECTOR(uint64_t) inodes; /* of the profiles taken over, oldest first */
	VECTOR(struct unconnected_process) found;
	uint64_t since_ns;   /* of the first search; 0 = none yet */
	uint64_t checked_ns; /* of the last search */
};
void unconnected_release(struct unconnected_children *unconnected);

/* The number of such processes now; scans at most every few milliseconds. `socket_name`: the listener's, as in the environment
 * of new programs. */
size_t unconnected_count(struct unconnected_children *unconnected, const char *socket_name,
			 uint64_t now_ns);

#endif

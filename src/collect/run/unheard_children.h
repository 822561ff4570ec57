/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descendants that have not said hello yet: a fork's child does so with its first allocation, a program with its own.
 * When the last known process has ended, they are searched for in /proc: a child still maps the profile of its parent, a
 * program that starts has our socket in its environment.
 */
#ifndef COLLECT_RUN_UNHEARD_CHILDREN_H
#define COLLECT_RUN_UNHEARD_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/vector.h"

struct unheard_process {
	pid_t pid;
	uint64_t until_ns; /* until when it may say hello */
	bool doubtful; /* it never seemed one of ours: it had no environment, as in the middle of an exec */
};

struct unheard_children {
	VECTOR(uint64_t) inodes; /* of the profiles that were taken over, ascending by time */
	VECTOR(struct unheard_process) found;
	uint64_t since_ns;   /* when it was first searched for; 0 = not yet */
	uint64_t checked_ns; /* when it was last searched for */
};
void unheard_release(struct unheard_children *unheard);

/* How many there are now; scans at most every few milliseconds. `socket_name`: of the listener, in the environment of what begins. */
size_t unheard_count(struct unheard_children *unheard, const char *socket_name, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs that make files for tests. */
#ifndef MADE_H
#define MADE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

/* The same numbers in every run. */
static inline uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static inline void *zeroed(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory)
		die("out of memory");
	return memory;
}

#endif

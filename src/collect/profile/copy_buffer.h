/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for copies of profiles: as large as a profile, tens of gigabytes, of which only a few scattered pages contain data.
 * For a short-lived process, building page tables for them costs more than the copy, so a zeroed mapping is reused for the next
 * copy.
 */
#ifndef COLLECT_PROFILE_COPY_BUFFER_H
#define COLLECT_PROFILE_COPY_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

/* The ranges that contain data. */
struct copy_runs {
	struct copy_run {
		uint64_t at, bytes;
	} run[48];
	unsigned count;
	bool is_incomplete; /* data may be anywhere */
	uint64_t bytes;
};
void copy_runs_note(struct copy_runs *runs, uint64_t at, uint64_t bytes);

/* Returns zeroed memory. NULL, with errno, on failure. Callable from any thread, like copy_buffer_free. */
char *copy_buffer_new(uint64_t bytes);
/* Zeroes the memory and clears the runs. 0, or -1 with errno. */
int copy_buffer_empty(char *room, uint64_t bytes, struct copy_runs *runs);
void copy_buffer_free(char *room, uint64_t bytes, struct copy_runs *runs);

#endif

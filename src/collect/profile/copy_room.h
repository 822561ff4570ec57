/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for copies of profiles: as large as a profile, tens of gigabytes, of which a few pages far apart will hold data. Making page
 * tables for those costs a short process more than its copy, so an emptied mapping is kept for the next copy.
 */
#ifndef COLLECT_PROFILE_COPY_ROOM_H
#define COLLECT_PROFILE_COPY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Where it holds data. */
struct copy_runs {
	struct copy_run {
		uint64_t at, bytes;
	} run[48];
	unsigned count;
	bool is_incomplete; /* it may hold data anywhere */
	uint64_t bytes;
};
void copy_runs_note(struct copy_runs *runs, uint64_t at, uint64_t bytes);

/* Zeroed. NULL, with errno: there is none. Any thread, as copy_room_free. */
char *copy_room_new(uint64_t bytes);
/* Zeroes it, and the runs. 0, or -1 with errno. */
int copy_room_empty(char *room, uint64_t bytes, struct copy_runs *runs);
void copy_room_free(char *room, uint64_t bytes, struct copy_runs *runs);

#endif

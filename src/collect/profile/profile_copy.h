/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a live profile, taken while its process goes on, or from the file that it left. It is laid out as the profile is,
 * so that format/live/live_read.h reads it. Needs the right to ptrace the process, or to read the file that it keeps its profile in;
 * does not stop it, does not write to it.
 */
#ifndef COLLECT_PROFILE_PROFILE_COPY_H
#define COLLECT_PROFILE_PROFILE_COPY_H

#include <stdbool.h>

#include "collect/kernel/recorded_processes.h"
#include "collect/profile/copy_room.h"
#include "format/live/live.h"
#include "util/error.h"

enum profile_copy_parts {
	PROFILE_COPY_LIVE,     /* what sites hold, threads, marks: no stacks */
	PROFILE_COPY_COUNTERS, /* all but the block map, which may be large: no ages */
	PROFILE_COPY_ALL,
};

struct profile_copy {
	char *memory; /* bytes of it; NULL = nothing was taken yet */
	uint64_t bytes;
	struct live_control control; /* all zero = the process has none */
	pid_t pid;		     /* 0 = a file alone */
	/* inner */
	uint64_t at; /* the profile in the process */
	int fd;	     /* the file that it is read from; -1 = the process' memory */
	bool still;  /* nobody writes to it any more */
	struct copy_runs runs;
};
#define PROFILE_COPY_INIT ((struct profile_copy){ .fd = -1 })

enum {
	PROFILE_COPY_FAILED = -1,
	PROFILE_COPY_NOTHING =
		-2, /* it has ended, or holds only the profile of whom it is a fork of */
};
/* Takes the profile at `recorded`, anew if it was taken before. 0, or one of the above with the error set. */
int profile_copy_take(struct profile_copy *copied, const struct recorded *recorded,
		      enum profile_copy_parts parts, struct error *error);
/* Takes what a file holds; `path` is for words. */
int profile_copy_take_file(struct profile_copy *copied, const char *path,
			   enum profile_copy_parts parts, struct error *error);
/* Gets hold of the profile itself, so that it can be read when the process is gone: its file, or, for the privileged, its
 * memory. What is taken from now on is read there. False: it cannot be opened. */
bool profile_copy_hold(struct profile_copy *copied, const struct recorded *recorded);
/* Takes what is held, whether the process lives or not; where nothing is, the memory of the process. */
int profile_copy_take_held(struct profile_copy *copied, enum profile_copy_parts parts,
			   struct error *error);
/* How much of that part of the profile is data and no hole; of a process' memory, all of it. */
uint64_t profile_copy_data_bytes(const struct profile_copy *copied, uint64_t from, uint64_t bytes);
void profile_copy_release(struct profile_copy *copied);
/* The copy alone; it can be taken again. */
void profile_copy_release_memory(struct profile_copy *copied);

/* LIVE_FRONT_BYTES of a head, zeroed: only a whole copy has the rest. */
struct live_header *profile_front_new(void);

static inline const struct live_header *profile_copy_head(const struct profile_copy *copied)
{
	return (const struct live_header *)(const void *)copied->memory;
}

#endif

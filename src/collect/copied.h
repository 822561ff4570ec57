/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a live profile, taken while its process goes on. It is laid out as the profile is, so that format/live_read.h
 * reads it. Needs the right to ptrace the process; does not stop it, does not write to it.
 */
#ifndef COLLECT_COPIED_H
#define COLLECT_COPIED_H

#include "collect/recorded.h"
#include "format/live.h"
#include "util/error.h"

enum copied_parts {
	COPIED_COUNTERS, /* all but the block map, which may be large: no ages */
	COPIED_ALL,
};

struct copied {
	char *memory; /* bytes of it; NULL = nothing was taken yet */
	uint64_t bytes;
	struct live_control control; /* all zero = the process has none */
	/* inner */
	pid_t pid;
	uint64_t at; /* the profile in the process */
};
#define COPIED_INIT ((struct copied){ 0 })

enum {
	COPIED_FAILED = -1,
	COPIED_NOTHING = -2, /* it has ended, or holds only the profile of whom it is a fork of */
};
/* Takes the profile at `recorded`, anew if it was taken before. 0, or one of the above with the error set. */
int copied_take(struct copied *copied, const struct recorded *recorded, enum copied_parts parts,
		struct error *error);
void copied_release(struct copied *copied);

static inline const struct live_header *copied_head(const struct copied *copied)
{
	return (const struct live_header *)(const void *)copied->memory;
}

#endif

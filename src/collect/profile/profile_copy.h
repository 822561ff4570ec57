/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a live profile, taken while its process runs, or from the file that it left, or from a core file. It has the same layout, so
 * format/live/live_read.h can read it. Requires permission to ptrace the process, or to read the file that contains its
 * profile; neither stops the process nor writes to it.
 */
#ifndef COLLECT_PROFILE_PROFILE_COPY_H
#define COLLECT_PROFILE_PROFILE_COPY_H

#include <stdbool.h>

#include "collect/kernel/core_file.h"
#include "collect/kernel/recorded_processes.h"
#include "collect/profile/copy_buffer.h"
#include "format/live/live.h"
#include "format/live/live_now.h"
#include "util/error.h"

enum profile_copy_parts {
	PROFILE_COPY_LIVE,     /* live bytes of sites, threads, marks: no stacks */
	PROFILE_COPY_SUMS,     /* with stacks, but without distributions */
	PROFILE_COPY_COUNTERS, /* all but the block map, which may be large: no ages */
	PROFILE_COPY_ALL,
};

struct profile_copy {
	char *memory; /* `bytes` long; NULL = nothing was copied yet */
	uint64_t bytes;
	struct live_control control;  /* all zero = the process has none */
	struct live_copy_moves moves; /* while it was copied; none if it was still */
	pid_t pid;		      /* 0 = only a file */
	/* private */
	uint64_t at;	       /* address of the profile in the process */
	uint64_t header_bytes; /* of the profile, at most what a header may have */
	int fd;		       /* the file that it is read from; -1 = the process' memory */
	const struct core_file
		*core; /* of the process, if it is read from there; NULL = it is not */
	bool still;    /* nothing writes to it any more */
	bool refresh; /* overwrites the last copy instead of emptying it first: its memory stays present */
	struct copy_runs runs;
};
#define PROFILE_COPY_INIT ((struct profile_copy){ .fd = -1 })

enum {
	PROFILE_COPY_FAILED = -1,
	PROFILE_COPY_NOTHING =
		-2, /* it has ended, or it is a fork that has only its parent's profile */
};
/* Copies the profile at `recorded`, or refreshes an earlier copy. 0, or one of the above with the error set. */
int profile_copy_take(struct profile_copy *copied, const struct recorded *recorded,
		      enum profile_copy_parts parts, struct error *error);
/* Copies the profile in the file at `path`. */
int profile_copy_take_file(struct profile_copy *copied, const char *path,
			   enum profile_copy_parts parts, struct error *error);
/* Copies the profile at address `at` of a core file, which the copy may refer to afterwards. */
int profile_copy_take_core(struct profile_copy *copied, const struct core_file *core, uint64_t at,
			   enum profile_copy_parts parts, struct error *error);
/* Opens the profile itself, so that it can be read after the process has ended: its file or, with privileges, its memory. Later
 * copies read from there. False with errno set: it cannot be opened; ENOTSUP: do not touch its memory either (mapped_file.h). */
bool profile_copy_hold(struct profile_copy *copied, const struct recorded *recorded);
/* Copies the opened profile, whether the process is alive or not; falls back to the memory of the process if none is open. */
int profile_copy_take_held(struct profile_copy *copied, enum profile_copy_parts parts,
			   struct error *error);
/* How many bytes of that range of the profile are data and not holes; for a process' memory, all of them. */
uint64_t profile_copy_data_bytes(const struct profile_copy *copied, uint64_t from, uint64_t bytes);
/* The current time of the clock that births use. */
uint64_t profile_copy_clock_ms(const struct profile_copy *copied);
void profile_copy_release(struct profile_copy *copied);
/* Frees only the copy; it can be taken again. */
void profile_copy_release_memory(struct profile_copy *copied);

/* Allocates LIVE_FRONT_BYTES of a header, zeroed: only a full copy has the rest. */
struct live_header *profile_front_new(void);
/* Validates a header that was copied from an untrusted profile. */
int profile_check_header(const struct live_header *header, uint64_t bytes, struct error *error);

static inline const struct live_header *profile_copy_head(const struct profile_copy *copied)
{
	return (const struct live_header *)(const void *)copied->memory;
}

#endif

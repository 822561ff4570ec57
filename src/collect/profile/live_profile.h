/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of one process as the collector holds it: a descriptor of memory that the process created. It is read by pread
 * and never mapped, so holes take no memory and nothing that the process does to its memory can harm the collector. Slow reads
 * use an image, a private copy that exists only while it is needed. The collector writes the clock, budget and mode to the
 * control page, which it never reads back.
 */
#ifndef COLLECT_PROFILE_LIVE_PROFILE_H
#define COLLECT_PROFILE_LIVE_PROFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "collect/profile/profile_copy.h"
#include "format/live/live.h"
#include "format/live/live_read.h"
#include "util/error.h"

struct live_profile {
	struct live_header *head; /* as last read, up to `top`; NULL = no profile */
	void *memory;		  /* the image; NULL = none is loaded */
	uint64_t bytes;
	struct live_control control; /* as last written */
	uint64_t inode;		     /* of its memory, as in /proc/PID/maps; 0 = none */
	uint32_t user;		     /* 1 + the uid of its creator; 0 = unknown */
	/* private */
	struct profile_copy held;     /* where it is read from, and the image's memory */
	struct live_slot *slots;      /* three readings */
	size_t slot_room;	      /* of one reading */
	struct live_copy_moves moves; /* of the image, which owns them */
	char *file;   /* the file that contains it, removed on release; NULL = none */
	bool is_lent; /* head and memory belong to the lender */
	bool is_old;  /* the image is older than the end of the process, whose memory is lost */
};
#define LIVE_PROFILE_INIT ((struct live_profile){ .held = PROFILE_COPY_INIT })

/* Takes over a received descriptor if it is valid for a recorder: a sealed memfd of the right size. On failure the descriptor
 * is closed. */
int live_profile_take(struct live_profile *ret, int fd, struct error *error);
/* The same for a file in the collector's folder; `path` is removed on release. */
int live_profile_take_file(struct live_profile *ret, int fd, const char *path, struct error *error);
/* The same for memory of a process that has no descriptor for it: data not copied before its end is lost. */
int live_profile_take_memory(struct live_profile *ret, pid_t pid, uint64_t at, struct error *error);
/* Makes a second reader of the same profile, for an encoder. */
int live_profile_twin(const struct live_profile *profile, struct live_profile *ret,
		      struct error *error);
/* Reads from a copy that the caller makes and owns. */
void live_profile_lend(struct live_profile *profile, const struct profile_copy *copied);
/* The same, and takes ownership of the copy. */
void live_profile_keep(struct live_profile *profile, struct profile_copy *copied);
void live_profile_release(struct live_profile *profile);

/* Re-reads the part of the header that changes often: used, opened, peak, starts. False: it cannot be read. */
bool live_profile_poll(struct live_profile *profile);
/* Reads one entry of its fork and exec log. False: it is being written, or was overwritten. */
bool live_profile_read_start(struct live_profile *profile, uint32_t serial, struct live_start *ret);
/* Sums over the slots, like live_read_totals. Retries a few times while the bounds are wide. False: they cannot be read. */
bool live_profile_read_totals(struct live_profile *profile, struct live_totals *ret);

/* A reader of the same profile with its own, current header, so that another thread can read concurrently with the loop. Valid
 * as long as the profile is; release it only with live_profile_reader_release. False: it cannot be read. */
bool live_profile_reader(const struct live_profile *profile, struct live_profile *ret);
void live_profile_reader_release(struct live_profile *reader);
/* Reads bytes at an offset of the profile. False on a short read. */
bool live_profile_read(const struct live_profile *profile, uint64_t at, void *to, size_t bytes);

/* Makes the image; still: the process has ended, and nothing writes to the profile any more. */
int live_profile_load(struct live_profile *profile, enum profile_copy_parts parts, bool still,
		      struct error *error);
void live_profile_unload(struct live_profile *profile);
/* The recording mode according to the image. */
uint32_t live_profile_mode(const struct live_profile *profile);

/* Write to the control page. No-ops without a descriptor: the process then has to do without a collector. */
void live_profile_write_clock(struct live_profile *profile, uint64_t ms);
void live_profile_write_budget(struct live_profile *profile, uint64_t bytes, uint64_t limit_bytes);
void live_profile_write_saved(struct live_profile *profile, uint64_t saved_read);
/* Whether the process is about to exit and waits for an image; tells it that this was noticed; and lets it go on. */
bool live_profile_waits(const struct live_profile *profile);
void live_profile_answer_exit(struct live_profile *profile);
void live_profile_let_exit(struct live_profile *profile);
/* Makes the process dormant, but not the programs and children that it starts. */
void live_profile_make_dormant(struct live_profile *profile);
/* Excludes the process from the recording: it becomes dormant, and so do the programs and children that it starts. */
void live_profile_dismiss(struct live_profile *profile);

static inline bool live_profile_is_ready(const struct live_profile *profile)
{
	return profile->head && __atomic_load_n(&profile->head->ready, __ATOMIC_ACQUIRE) != 0;
}

#endif

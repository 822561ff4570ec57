/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of one process as the collector has it: a descriptor of memory that the process made. It is read by pread,
 * never mapped: what is a hole takes no memory, and a process may do to its own memory whatever it likes. What takes time is read
 * from an image, a private copy that is there only while somebody needs it. What the collector writes (clock, budget, mode) goes to
 * the control page, which is never read back.
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
	struct live_header *head; /* as last read, up to `top`; NULL = there is no profile */
	void *memory;		  /* the image; NULL = none is loaded */
	uint64_t bytes;
	struct live_control control; /* what was written last */
	uint64_t inode;		     /* by which /proc/PID/maps names its memory; 0 = none */
	uint32_t user;		     /* 1 + the one who made it; 0 = not known */
	/* inner */
	struct profile_copy held; /* where it is read from, and the image's memory */
	struct live_slot *slots;
	size_t slot_room;
	char *file;   /* that it lies in, removed with the profile; NULL = none */
	bool is_lent; /* head and memory are the lender's */
	bool is_old; /* the image is from before the end of the process, whose memory went with it */
};
#define LIVE_PROFILE_INIT ((struct live_profile){ .held = PROFILE_COPY_INIT })

/* Takes over a descriptor that somebody sent, if it is what a recorder sends: ordinary memory, sealed, of the right size. On failure
 * the descriptor is closed. */
int live_profile_take(struct live_profile *ret, int fd, struct error *error);
/* A file in the collector's folder; `path` is removed in the end. As above. */
int live_profile_take_file(struct live_profile *ret, int fd, const char *path, struct error *error);
/* Memory of a process that has no descriptor of it: what is not copied before its end is lost. */
int live_profile_take_memory(struct live_profile *ret, pid_t pid, uint64_t at, struct error *error);
/* Another reader of the same, for an encoder. */
int live_profile_twin(const struct live_profile *profile, struct live_profile *ret,
		      struct error *error);
/* A copy that somebody else makes and keeps. */
void live_profile_lend(struct live_profile *profile, const struct profile_copy *copied);
/* The same, and the copy is the profile's from now on. */
void live_profile_keep(struct live_profile *profile, struct profile_copy *copied);
void live_profile_release(struct live_profile *profile);

/* Reads the part of the head anew that changes often: used, opened, peak, starts. False: it cannot be read. */
bool live_profile_poll(struct live_profile *profile);
/* One entry of its log: false if it is being written, or another one by now. */
bool live_profile_read_start(struct live_profile *profile, uint32_t serial, struct live_start *ret);
/* Sums over the slots, as live_read_totals. */
bool live_profile_read_totals(struct live_profile *profile, struct live_totals *ret);

/* A reader of the same profile with a head of its own, as it is now, so that another thread can read beside the loop. Valid as long as
 * the profile is; released by live_profile_reader_release alone. False: it cannot be read. */
bool live_profile_reader(const struct live_profile *profile, struct live_profile *ret);
void live_profile_reader_release(struct live_profile *reader);
/* Bytes at a place of the profile. Whether all of them could be read. */
bool live_profile_read(const struct live_profile *profile, uint64_t at, void *to, size_t bytes);

/* Makes the image, if there is none; still: the process has ended, and nobody writes any more. */
int live_profile_load(struct live_profile *profile, enum profile_copy_parts parts, bool still,
		      struct error *error);
void live_profile_unload(struct live_profile *profile);
/* How it records, or would: the image's word. */
uint32_t live_profile_mode(const struct live_profile *profile);

/* What goes to the control page. Where there is no descriptor to write to, the process has to do by itself. */
void live_profile_write_clock(struct live_profile *profile, uint64_t ms);
void live_profile_write_budget(struct live_profile *profile, uint64_t bytes, uint64_t limit_bytes);
void live_profile_write_saved(struct live_profile *profile, uint64_t saved_read);
/* It is not, or no longer, part of the recording: dormant from now on, and so is what it starts. */
void live_profile_dismiss(struct live_profile *profile);

static inline bool live_profile_is_ready(const struct live_profile *profile)
{
	return profile->head && __atomic_load_n(&profile->head->ready, __ATOMIC_ACQUIRE) != 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's state, shared by its loop (loop.c), those who come (connect.c) and end (ends.c), the writing of the
 * recording (write.c), and the two sources of targets: launched.c and attach/attach.c. */
#ifndef COLLECT_RUN_COLLECTOR_H
#define COLLECT_RUN_COLLECTOR_H

#include <poll.h>
#include <time.h>
#include <sys/stat.h>

#include "collect/collect.h"
#include "collect/run/dump.h"
#include "collect/run/encoder.h"
#include "collect/run/handover.h"
#include "collect/run/launch.h"
#include "collect/run/unheard_children.h"
#include "collect/run/process_log.h"
#include "collect/process/target.h"
#include "collect/run/worker.h"
#include "util/buffer.h"
#include "util/numbering.h"
#include "util/vector.h"

/* A connection whose message has not come yet. */
struct pending {
	int fd, pid_fd; /* pid_fd -1: not known */
	pid_t pid;
	uint64_t since_ns;
};
void pending_close(struct pending *pending);

struct collector;
/* Where targets come from: a program that was started and its descendants, which hand their profiles over, or a process that
 * records itself, whose profile is copied. The loop calls these in its thread. */
struct source {
	bool hands_over; /* else whoever connects may only make requests, and must be of the target's user */
	/* Moves the clock of a living target, and brings what is read of it up to date. False: it cannot be sampled now. */
	bool (*advance)(struct collector *c, struct target *target, uint64_t now_ns);
	/* As target_sample. */
	bool (*sample)(struct collector *c, struct target *target, uint64_t now_ns);
	/* The profile of a clone of the target. */
	int (*twin)(struct collector *c, struct target *target, struct live_profile *ret,
		    struct error *error);
	/* A process that is not our child has ended. */
	void (*end)(struct collector *c, struct target *target, uint64_t now_ns);
	/* At the end of each turn of the loop. True: it was the last. */
	bool (*end_turn)(struct collector *c, uint64_t now_ns);
	/* After the loop: lets go of those who live on, sets end_ns and gives all targets to the encoder. */
	void (*finish)(struct collector *c);
};

struct collector {
	const struct source *source;
	void *source_state; /* the source's own */
	const struct collect_options *options;
	struct collect_result *result;
	struct listener listener;
	int signal_fd;
	struct launch_signals signals; /* as they were before signal_fd */
	pid_t child;		       /* the program; 0 = nothing was started */
	bool child_ended;
	uint64_t child_ended_ns, child_max_rss_bytes;
	bool survivors_reported;
	int left_signal; /* the one that asked us to stop; 0 = none did */
	unsigned stop_signals;
	VECTOR(struct pending) pending;
	VECTOR(struct target *) targets; /* living, or dead and not yet given to the encoder */
	struct encoder *encoder;
	struct dumps *dumps;	/* NULL = no condition asks for any */
	struct worker *sampler; /* reads what takes time: target_sample.c */
	struct cgroups cgroups;
	struct unheard_children
		unheard; /* descendants that were not heard from yet; only searched for when no target is left */
	size_t unheard_count;
	struct process_log process_log; /* who was announced, and who of them was missed */
	struct live_settings settings;	/* that processes begin with */
	size_t welcomed;		/* processes that handed a profile over */
	struct numbering taken;		/* the ids of their profiles */
	uint64_t next_folder_ns;	/* when the folder is scanned again */
	struct timespec folder_mtime;
	bool is_full; /* no descriptors are left: who connects has to wait until others have ended */
	bool folder_is_unsettled; /* there is a file that was not taken over yet */
	size_t other_ranks;	  /* processes of ranks that are not wanted */
	uint64_t ended_calls;	  /* of processes that were given to the encoder */
	struct stat self;	  /* heapgauge's own file: st_ino 0 = not known */
	VECTOR(struct pollfd) polls;
	uint64_t tick_ns;	   /* between two moves of the clocks */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t peak_bytes;	   /* of all processes together, as sampled: for the progress */
	uint64_t next_progress_ns, progress_ns, progress_calls;
	char last_error[ERROR_MESSAGE_BYTES]; /* why a recorder was sent away */
};

/* ---- loop.c ---- */

/* Takes the signals. -1 with the error set; collector_release either way. */
int collector_init(struct collector *c, const struct source *source,
		   const struct collect_options *options, struct collect_result *ret,
		   struct error *error);
void collector_release(struct collector *c);
/* start_ns is set. -1 with the error set: there is no memory. */
int collector_begin(struct collector *c, struct error *error);
/* Where the recording goes, by the program and its number. The caller's; NULL if out of memory. */
char *collector_path(const struct collector *c, const char *program, pid_t pid);
/* The loop, until its source is over or the user asks to stop; then writes the recording to `path`, which may be NULL: out of
 * memory. -1 with the error set: it cannot be written. */
int collector_run(struct collector *c, const char *path, struct error *error);

/* ---- connect.c: processes that connect ---- */

/* Takes connections, and the messages that have come. */
void collector_accept(struct collector *c, uint64_t now_ns);
void collector_serve(struct collector *c, uint64_t now_ns);
/* Takes over the profiles that were left in the folder. */
void collector_search_folder(struct collector *c, uint64_t now_ns);

/* ---- ends.c: processes that end ---- */

/* The program itself, if it has ended. */
void collector_reap(struct collector *c, uint64_t now_ns);
/* Its target, once it was reaped. */
void collector_end_child(struct collector *c, struct target *target, uint64_t now_ns);
/* A process that is not our child has ended: how, if the kernel tells. */
void collector_end_other(struct target *target, uint64_t now_ns);
/* Gives those who have ended to the encoder; with everyone, also those who live on. */
void collector_pass_on(struct collector *c, uint64_t now_ns, bool everyone);

/* ---- survivors.c: descendants that live on when the program has ended ---- */

/* Those who live now: recorded ones, and children that were not heard from. */
void survivors_list(struct collector *c, uint64_t now_ns, struct collect_survivors *ret);
/* From now on they record nothing, and what they fork or exec gets no recorder. They keep the memory that they have. */
void survivors_let_go(struct collector *c);

/* ---- write.c ---- */

/* Waits for the encoder and writes the recording. */
int collector_write(struct collector *collector, const char *path, struct error *error);
/* The machine (host NULL: this one's name), the version, and the command, which becomes the run's; NULL: out of memory. */
int collector_fill_run(struct run_row *run, const char *host, const char *version, char *command,
		       struct error *error);
/* A recording of one process alone, which may live on; takes the target. */
int collector_encode_one(struct target *target, uint64_t now_ns, const char *version,
			 struct buffer *ret, struct error *error);

/* ---- conditions.c ---- */

/* Says which conditions cannot come true, or are judged by estimates; those that never can are an error. */
int collector_check_triggers(const struct collect_options *options, const struct cgroups *cgroups,
			     pid_t pid, uint64_t interval, struct error *error);

#endif

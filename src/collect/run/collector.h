/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's state. The loop (loop.c), connections (connect.c), process ends (ends.c), the writer of the recording
 * (write.c) and the two sources of targets (launched.c and attach/attach.c) share it. */
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
#include "collect/run/unconnected_children.h"
#include "collect/run/process_log.h"
#include "collect/process/target.h"
#include "collect/run/worker.h"
#include "util/buffer.h"
#include "util/numbering.h"
#include "util/vector.h"

/* A connection whose message has not arrived yet. */
struct pending {
	int fd, pid_fd; /* pid_fd -1: unknown */
	pid_t pid;
	uint64_t since_ns;
};
void pending_close(struct pending *pending);

struct collector;
/* A source of targets: either a program that heapgauge starts, whose processes hand over their profiles, or a process that
 * records itself, whose profile is copied. The loop calls these functions in its thread. */
struct source {
	bool hands_over; /* if false, peers may only send requests, and must run as the target's user */
	/* Advances the clock of a live target and refreshes the state read from it. False: it cannot be sampled now. */
	bool (*advance)(struct collector *c, struct target *target, uint64_t now_ns);
	/* Like target_sample. */
	bool (*sample)(struct collector *c, struct target *target, uint64_t now_ns);
	/* Makes the profile for a clone of the target. */
	int (*twin)(struct collector *c, struct target *target, struct live_profile *ret,
		    struct error *error);
	/* Called when a process that is not our child has ended. */
	void (*end)(struct collector *c, struct target *target, uint64_t now_ns);
	/* Called at the end of each loop iteration. True: this was the last one. */
	bool (*end_iteration)(struct collector *c, uint64_t now_ns);
	/* Called after the loop: releases surviving processes, sets end_ns and passes all targets to the encoder. */
	void (*finish)(struct collector *c);
};

struct collector {
	const struct source *source;
	void *source_state; /* private to the source */
	const struct collect_options *options;
	struct collect_result *result;
	struct listener listener;
	int signal_fd;
	struct launch_signals signals; /* saved before signal_fd was opened */
	pid_t child;		       /* the launched program; 0 = none */
	bool child_ended;
	uint64_t child_ended_ns, child_max_rss_bytes;
	bool survivors_reported;
	int left_signal; /* the signal that stopped heapgauge; 0 = none */
	unsigned stop_signals;
	bool timed_out; /* duration_ns has passed */
	VECTOR(struct pending) pending;
	VECTOR(struct target *) targets; /* alive, or ended and not yet passed to the encoder */
	struct encoder *encoder;
	struct dumps *dumps;	/* NULL = no condition writes recordings */
	struct worker *sampler; /* runs slow reads: target_sample.c */
	struct cgroups cgroups;
	struct unconnected_children
		unconnected; /* descendants that have not connected yet; searched for only when no target is left */
	size_t unconnected_count;
	struct process_log process_log; /* announced processes, and which of them were missed */
	struct live_settings settings;	/* initial settings of every process */
	size_t welcomed;		/* processes that handed over a profile */
	struct numbering taken;		/* the ids of their profiles */
	uint64_t next_folder_ns;	/* next scan of the folder */
	struct timespec folder_mtime;
	bool is_full; /* out of descriptors: new connections wait until other processes have ended */
	bool folder_is_unsettled; /* it contains a file that was not taken over yet */
	size_t other_ranks;	  /* processes whose rank was not selected */
	uint64_t ended_calls;	  /* of processes already passed to the encoder */
	struct stat self;	  /* heapgauge's own executable; st_ino 0 = unknown */
	VECTOR(struct pollfd) polls;
	uint64_t tick_ns;	   /* interval between clock updates */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t peak_bytes;	   /* of all processes combined, as sampled; for the progress */
	uint64_t next_progress_ns, progress_ns, progress_calls;
	char last_error[ERROR_MESSAGE_BYTES]; /* why a recorder was rejected */
};

/* ---- loop.c ---- */

/* Blocks the signals and opens signal_fd. -1 with the error set; call collector_release in either case. */
int collector_init(struct collector *c, const struct source *source,
		   const struct collect_options *options, struct collect_result *ret,
		   struct error *error);
void collector_release(struct collector *c);
/* Requires start_ns. -1 with the error set: out of memory. */
int collector_begin(struct collector *c, struct error *error);
/* The path of the recording, from the program's name and pid. The caller frees it; NULL if out of memory. */
char *collector_path(const struct collector *c, const char *program, pid_t pid);
/* Runs the loop until the source is finished or the user stops it, then writes the recording to `path`; NULL if the path could
 * not be allocated. -1 with the error set: the recording cannot be written. */
int collector_run(struct collector *c, const char *path, struct error *error);
/* Waits for the end of the launched program, which is no longer recorded, or for a signal that stops heapgauge. */
void collector_wait(struct collector *c);

/* ---- connect.c: processes that connect ---- */

/* Accept connections, and process the messages that have arrived. */
void collector_accept(struct collector *c, uint64_t now_ns);
void collector_serve(struct collector *c, uint64_t now_ns);
/* Takes over the profiles that processes left in the folder. */
void collector_search_folder(struct collector *c, uint64_t now_ns);

/* ---- ends.c: processes that end ---- */

/* Whether the launched program has ended, reaped or not. */
bool collector_child_has_ended(const struct collector *c);
/* Reaps the launched program if it has ended. */
void collector_reap(struct collector *c, uint64_t now_ns);
/* Ends the target of the launched program, after it was reaped. */
void collector_end_child(struct collector *c, struct target *target, uint64_t now_ns);
/* Ends the target of a process that is not our child, with its exit status if the kernel provides it. */
void collector_end_other(struct target *target, uint64_t now_ns);
/* Passes ended targets to the encoder; with `everyone`, live ones too. */
void collector_pass_on(struct collector *c, uint64_t now_ns, bool everyone);

/* ---- survivors.c: descendants that outlive the program ---- */

/* Lists the processes that are alive now: targets, and children that have not connected. */
void survivors_list(struct collector *c, uint64_t now_ns, struct collect_survivors *ret);
/* Makes the survivors dormant; their forks and execs get no recorder. They keep their profile memory. */
void survivors_let_go(struct collector *c);

/* ---- write.c ---- */

/* Waits for the encoder and writes the recording. */
int collector_write(struct collector *collector, const char *path, struct error *error);
/* Fills in the host (NULL: this machine's name), the version, and the command and the rule for own code, which `run` takes
 * over; NULL: out of memory. run->options stays if it is set. */
int collector_fill_run(struct run_row *run, const char *host, const char *version, char *command,
		       char *own_code, struct error *error);
/* Encodes a recording of a single process, which may be alive; takes ownership of the target. */
int collector_encode_one(struct target *target, uint64_t now_ns, const char *version,
			 const char *options, struct buffer *ret, struct error *error);

/* ---- conditions.c ---- */

/* Reports conditions that cannot become true or are evaluated on estimates. A condition that this kernel can never evaluate is
 * an error. */
int collector_check_triggers(const struct collect_options *options, const struct cgroups *cgroups,
			     pid_t pid, uint64_t interval, struct error *error);

#endif

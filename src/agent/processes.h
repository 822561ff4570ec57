/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorded processes of this machine that the agent knows. It holds one descriptor of each, that of the profile, where the
 * kernel allows it: the descriptor is what keeps the memory of a killed process, so that it can be read after its end. Some
 * descriptors stay free for everything else; processes beyond are read as well, and their profiles opened for each reading.
 *
 * Used by the agent's loop; where other threads read it, under the agent's lock.
 */
#ifndef AGENT_PROCESSES_H
#define AGENT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent_settings.h"
#include "agent/labels.h"
#include "agent/reading/reading.h"
#include "collect/kernel/cgroup.h"
#include "collect/kernel/recorded_processes.h"
#include "util/error.h"
#include "util/vector.h"

enum process_fate {
	FATE_RUNS,
	FATE_EXITED, /* or it is not known how it ended */
	FATE_KILLED, /* it did not get to remove its profile */
	FATE_OOM, /* the kernel's log says so; or that is incomplete, and its group counted one more */
};

struct agent_process {
	struct recorded recorded; /* pid 0: a leftover, known by its file alone */
	uint64_t id;		  /* of its profile, chosen by the process */
	uint32_t uid;		  /* when it was first seen */
	uint32_t reader_uid,
		reader_gid;	   /* see procfs_owner; the reader becomes that, but never root */
	bool is_local;		   /* it is in no container */
	uint64_t started_ticks;	   /* procfs_started_ticks */
	uint64_t namespaces[3];	   /* at its last reading, as inodes: see batch.c */
	int profile_fd;		   /* -1: it could not be opened, or is not held */
	struct recorded_file file; /* what profile_fd is of; inode 0: it could never be opened */
	char *leftover;		   /* path of the file that it left; NULL: none */
	struct labels labels;
	char *group;	      /* its control group; NULL: unknown */
	uint64_t group_kills; /* OOM kills there at the last scan; UINT64_MAX: unknown */
	uint64_t seen_ns;     /* CLOCK_MONOTONIC: last known to run */
	uint64_t first_ns;    /* CLOCK_MONOTONIC: first seen */
	uint64_t next_ns;     /* when to read it next */
	enum process_fate fate;
	bool is_shown;		  /* with series of its own, in the last answer to Prometheus */
	bool is_unchanged;	  /* in the last scan: it has the profile that was read before */
	bool is_counted;	  /* in the agent's counts of ends */
	bool is_handled;	  /* its last profile was: nothing is left to do but to forget it */
	bool is_suspect;	  /* a child failed while it read this one: it is read alone */
	struct reading *reading;  /* the last good one; NULL: none */
	struct reading_tag *tags; /* of that reading */
	char problem[ERROR_MESSAGE_BYTES]; /* why it could not be read last; "": it could */
};

struct processes {
	VECTOR(struct agent_process *) at;
	const struct agent_settings *settings;
	struct cgroups cgroups;
	/* Counters of processes without series of their own, as long as they had none: see metrics.c. */
	struct process_sums {
		uint64_t calls, bytes, frees, freed_bytes;
	} rest;
	uint64_t held, held_max; /* profiles that are open, and how many may be */
	uint64_t batch_max;	 /* processes that may be read at once, for want of descriptors */
	uint64_t hidden;	 /* that may not be read */
	uint64_t refused;	 /* whose profiles are where no recorder makes any: mapped_file.h */
	uint64_t left_out;	 /* beyond max-processes */
};

void processes_init(struct processes *processes, const struct agent_settings *settings);
void processes_release(struct processes *processes);

/* Looks for new processes and for those that have ended (their `fate` changes); and for files of killed ones in the folders of
 * the settings. -1 with the error set if there is no /proc. */
int processes_scan(struct processes *processes, uint64_t now_ns, struct error *error);
/* Forgets those that are handled and have left no file, or whose file was removed. */
void processes_sweep(struct processes *processes);

/* Whether its profile is not held although it can be opened. */
bool process_is_unheld(const struct agent_process *process);
/* A descriptor of its profile, for a reading; the caller closes it. -1: it can only be read from its memory. False: it has ended,
 * or runs another program. */
bool process_borrow(const struct agent_process *process, int *ret_fd);

/* Returns true if the pid no longer maps this profile: the process has ended, or runs another program. */
bool process_is_replaced(const struct agent_process *process);

/* The process with that pid that runs; NULL: none. */
struct agent_process *processes_find(const struct processes *processes, pid_t pid);

/* Whether it was killed before its recorder had started: nothing is in its profile. */
bool process_is_empty(const struct agent_process *process);

/* Removes the file that it left, if that is still the one that was read. */
int process_remove_file(const struct agent_process *process, struct error *error);

/* "4f1d2c3b5a697887_1000": of this process and no other, also after a restart of the agent. */
struct process_key {
	char text[40];
};
struct process_key process_key(const struct agent_process *process);
/* "oom", "killed", "exited"; NULL: it runs. */
const char *process_fate_name(enum process_fate fate);

#endif

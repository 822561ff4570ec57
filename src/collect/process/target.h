/* SPDX-License-Identifier: Apache-2.0 */
/* One recorded process: its profile, its clock, and its data over time. */
#ifndef COLLECT_PROCESS_TARGET_H
#define COLLECT_PROCESS_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/checked.h"
#include "collect/kernel/cgroup.h"
#include "collect/kernel/procfs.h"
#include "collect/collect.h"
#include "collect/profile/live_profile.h"
#include "collect/binaries/loaded_files.h"
#include "collect/profile/marks.h"
#include "collect/profile/series.h"
#include "collect/process/pages.h"
#include "collect/process/sheet.h"
#include "collect/process/static_data.h"
#include "collect/process/triggers.h"
#include "format/live/live_budget.h"
#include "format/live/live_read.h"
#include "util/error.h"

/* On a busy machine the loop may be delayed by tens of milliseconds; a longer gap means that the clock was stopped. */
enum { STOPPED_MS = 50 };

struct target_thread {
	char name[16];							   /* empty = unknown */
	uint32_t tid;							   /* 0 = it has ended */
	uint64_t stack_reserved_bytes, stack_used_bytes, stack_most_bytes; /* 0 = unknown */
};

/* A snapshot requested from outside the program. */
struct target_request {
	char name[LIVE_TAG_TEXT_MAX + 1];
};

/* State at the time of a sample; a worker reads the rest. */
struct target_moment {
	bool usual;	   /* a periodic snapshot is due; else only requested ones are taken */
	bool reads_memory; /* a balance sheet is due */
	bool reads_image;  /* else only the sheet is read */
	bool scans;	   /* scans the sites for the conditions that need it */
	bool reads_pages;  /* a condition for that has become true */
	bool at_exit;	   /* it waits until the sample is taken, and exits then */
	const char *dump;  /* the condition that requested a recording meanwhile; NULL: none */
	uint64_t scan_ns;  /* duration of the last scan */
	struct snapshot_row snapshot;
	bool reads_sizes; /* of live blocks, if snapshots are asked for */
	struct memory_row memory;
	VECTOR(struct target_request) requests;
};

struct target {
	uint64_t id;   /* of its profile, chosen by the process; never 0 */
	pid_t pid;     /* in the collector's namespace; 0 = unknown */
	bool left_out; /* followed for the programs that it may exec, but not part of the recording */
	bool end_known; /* else its exit status may still become available */
	struct live_profile profile;
	uint64_t started_ns; /* CLOCK_MONOTONIC: zero of its clock */
	uint64_t ended_ns;   /* 0 while it is alive */
	int pid_fd;	     /* readable when it has ended; -1 = unknown */
	int statm_fd;
	struct live_totals totals; /* as last read */
	uint64_t rss_bytes, peak_rss_bytes, peak_file_bytes;
	uint64_t next_budget_ns; /* relative to started_ns */
	const struct cgroups *cgroups;
	struct cgroup_memory cgroup; /* as last read */
	bool cgroup_is_read;
	uint64_t memory_bytes;	 /* of the machine */
	uint64_t next_totals_ns; /* relative to started_ns */
	uint64_t stopped_ms;	 /* total time in which its clock was stopped */
	struct series series;
	const struct triggers *conditions;	 /* NULL: none were checked yet */
	struct trigger_state *triggers;		 /* by trigger; a worker owns those on sites */
	struct pressure pressure;		 /* as last read, if a condition needs it */
	uint64_t next_pressure_ns, next_scan_ns; /* relative to started_ns */
	struct procfs_system system;		 /* the same */
	uint64_t vm_bytes, next_system_ns;
	const char *dump; /* the condition that requests a recording; NULL: none */
	bool wants_pages; /* a condition for that has become true */
	VECTOR(struct target_request) requests; /* not passed to a worker yet */
	bool sampling; /* set while a worker owns some of the members below: target_sample.c */
	struct target_moment sample;
	struct snapshots snapshots;
	VECTOR(struct size_moment_row) size_moments; /* of snapshots that were asked for */
	uint64_t next_sizes_ns; /* earliest time to read them again; relative to started_ns */
	struct memories memories;
	struct pages_rows pages; /* as last read */
	uint64_t next_pages_ns;	 /* earliest time to read them again; relative to started_ns */
	struct recording image;	 /* taken when it was about to exit; all zero = none */
	struct error no_image;	 /* why there is none */
	struct error no_pages;	 /* why the last reading failed */
	struct loaded loaded;
	struct inherited inherited; /* if it is a fork */
	struct static_data static_data;
	mark_rows marks;
	size_t marks_read;	/* of the program's own; atomic: the loop polls for more */
	uint64_t next_marks_ns; /* earliest time to read more */
	VECTOR(struct target_thread) threads; /* later values replace earlier ones */
	uint64_t process_log_read;	      /* announcements read or lost: process_log.c */
	bool has_become;		      /* exec'd a program that has connected */
	uint64_t process_log_next
		[LIVE_STARTS]; /* by ring slot: the smallest serial not read yet; 0 = none was read */
	struct process_row known; /* pid, ppid, command, exe, end, exit code */
	char *seen_exe;		  /* its executable as in /proc: a change means exec */
};

/* Makes a target of a profile and a pidfd; takes ownership of both, also on failure. pid 0 and pid_fd -1: the process has
 * ended. `cgroups` must outlive it. */
struct target *target_new(struct live_profile *profile, pid_t pid, int pid_fd,
			  const struct cgroups *cgroups, struct error *error);
/* Sets the zero of its clock. */
void target_start(struct target *target, uint64_t started_ns, uint64_t now_ns);
void target_read_cgroup(struct target *target);
/* The same for a process that handed over its profile. */
struct target *target_take_over(struct live_profile *profile, pid_t pid, int pid_fd,
				const struct collect_options *options,
				const struct cgroups *cgroups, uint64_t run_start_ns,
				uint64_t now_ns, struct error *error);
void target_free(struct target *target);
/* The recorder's memory budget: fixed_bytes, or if that is 0 the default of live_budget.h. own_bytes: what it uses already. */
struct live_budget target_budget(uint64_t fixed_bytes, const struct cgroup_memory *cgroup,
				 uint64_t own_bytes);

/* A copy of the target in its present state for an encoder, without a profile. Must not be called during a sample. NULL if out
 * of memory. */
struct target *target_clone(const struct target *target);

/* Updates the clock. Cheap: one write. */
void target_tick(struct target *target, uint64_t now_ns);

/* Requests a snapshot; a worker takes it as soon as it can. */
void target_request(struct target *target, const char *name);
/* Requests snapshots, and recordings (target_take_dump), for the conditions that have become true. */
void target_check_triggers(struct target *target, const struct triggers *triggers, uint64_t now_ns);
/* Handles a condition that has become true. */
void target_fire(struct target *target, const struct trigger *trigger);
/* Whether the program or another requester wants a snapshot; if so, a worker must call target_sample_run. */
bool target_has_request(struct target *target, uint64_t now_ns);

/* Whether it waits for an image, or for its pages to be read, before it exits; if so, a worker must call target_sample_run. */
bool target_waits(struct target *target, uint64_t now_ns);

/* Returns the condition that requests a recording, once; NULL: none, or a sample is in progress. */
const char *target_take_dump(struct target *target);

/* Whether totals are due, and with them possibly a point of the series and a snapshot. */
bool target_is_due(const struct target *target, uint64_t now_ns);
/* budget_bytes as in collect_options. becomes: it may have called exec. True: a worker must call target_sample_run. */
bool target_sample(struct target *target, uint64_t now_ns, uint64_t budget_bytes, bool becomes);

/* target_sample.c: whether a scan of the sites is due; the start of a sample, in the loop; the slow part, in a worker; the last
 * sample, of a process that has ended. */
bool target_scan_is_due(const struct target *target, uint64_t at_ns);
void target_sample_prepare(struct target *target, uint64_t at_ns, bool usual, bool reads_memory);
void target_sample_run(struct target *target);
void target_sample_last(struct target *target);
static inline bool target_is_sampling(const struct target *target)
{
	return __atomic_load_n(&target->sampling, __ATOMIC_ACQUIRE);
}

/* Ends the target: adds a last point and the exit status. exit_code as in process_row. */
void target_ended(struct target *target, uint64_t now_ns, enum process_end end, uint32_t exit_code);

/* Queries the exit status of a process that is not our child; sets end_known if it is available. */
void target_ask_end(struct target *target);

/* Whether its recorder was initialized. */
bool target_is_ready(struct target *target);

/* Returns all data of the target as rows. run_start_ns is CLOCK_MONOTONIC, real_offset_ns CLOCK_REALTIME minus that. */
int target_rows(struct target *target, uint64_t now_ns, uint64_t run_start_ns,
		uint64_t real_offset_ns, struct process_rows *ret, struct error *error);

/* Certainly live at a moment of the last reading. */
static inline uint64_t target_least_live_bytes(const struct target *target)
{
	return saturating_sub(target->totals.live.bytes, target->totals.live.bytes_bound);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One recorded process: its memory, its clock, and what is kept about it over time. */
#ifndef COLLECT_PROCESS_TARGET_H
#define COLLECT_PROCESS_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/checked.h"
#include "collect/kernel/cgroup.h"
#include "collect/collect.h"
#include "collect/profile/live_profile.h"
#include "collect/binaries/loaded_files.h"
#include "collect/profile/marks.h"
#include "collect/profile/series.h"
#include "collect/process/sheet.h"
#include "collect/process/triggers.h"
#include "format/live/live_budget.h"
#include "format/live/live_read.h"
#include "util/error.h"

/* A busy machine lets the loop wait for tens of milliseconds; if the clock stands still for longer, it was stopped. */
enum { STOPPED_MS = 50 };

struct target_name {
	char text[16]; /* empty = not known */
};

/* A snapshot that was asked for from outside the program. */
struct target_request {
	char name[LIVE_TAG_TEXT_MAX + 1];
};

/* What is known at the moment of a sample; the rest of it takes time to read. */
struct target_moment {
	bool usual; /* a snapshot is due; else only what the program or somebody else asked for */
	bool reads_memory; /* a sheet is due */
	bool reads_image;  /* else the sheet is all */
	bool scans;	   /* at what each stack holds, for the conditions that ask that */
	const char *dump;  /* the condition that asked for a recording meanwhile; NULL: none */
	uint64_t scan_ns;  /* how long that took */
	struct snapshot_row snapshot;
	struct memory_row memory;
	VECTOR(struct target_request) requests;
};

struct target {
	uint64_t id; /* of its profile, as it chose it; never 0 */
	pid_t pid;   /* as the collector sees it; 0 = not known */
	bool left_out; /* followed for the programs that it may become, but no part of the recording */
	bool end_known; /* else the kernel may still tell how it ended */
	struct live_profile profile;
	uint64_t started_ns; /* CLOCK_MONOTONIC: the zero of its clock */
	uint64_t ended_ns;   /* 0 while it lives */
	int pid_fd;	     /* readable when it has ended; -1 = not known */
	int statm_fd;
	struct live_totals totals; /* the last ones read */
	uint64_t rss_bytes, peak_rss_bytes;
	uint64_t next_budget_ns; /* since its start */
	const struct cgroups *cgroups;
	struct cgroup_memory cgroup; /* as last read */
	bool cgroup_is_read;
	uint64_t memory_bytes;	 /* of the machine */
	uint64_t next_totals_ns; /* since its start */
	uint64_t stopped_ms;	 /* in which its clock stood still */
	struct series series;
	const struct triggers *conditions; /* NULL: none were checked yet */
	struct trigger_state *triggers;	   /* by trigger; those that ask of stacks are a worker's */
	struct pressure pressure;	   /* as last read, if a condition asks for it */
	uint64_t next_pressure_ns, next_scan_ns; /* since its start */
	const char *dump; /* the condition that asks for a recording now; NULL: none */
	VECTOR(struct target_request) requests; /* not given to a worker yet */
	bool sampling; /* a worker reads the members behind this; see target_sample.c */
	struct target_moment sample;
	struct snapshots snapshots;
	struct memories memories;
	struct loaded loaded;
	struct inherited inherited; /* of a fork */
	mark_rows marks;
	size_t marks_read; /* of the program's own; atomic: the loop polls whether there are more */
	uint64_t next_marks_ns;		  /* not before that */
	VECTOR(struct target_name) names; /* by thread; a later name replaces the first */
	uint64_t process_log_read;	  /* announcements that were read, or lost: process_log.c */
	bool has_become;		  /* another program, which was heard from */
	uint64_t process_log_next
		[LIVE_STARTS]; /* by entry of the ring: the least number not read; 0 = none was */
	struct process_row known; /* pid, ppid, command, exe, end, exit code */
	char *seen_exe;		  /* its file as /proc names it: another one is another program */
};

/* Makes a target of a profile and a descriptor, which are then the target's; also on failure. pid 0, and pid_fd -1: the process is
 * gone. `cgroups` outlives it. */
struct target *target_new(struct live_profile *profile, pid_t pid, int pid_fd,
			  const struct cgroups *cgroups, struct error *error);
/* The zero of its clock. */
void target_start(struct target *target, uint64_t started_ns, uint64_t now_ns);
void target_read_cgroup(struct target *target);
/* The same of a process that handed its profile over. */
struct target *target_take_over(struct live_profile *profile, pid_t pid, int pid_fd,
				const struct collect_options *options,
				const struct cgroups *cgroups, uint64_t run_start_ns,
				uint64_t now_ns, struct error *error);
void target_free(struct target *target);
/* What its recorder may take: the fixed size, or if that is 0 what live_budget.h says. own_bytes: what it has already. */
struct live_budget target_budget(uint64_t fixed_bytes, const struct cgroup_memory *cgroup,
				 uint64_t own_bytes);

/* A target of its own for the same process, as it is now, to be given to an encoder; it has no profile yet. Only while nothing
 * is sampled. NULL if out of memory. */
struct target *target_clone(const struct target *target);

/* Moves the clock. Cheap: one write. */
void target_tick(struct target *target, uint64_t now_ns);

/* Asks for a snapshot; it is taken as soon as a worker has time. */
void target_request(struct target *target, const char *name);
/* Those that conditions ask for, and recordings: see target_take_dump. */
void target_check_triggers(struct target *target, const struct triggers *triggers, uint64_t now_ns);
/* One has come true. */
void target_fire(struct target *target, const struct trigger *trigger);
/* Whether something was asked for, by the program or by others; then a worker is to call target_sample_run. */
bool target_is_asked(struct target *target, uint64_t now_ns);

/* The condition that asks for a recording, once; NULL: none does, or not while something is sampled. */
const char *target_take_dump(struct target *target);

/* Whether totals are due, and with them perhaps a point of the series and a snapshot. */
bool target_is_due(const struct target *target, uint64_t now_ns);
/* budget_bytes as in collect_options. becomes: it may have turned into another program by now. True: a worker is to call
 * target_sample_run. */
bool target_sample(struct target *target, uint64_t now_ns, uint64_t budget_bytes, bool becomes);

/* target_sample.c: whether conditions are to ask what stacks hold; the beginning of a sample, in the loop; what takes time, in a worker; the last one, of a process that has
 * ended. */
bool target_scan_is_due(const struct target *target, uint64_t at_ns);
void target_sample_prepare(struct target *target, uint64_t at_ns, bool usual, bool reads_memory);
void target_sample_run(struct target *target);
void target_sample_last(struct target *target);
static inline bool target_is_sampling(const struct target *target)
{
	return __atomic_load_n(&target->sampling, __ATOMIC_ACQUIRE);
}

/* It has ended: a last point, and how. exit_code as in process_row. */
void target_ended(struct target *target, uint64_t now_ns, enum process_end end, uint32_t exit_code);

/* Asks the kernel how a process that is not our child ended; sets end_known if it tells. */
void target_ask_end(struct target *target);

/* Whether its recorder got as far as recording. */
bool target_is_ready(struct target *target);

/* Everything about it as rows. run_start_ns is CLOCK_MONOTONIC, real_offset_ns CLOCK_REALTIME minus that. */
int target_rows(struct target *target, uint64_t now_ns, uint64_t run_start_ns,
		uint64_t real_offset_ns, struct process_rows *ret, struct error *error);

static inline uint64_t target_live_bytes(const struct target *target)
{
	return saturating_sub(target->totals.bytes, target->totals.freed_bytes);
}

#endif

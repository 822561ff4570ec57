/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one look at a process found: its numbers, its tags, its profile. Made in a child that reads data of other users, so
 * the agent believes none of it: a number is only a number, sizes are checked, and texts are sanitized where they are shown.
 */
#ifndef AGENT_READING_READING_H
#define AGENT_READING_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "collect/kernel/recorded_processes.h"
#include "util/error.h"

enum {
	READING_TEXT = 128,
	READING_TAGS_MAX = 200, /* the largest; the others are in the sum of the process */
	READING_HEALTH_MAX = 48,
	READING_LABELS_MAX = 30,
	READING_MODULES_MAX = 256,
	READING_BATCH_MAX = 64, /* processes that one child reads */
};

/* Which classes of resident memory. */
enum reading_class {
	READING_RSS,
	READING_HEAP,
	READING_ANONYMOUS,
	READING_STACK,
	READING_FILE,
	READING_SHARED,
	READING_SWAP,
	READING_RECORDER,
	READING_CLASSES,
};

/* Resident memory by class, from smaps. Reading that makes the process wait where it maps memory, and is a tenth of the cost of
 * a reading: while the resident bytes hardly change, the classes of before count, for a few readings. */
struct reading_memory {
	uint32_t known;		 /* not bool: any value may have been written */
	uint32_t age;		 /* readings ago; 0: of this one */
	uint64_t resident_bytes; /* by statm, when smaps was read */
	uint64_t bytes[READING_CLASSES];
};

struct reading_tag {
	char path[READING_TEXT];
	uint64_t live_bytes, live_blocks, bytes, calls;
};

struct reading_health {
	char name[48];
	uint64_t count;
};

/* A file whose code is on its stacks. */
struct reading_module {
	char build_id[132]; /* in hex */
	char path[RECORDED_PATH];
};

enum reading_status {
	READING_FAILED,	 /* `problem` says why */
	READING_NOTHING, /* it has ended, or has no profile of its own */
	READING_OTHER,	 /* it no longer is of the user that the child became: read it alone */
	READING_DONE,
};

struct reading {
	uint32_t status; /* enum reading_status */
	char problem[ERROR_MESSAGE_BYTES];
	char program[READING_TEXT], mode[16], allocator[40];
	uint64_t at_real_ns, started_real_ns, duration_ns;
	uint64_t calls, bytes, frees, freed_bytes, live_bytes, live_blocks, peak_bytes;
	double live_error; /* standard error of the estimate; 0: exact */
	uint64_t interval, samples, stacks, threads;
	uint64_t mmap_live_bytes, recorder_bytes;
	struct reading_memory memory;
	uint64_t
		unexplained_bytes; /* resident anonymous memory that recorded blocks cannot explain, at least */
	uint64_t cgroup_limit_bytes, cgroup_usage_bytes; /* limit 0: none */
	uint64_t profile_samples, folded_stacks, folded_bytes;
	uint64_t cpu_ns; /* cost of this reading */
	uint32_t health_count, tag_count, module_count;
	struct reading_health health[READING_HEALTH_MAX];
	/* After it: the tags, the modules, the profile, the baseline, the recording. */
	uint64_t pprof_bytes, baseline_bytes, recording_bytes;
	uint64_t left_out_recording_bytes; /* it would have been larger than max_recording_bytes */
};

/* What to read; `fd`s accompany it. */
struct reading_request {
	struct recorded recorded; /* pid 0: only the held profile */
	bool held;		  /* a descriptor of the profile is given */
	bool has_ended;		  /* read the held profile alone */
	bool has_baseline;
	bool wants_pprof, deltas, names;
	bool shows_allocations; /* pprof shows these first, not what is live */
	bool wants_modules;
	bool wants_recording; /* with the age of blocks, for a process that has ended */
	uint32_t uid, gid; /* what the reader becomes before it looks into the data; never root */
	bool reads_all_files; /* it is a process of root that is in no container */
	uint64_t max_samples, max_bytes;
	uint64_t max_recording_bytes;
	uint64_t interval_ns;
	uint64_t agent_began_ns; /* CLOCK_MONOTONIC */
	struct reading_memory memory_before;
	char version[32];
	char cache[RECORDED_PATH]; /* folder for names that were looked up; "": none */
	uint32_t label_count;
	struct {
		char key[64], value[READING_TEXT];
	} labels[READING_LABELS_MAX];
};

/* The descriptors belong to the reading; those of profile and baseline may be -1. */
struct reading_task {
	struct reading_request request;
	int profile_fd, baseline_fd, out;
};
/* Reads processes of one owner, one after another, and writes everything to their `out`. Never fails otherwise: the status says
 * what happened. The caller ends then: its privileges are given up. */
void reading_write_all(struct reading_task *tasks, size_t count);

/* What was written, checked: every size fits into the file. */
struct reading_parts {
	const struct reading *reading;
	const struct reading_tag *tags;
	const struct reading_module *modules;
	struct span pprof, baseline, recording;
};
bool reading_parse(struct span bytes, struct reading_parts *ret);

/* Brings the classes of an earlier reading up to date. False: they are to be read again. */
bool reading_memory_reuse(const struct reading_memory *before, uint64_t resident_bytes,
			  struct reading_memory *ret);

#endif

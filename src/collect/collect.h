/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches a program under the recorder, or attaches to a process that records itself, holds its profile while it runs, and
 * writes the recording when it has ended. One loop: not thread-safe, because signals and children belong to the process.
 */
#ifndef COLLECT_COLLECT_H
#define COLLECT_COLLECT_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/kernel/ranks.h"
#include "collect/process/triggers.h"
#include "format/live/live_header.h"
#include "format/recording/recording.h"
#include "util/error.h"

/* Data for the progress line: all live processes combined. */
struct collect_progress {
	uint64_t elapsed_ns;
	uint64_t live_bytes, peak_bytes;
	uint64_t calls_per_second;
	uint64_t rss_bytes;
	uint64_t processes; /* recorded ones that are alive */
	bool first_ended;   /* the program has ended, descendants are alive */
};

/* Which descendants are recorded besides the program itself. */
enum collect_children {
	COLLECT_CHILDREN_ALL,
	COLLECT_CHILDREN_FORK, /* forked children, but not the programs that they exec */
	COLLECT_CHILDREN_EXEC, /* programs that it starts, but not mere forks */
	COLLECT_CHILDREN_NONE,
};

/* A process that outlives the program. */
struct collect_survivor {
	pid_t pid;
	char name[32]; /* of its executable */
};
struct collect_survivors {
	struct collect_survivor *at;
	size_t count, capacity;
};

/* Reports an event during the run. A problem is shown even in quiet mode. */
typedef void collect_print(void *context, bool problem, const char *sentence);

#define COLLECT_WAIT_ALL UINT64_MAX

struct collect_result;

/* collect_attach uses only pid, sets_mode, output, version, options, mode, interval, duration_ns, the members about triggers, say, progress and
 * context. */
struct collect_options {
	char *const *argv; /* the program and its arguments, NULL-terminated; argv[0] is not NULL */
	pid_t pid;	   /* of the process to attach to; 0 = launch a program */
	bool sets_mode;	   /* set `mode` while attached; done for a dormant process in any case */
	/* A path, pattern or folder: run/output_path.h. NULL = heapgauge.PROGRAM.PID.hg, for a rank
	 * heapgauge.PROGRAM.rankN.PID.hg */
	const char *output;
	const char *recorder; /* path of libheapgauge.so, from recorder_find */
	const char *version;  /* of heapgauge */
	const char *options;  /* how this was configured, for the recording; NULL = unknown */
	char *own_code;	      /* the rule for own code; NULL = by the program's path */
	uint32_t depth_limit; /* maximum number of frames; 1..LIVE_DEPTH_MAX */
	bool python_domains;  /* record the allocators of Python as pools */
	bool free_sites;      /* record the stacks that free blocks */
	bool core;	      /* the profile is part of core files */
	/* Takes an image of a process that is about to exit and waits: image/image.h. NULL = none is wanted. */
	int (*image)(pid_t pid, struct recording *ret, struct error *error);
	uint64_t time_calls; /* time one call of the allocator in so many; 0 = none */
	bool python_tasks;   /* label allocations with their asyncio task */
	const char *
		otel_labels; /* keys of OpenTelemetry's thread context that label samples, separated by commas; NULL = none */
	uint32_t cpu_millionths; /* share of its CPU time that sampling may use; 0 = unlimited */
	uint64_t budget_bytes;	 /* 0 = the default of live_budget.h */
	enum collect_children children;
	struct ranks ranks;
	const regex_t
		*only_exe; /* record only processes whose executable's path matches; NULL = all */
	enum live_mode mode;
	bool begins_dormant; /* until the program, or another process, sets `mode` */
	uint64_t interval;   /* sampling interval in bytes; 0 = the recorder's default */
	uint64_t stack_least_bytes,
		stack_most_bytes; /* smaller and larger blocks get no stack; most 0 = no limit */
	const char *
		wraps; /* functions to record as pools: format/wraps.h, at most WRAPS_TEXT_MAX bytes; NULL = none */
	struct live_hooks hooks;  /* of an allocator inside the program; zeroed = none */
	struct triggers triggers; /* owned by the caller: when to take snapshots or to write */
	uint64_t duration_ns;	  /* recording stops after this time; 0 = at the end */
	unsigned write_limit;	  /* maximum number of recordings that they write */
	collect_print *say;	  /* NULL = no reports */
	const char *
		self; /* path of heapgauge's own executable, which is never recorded; NULL = not checked */
	/* Called about five times a second; NULL = never. */
	void (*progress)(void *context, const struct collect_progress *progress);
	uint64_t
		wait_ns; /* timeout for descendants after the program's end; COLLECT_WAIT_ALL = none */
	/* Called once, when the program has ended and heapgauge waits for these processes; NULL = never. */
	void (*lives_on)(void *context, pid_t program, const struct collect_survivors *who);
	/* Called when the recording has been written because of duration_ns, while the program runs on: collect_run then waits
	 * for its end. NULL = never. */
	void (*stopped)(void *context, struct collect_result *result);
	void *context;
	bool wants_recording; /* also in the result, unless it is large */
};

/* How the launched program ended. */
enum collect_end {
	COLLECT_EXITED,	   /* number is its status */
	COLLECT_SIGNALLED, /* number is the signal */
	COLLECT_LEFT, /* still alive: stopped by a signal, the second if launched; number is it, or 0 after duration_ns */
	COLLECT_NOT_STARTED, /* number is the exit status of a shell: 126 or 127; error has the reason */
};

struct collect_result {
	enum collect_end end;
	int number;
	bool recorded; /* else `reason` has the cause, and there is no file */
	char *path;    /* of the recording; NULL: it could not be written anywhere */
	/* Why it is not at the requested path; empty: it is. */
	char not_written[ERROR_MESSAGE_BYTES];
	/* The content of the file, if requested or if there is no file; without a process: unknown. */
	struct recording recording;
	uint64_t lost_processes;	    /* recorded, but could not be encoded */
	struct collect_survivors survivors; /* recorded up to the end of the run, then released */
	char reason[ERROR_MESSAGE_BYTES];
};

/*
 * Returns 0 if the program ran (even if nothing was recorded), or -1 with error set if it could not be started or the recording
 * could not be written; ret->end and ret->number are valid in both cases. The caller must always release ret.
 */
int collect_run(const struct collect_options *options, struct collect_result *ret,
		struct error *error);

/* The same for a process that records itself, which heapgauge did not start and which may outlive it. Returns when the process
 * has ended, or on a signal. ret->end is COLLECT_LEFT if it is still alive. */
int collect_attach(const struct collect_options *options, struct collect_result *ret,
		   struct error *error);
void collect_result_release(struct collect_result *result);

/* Finds libheapgauge.so: $HEAPGAUGE_RECORDER, or next to the running program, or in the lib folders of its prefix. The caller
 * frees the path. NULL with error set if there is none that can be read. */
char *recorder_find(struct error *error);

#endif

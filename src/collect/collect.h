/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a program under the recorder, or attaching to one that records itself, holding its memory while it runs, and writing
 * the recording when it has ended. One loop: nothing here may be called from two threads at once, because signals and children belong to the
 * process.
 */
#ifndef COLLECT_COLLECT_H
#define COLLECT_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/kernel/ranks.h"
#include "collect/process/triggers.h"
#include "format/live/live_header.h"
#include "format/recording/recording.h"
#include "util/error.h"

/* What the progress line shows: all living processes together. */
struct collect_progress {
	uint64_t elapsed_ns;
	uint64_t live_bytes, peak_bytes;
	uint64_t calls_per_second;
	uint64_t rss_bytes;
	uint64_t processes; /* living ones that are recorded */
	bool first_ended;   /* the program has ended; descendants live on */
};

/* Which descendants are recorded beside the program itself. */
enum collect_children {
	COLLECT_CHILDREN_ALL,
	COLLECT_CHILDREN_FORK, /* copies that it makes of itself, but no program that they become */
	COLLECT_CHILDREN_EXEC, /* programs that it starts, but no mere copies of itself */
	COLLECT_CHILDREN_NONE,
};

/* A process that lives on. */
struct collect_survivor {
	pid_t pid;
	char name[32]; /* of its program's file */
};
struct collect_survivors {
	struct collect_survivor *at;
	size_t count, capacity;
};

/* A sentence about what happens meanwhile. A problem is worth telling to those who want to hear nothing else. */
typedef void collect_say(void *context, bool problem, const char *sentence);

#define COLLECT_WAIT_ALL UINT64_MAX

/* Of those who attach to a process only some count: pid, sets_mode, output, version, mode, interval, what is about triggers, say,
 * progress and context. */
struct collect_options {
	char *const *argv; /* the program and its arguments, NULL at the end; argv[0] is not NULL */
	pid_t pid;	   /* of the process to attach to; 0 = a program is run */
	bool sets_mode; /* to `mode`, for as long as it is attached to; of a dormant one in any case */
	const char *
		output; /* NULL = heapgauge.PROGRAM.PID.hg, of a rank heapgauge.PROGRAM.rankN.PID.hg */
	const char *recorder;	 /* path of libheapgauge.so, as recorder_find gives it */
	const char *version;	 /* of heapgauge */
	uint32_t depth_limit;	 /* frames kept; 1..LIVE_DEPTH_MAX */
	bool python_domains;	 /* record the allocators of Python as pools */
	uint32_t cpu_millionths; /* of its processor time that samples may take; 0 = not limited */
	uint64_t budget_bytes;	 /* 0 = what live_budget.h says */
	enum collect_children children;
	struct ranks ranks;
	enum live_mode mode;
	bool begins_dormant; /* until the program, or somebody else, turns it to `mode` */
	uint64_t interval;   /* of samples, in bytes; 0 = the recorder's default */
	uint64_t stack_least_bytes,
		stack_most_bytes; /* smaller and larger blocks have no stack; most 0 = no limit */
	const char *
		wraps; /* functions to record as pools: format/wraps.h, at most WRAPS_TEXT_MAX bytes; NULL = none */
	struct triggers triggers; /* the caller's: when to take snapshots, or to write */
	unsigned write_limit;	  /* how many recordings they may write */
	collect_say *say;	  /* NULL = nobody listens */
	const char *
		self; /* path of heapgauge's own program, which is never recorded; NULL = does not matter */
	/* Called about five times a second; NULL = never. */
	void (*progress)(void *context, const struct collect_progress *progress);
	uint64_t
		wait_ns; /* for descendants, when the program has ended; COLLECT_WAIT_ALL = until they have */
	/* Called once, when the program has ended and these are waited for; NULL = never. */
	void (*lives_on)(void *context, pid_t program, const struct collect_survivors *who);
	void *context;
	bool wants_recording; /* in the result too, unless it is large */
};

/* How the program that was started ended. */
enum collect_end {
	COLLECT_EXITED,	   /* number is its status */
	COLLECT_SIGNALLED, /* number is the signal */
	COLLECT_LEFT, /* it lives on: the user asked twice to stop; number is the signal that asked */
	COLLECT_NOT_STARTED, /* number is the exit status that a shell would give: 126 or 127; error says why */
};

struct collect_result {
	enum collect_end end;
	int number;
	bool recorded; /* else `reason` says why nothing was, and there is no file */
	char *path;    /* of the recording; NULL: there was no room for it anywhere */
	/* Why it is not where it was to be; empty: it is. */
	char not_written[ERROR_MESSAGE_BYTES];
	/* What the file holds, if that was asked for or there is none; without a process: not known. */
	struct recording recording;
	uint64_t lost_processes;	    /* that were recorded but could not be written */
	struct collect_survivors survivors; /* recorded as they were at the end, and let go */
	char reason[ERROR_MESSAGE_BYTES];
};

/*
 * Returns 0 when the program ran (even if nothing was recorded), or -1 with error set if it could not be started or
 * the recording could not be written; ret->end and ret->number are valid then too. ret is always to be released.
 */
int collect_run(const struct collect_options *options, struct collect_result *ret,
		struct error *error);

/* The same of a process that records itself: nobody started it for us, and it lives on when we go. Until it has ended, or a signal
 * asks to stop. ret->end is COLLECT_LEFT if it lives on. */
int collect_attach(const struct collect_options *options, struct collect_result *ret,
		   struct error *error);
void collect_result_release(struct collect_result *result);

/* The path of libheapgauge.so (the caller's, free): $HEAPGAUGE_RECORDER, or beside the running program, or in the lib
 * folders of its prefix. NULL with error set if there is none that can be read. */
char *recorder_find(struct error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Data that a recorder writes about its process, so that the profile can be interpreted after the process has ended. Included
 * by format/live/live_header.h. */
#ifndef FORMAT_LIVE_LIVE_OWN_H
#define FORMAT_LIVE_LIVE_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/live/live_handover.h"

/* Where a profile is stored. */
enum live_kept {
	LIVE_KEPT_COLLECTOR = 0, /* a collector has a descriptor */
	LIVE_KEPT_FILE = 1,	 /* in a folder on a tmpfs: survives if the process is killed */
	LIVE_KEPT_MEMORY = 2,	 /* only in memory of the process */
};
enum live_begin { LIVE_BEGIN_START = 0, LIVE_BEGIN_FORK = 1 };

/* doc: live_own: of the process itself, as it sees it. Texts end with a zero, or fill their array. */
struct live_own {
	uint32_t kept;		   /* enum live_kept */
	uint32_t no_file;	   /* errno: why the requested folder was not used; 0 = none */
	uint64_t id;		   /* of this profile: random, never 0 */
	struct live_ticket ticket; /* of the log entry that announced the process; all 0 = none */
	struct live_secret secret; /* of its recording; all 0 = self-hosted */
	uint32_t ppid;
	uint32_t begin; /* enum live_begin */
	uint32_t rank;	/* in a parallel job, from 1; 0 = none */
	uint32_t pad0;
	uint64_t started_real_ns;    /* CLOCK_REALTIME */
	uint64_t cgroup_limit_bytes; /* the tightest at start-up; 0 = none or unknown */
	uint64_t oom_kills;	     /* earlier ones in its control group; ~0 = unknown */
	uint64_t pid_namespace;	     /* the inode of /proc/self/ns/pid; 0 = unknown */
	uint64_t pad[2];
	char host[64];
	char cgroup[192];   /* path of its group, in its own namespace */
	char exe[512];	    /* the executable */
	char command[1168]; /* arguments, separated by spaces */
};
_Static_assert(sizeof(struct live_own) == 2048, "on-disk size");

/* Profile files: heapgauge.PROGRAM.PID.SECONDS.live, where SECONDS is the start time. */
#define LIVE_FILE_PREFIX "heapgauge."
#define LIVE_FILE_SUFFIX ".live"
#define LIVE_ENV_DISABLE                                                                           \
	"HEAPGAUGE_DISABLE" /* set, and neither empty nor "0": disables recording */
/* value: of that variable; NULL: not set. */
static inline bool live_is_disabled(const char *value)
{
	return value != NULL && value[0] != 0 && !(value[0] == '0' && value[1] == 0);
}

#define LIVE_ENV_DIR "HEAPGAUGE_DIR"
#define LIVE_ENV_KEEP "HEAPGAUGE_KEEP" /* "1": keeps the file after a normal exit */
#define LIVE_ENV_MODE "HEAPGAUGE_MODE" /* exact (the default), tags, sample or dormant */
#define LIVE_ENV_INTERVAL "HEAPGAUGE_INTERVAL"
#define LIVE_ENV_DEPTH "HEAPGAUGE_DEPTH"
#define LIVE_ENV_BUDGET "HEAPGAUGE_BUDGET"
#define LIVE_ENV_EVERY "HEAPGAUGE_EVERY"	   /* "10s": a snapshot that often */
#define LIVE_ENV_WRAP "HEAPGAUGE_WRAP"		   /* format/wraps.h */
#define LIVE_ENV_PYTHON "HEAPGAUGE_PYTHON"	   /* "domains": its allocators as pools */
#define LIVE_ENV_TIME_CALLS "HEAPGAUGE_TIME_CALLS" /* how many calls each timed one stands for */
#define LIVE_ENV_FREE_SITES "HEAPGAUGE_FREE_SITES" /* "1": the stacks that free blocks */
#define LIVE_ENV_CORE "HEAPGAUGE_CORE"		   /* "1": the profile is part of core files */
#define LIVE_ENV_PYTHON_TASKS "HEAPGAUGE_PYTHON_TASKS" /* "1": its asyncio tasks as labels */
#define LIVE_ENV_OTEL_LABELS "HEAPGAUGE_OTEL_LABELS"   /* keys of OpenTelemetry's thread context */
#define LIVE_PYTHON_OBJECTS "python.object"	       /* the pool of Python's objects */

#endif

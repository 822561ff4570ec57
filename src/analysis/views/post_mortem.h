/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why processes ended, from the profiles they left: `heapgauge post-mortem`. Each is added with external evidence about its
 * end; only one profile is in memory at once.
 */
#ifndef ANALYSIS_VIEWS_POST_MORTEM_H
#define ANALYSIS_VIEWS_POST_MORTEM_H

#include "analysis/result/locations.h"
#include "analysis/result/result.h"
#include "util/error.h"

enum post_mortem_cause {
	CAUSE_UNKNOWN,
	CAUSE_OOM, /* according to the kernel log */
	CAUSE_OOM_NEARBY, /* the log is incomplete, and its control group has counted OOM kills since it began */
};

struct post_mortem {
	const char *path;	       /* path of the profile */
	const char *again;	       /* the command for further queries */
	const char *problem;	       /* why it cannot be read; NULL: it can be */
	const struct profile *profile; /* its first process is used; NULL with a problem */
	struct locations *locations;
	enum post_mortem_cause cause;
	const char *ended;	/* for people: time of the kill, or when last seen; NULL: unknown */
	uint64_t ended_real_ns; /* the same as a number; 0: unknown */
	uint64_t limit_bytes;	/* of its control group; 0: none */
	uint64_t oom_kills;	/* in its control group since it began; UINT64_MAX: unknown */
	struct post_mortem_pressure {
		uint64_t some_ns, full_ns; /* time that some or all tasks waited for memory ... */
		uint64_t within_ns; /* ... within this period until now; 0: unknown, or too old */
		bool of_group;	    /* else of the whole machine */
	} pressure;
	const char *group, *host;
};

struct post_mortems;

/* shown: the number of processes to report in sentences. NULL if out of memory. */
struct post_mortems *post_mortems_new(size_t shown);
void post_mortems_free(struct post_mortems *post_mortems);

/* Copies what it needs. Returns 1 if it is reported in sentences, else 0; -1 with the error set. */
int post_mortems_add(struct post_mortems *post_mortems, const struct post_mortem *one,
		     struct error *error);

/* running: number of live processes with a profile in the folder. `post_mortems` owns the result. NULL if out of
 * memory. */
const struct result *post_mortems_end(struct post_mortems *post_mortems, const char *folder,
				      size_t running, struct error *error);

#endif

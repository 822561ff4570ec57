/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why processes are gone, from the profiles that they left: `heapgauge post-mortem`. Each is added with what others know of
 * its end; only one profile has to be there at once.
 */
#ifndef ANALYSIS_VIEWS_POST_MORTEM_H
#define ANALYSIS_VIEWS_POST_MORTEM_H

#include "analysis/result/locations.h"
#include "analysis/result/result.h"
#include "util/error.h"

enum post_mortem_cause {
	CAUSE_UNKNOWN,
	CAUSE_OOM,	  /* the kernel's log says so */
	CAUSE_OOM_NEARBY, /* the OOM killer killed in its control group since it began */
};

struct post_mortem {
	const char *path;	       /* of the profile */
	const char *again;	       /* what to type to ask about it */
	const char *problem;	       /* why it cannot be read; NULL: it can */
	const struct profile *profile; /* its first process counts; NULL with a problem */
	struct locations *locations;
	enum post_mortem_cause cause;
	const char
		*ended; /* when, for people: of the kill, or when it was last seen; NULL: unknown */
	uint64_t ended_real_ns; /* the same; 0: unknown */
	uint64_t limit_bytes;	/* of its control group; 0: none */
	uint64_t oom_kills;	/* in its control group since it began; UINT64_MAX: not known */
	struct post_mortem_pressure {
		uint64_t some_ns, full_ns; /* that some or all tasks waited for memory ... */
		uint64_t within_ns; /* ... in so long until now; 0: not known, or too long ago */
		bool of_group;	    /* else of the machine */
	} pressure;
	const char *group, *host;
};

struct post_mortems;

/* shown: how many are told in sentences. NULL if out of memory. */
struct post_mortems *post_mortems_new(size_t shown);
void post_mortems_free(struct post_mortems *post_mortems);

/* Keeps nothing of what it is given. 1 if sentences report it, else 0; -1 with the error set. */
int post_mortems_add(struct post_mortems *post_mortems, const struct post_mortem *one,
		     struct error *error);

/* running: processes that have a profile in the folder and live. The result is the post_mortems'. NULL if out of memory. */
const struct result *post_mortems_end(struct post_mortems *post_mortems, const char *folder,
				      size_t running, struct error *error);

#endif

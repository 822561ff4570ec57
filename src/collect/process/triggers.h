/* SPDX-License-Identifier: Apache-2.0 */
/* When the collector takes snapshots or writes recordings on its own: periodically, on a condition, or on a signal. */
#ifndef COLLECT_PROCESS_TRIGGERS_H
#define COLLECT_PROCESS_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/recording/rows.h"
#include "util/error.h"
#include "util/vector.h"

enum trigger_kind {
	TRIGGER_EVERY,	/* limit is ns */
	TRIGGER_RSS,	/* bytes, or percent of the memory available to the process */
	TRIGGER_CGROUP, /* percent of the control group's limit */
	TRIGGER_LIVE,
	TRIGGER_CALLS,	  /* fires at each multiple */
	TRIGGER_SIGNAL,	  /* limit is the signal number */
	TRIGGER_PRESSURE, /* PSI "some": percent of time that some tasks stall on memory; avg10 */
	TRIGGER_PRESSURE_FULL, /* PSI "full": that all tasks stall */
	TRIGGER_SITE,	       /* live bytes of any single site */
	TRIGGER_GROWTH,	       /* growth in bytes of any single site within window_ns */
	TRIGGER_STACK,	       /* resident bytes of any single thread's stack */
	TRIGGER_VM,	       /* bytes of address space */
	TRIGGER_SYSTEM,	       /* percent of the machine's memory that is not available */
	TRIGGER_PEAK, /* of live bytes, each time that they or the RSS grew by a twentieth; only for pages */
	TRIGGER_END, /* always, since it is not known when the end comes; likewise */
};

struct trigger {
	enum trigger_kind kind;
	bool percent;
	bool writes;	  /* a recording, in addition to the snapshot */
	bool reads_pages; /* likewise */
	uint64_t limit;	  /* percent: in hundredths */
	uint64_t window_ns;
	const char *text; /* as given by the user */
};

struct triggers {
	VECTOR(struct trigger) list;
};

/* The syntax of --on, for messages and help. */
#define TRIGGER_WORDS                                                                              \
	"rss>80%, rss>2GiB, vm>8GiB, stack>1MiB, cgroup>90%, system>90%, pressure>20%, "           \
	"pressure-full>5%, live>2GiB, site>100MiB, growth>50MiB/min, calls>1M, every=10s or signal=USR2"

/* Parse "10s" of --every, and "rss>80%" of --on or, if it writes, --write-on. The text must outlive the triggers. -1 with the
 * error set. */
int triggers_every(struct triggers *triggers, const char *text, struct error *error);
int triggers_on(struct triggers *triggers, const char *text, bool writes, struct error *error);
/* The same for --pages-on, which also takes "peak" and "end". */
int triggers_pages_on(struct triggers *triggers, const char *text, struct error *error);
void triggers_release(struct triggers *triggers);
/* The name of its snapshots: the condition, cut to `bytes`. "10s" of --every is "every=10s", since on a chart a bare time would
 * read as that of the snapshot. */
void trigger_name(const struct trigger *trigger, char *ret, size_t bytes);

/* The first trigger of that kind; NULL: none. */
const struct trigger *triggers_find(const struct triggers *triggers, enum trigger_kind kind);
/* Whether any trigger needs the bytes of single sites, or a scan: of sites, or of stacks. */
bool triggers_ask_sites(const struct triggers *triggers);
bool triggers_ask_scan(const struct triggers *triggers);
bool triggers_write(const struct triggers *triggers);
bool triggers_read_pages(const struct triggers *triggers);

/* A number that is not known more exactly: a limit is exceeded if `least` is above it, and no longer if `most` is below. */
struct trigger_range {
	uint64_t least, most;
};
static inline struct trigger_range trigger_range_of(uint64_t number, uint64_t bound)
{
	return (struct trigger_range){ saturating_sub(number, bound),
				       saturating_add(number, bound) };
}

/* The present state of a process. */
struct trigger_input {
	uint64_t at_ns; /* since its start */
	struct trigger_range live_bytes;
	uint64_t rss_bytes, calls;
	uint64_t memory_bytes; /* available to it: the group's limit or the machine's memory */
	uint64_t group_limit_bytes, group_bytes; /* limit 0 = none */
	uint64_t some_pressure, full_pressure;	 /* hundredths of a percent */
	uint64_t vm_bytes, stack_bytes;		 /* the largest stack */
	uint64_t system_bytes, system_used_bytes;
};

/* State of one trigger for one site. */
struct trigger_site {
	uint64_t least
		[2]; /* minimum of its bytes in the current half of the window, and in the previous */
	bool fired;
};

/* State of one trigger for one process. Initially zero. */
struct trigger_state {
	uint64_t next, next_rss; /* the latter of a peak */
	bool fired;		 /* and has not dropped below since */
	VECTOR(struct trigger_site) sites;
};
void trigger_state_release(struct trigger_state *state);

/* Whether the trigger fires now; never for one on sites. For one on stacks, only after a scan. */
bool trigger_fires(const struct trigger *trigger, struct trigger_state *state,
		   const struct trigger_input *input);
/* Whether a trigger on sites fires, given the bytes of each (index = site). */
bool trigger_fires_by_site(const struct trigger *trigger, struct trigger_state *state,
			   const struct trigger_range *held, size_t count, uint64_t at_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* When snapshots are to be taken, or recordings written, without the program's doing: every so often, on a condition, on a
 * signal. */
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
	TRIGGER_RSS,	/* bytes, or with percent: of the memory that the process may have */
	TRIGGER_CGROUP, /* of the control group's limit */
	TRIGGER_LIVE,
	TRIGGER_CALLS,	/* at each multiple */
	TRIGGER_SIGNAL, /* limit is its number */
	TRIGGER_PRESSURE, /* how long some wait for memory, in percent; the kernel's average of 10 s */
	TRIGGER_PRESSURE_FULL, /* and how long all do */
	TRIGGER_SITE,	       /* live bytes of any one stack */
	TRIGGER_GROWTH, /* by how many bytes those of any one stack have grown, within window_ns at most */
};

struct trigger {
	enum trigger_kind kind;
	bool percent;
	bool writes;	/* a recording, beside the snapshot */
	uint64_t limit; /* percent: hundredths of one */
	uint64_t window_ns;
	const char *text; /* as it was given: the snapshot's name */
};

struct triggers {
	VECTOR(struct trigger) list;
};

/* What can be said with --on, for messages and help. */
#define TRIGGER_WORDS                                                                              \
	"rss>80%, rss>2GiB, cgroup>90%, pressure>20%, pressure-full>5%, live>2GiB, site>100MiB, "  \
	"growth>50MiB/min, calls>1M, every=10s or signal=USR2"

/* "10s" of --every, "rss>80%" of --on and, if it writes, --write-on. The text must outlive the triggers. -1 with the error
 * set. */
int triggers_every(struct triggers *triggers, const char *text, struct error *error);
int triggers_on(struct triggers *triggers, const char *text, bool writes, struct error *error);
void triggers_release(struct triggers *triggers);

/* The first of that kind; NULL: there is none. */
const struct trigger *triggers_find(const struct triggers *triggers, enum trigger_kind kind);
/* Whether what single stacks hold has to be known. */
bool triggers_ask_sites(const struct triggers *triggers);
bool triggers_write(const struct triggers *triggers);

/* What a process is like now. */
struct trigger_input {
	uint64_t at_ns; /* since its start */
	uint64_t rss_bytes, live_bytes, calls;
	uint64_t memory_bytes; /* what it may have: the group's limit or the machine's memory */
	uint64_t group_limit_bytes, group_bytes; /* limit 0 = none */
	uint64_t some_pressure, full_pressure;	 /* hundredths of a percent */
};

/* What one trigger remembers of one stack. */
struct trigger_site {
	int64_t least
		[2]; /* that it held in the present half of the window, and in the one before */
	bool fired;
};

/* What one trigger remembers of one process. Zeroed at first. */
struct trigger_state {
	uint64_t next;
	bool fired; /* and not gone back since */
	VECTOR(struct trigger_site) sites;
};
void trigger_state_release(struct trigger_state *state);

/* Whether the trigger fires now; never one that asks of stacks. */
bool trigger_fires(const struct trigger *trigger, struct trigger_state *state,
		   const struct trigger_input *input);
/* Whether one that asks of stacks does, by what each holds (index = site). */
bool trigger_fires_by_site(const struct trigger *trigger, struct trigger_state *state,
			   const struct snapshot_site *sites, size_t count, uint64_t at_ns);

#endif

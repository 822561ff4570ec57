/* SPDX-License-Identifier: Apache-2.0 */
/* When snapshots are to be taken without the program's doing: every so often, on a condition, on a signal. */
#ifndef COLLECT_TRIGGERS_H
#define COLLECT_TRIGGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"
#include "util/vector.h"

enum trigger_kind {
	TRIGGER_EVERY,	/* limit is ns */
	TRIGGER_RSS,	/* bytes, or with percent: of the memory that the process may have */
	TRIGGER_CGROUP, /* of the control group's limit */
	TRIGGER_LIVE,
	TRIGGER_CALLS,	/* at each multiple */
	TRIGGER_SIGNAL, /* limit is its number */
};

struct trigger {
	enum trigger_kind kind;
	bool percent;
	uint64_t limit;
	const char *text; /* as it was given: the snapshot's name */
};

struct triggers {
	VECTOR(struct trigger) list;
};

/* "10s" of --every, "rss>80%" of --on. The text must outlive the triggers. -1 with the error set. */
int triggers_every(struct triggers *triggers, const char *text, struct error *error);
int triggers_on(struct triggers *triggers, const char *text, struct error *error);
void triggers_release(struct triggers *triggers);

/* What a process is like now. */
struct trigger_input {
	uint64_t at_ns; /* since its start */
	uint64_t rss_bytes, live_bytes, calls;
	uint64_t memory_bytes; /* what it may have: the group's limit or the machine's memory */
	uint64_t group_limit_bytes, group_bytes; /* limit 0 = none */
};

/* What one trigger remembers of one process. Zeroed at first. */
struct trigger_state {
	uint64_t next;
	bool fired; /* and not gone back since */
};

/* Whether the trigger fires now. */
bool trigger_fires(const struct trigger *trigger, struct trigger_state *state,
		   const struct trigger_input *input);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words a person asks with, each defined once: costs, axes and moments. The rows are what
 * --cost, --by and --at accept, what the help, the man page and the page show, and the keys of the
 * JSON.
 */
#ifndef ANALYSIS_RESULT_VOCABULARY_H
#define ANALYSIS_RESULT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/result/result.h"
#include "util/error.h"

/* Everything that is known of a site or of any group of them. Signed: a difference may be negative. */
struct measures {
	int64_t live_bytes, live_blocks; /* at the moment asked for, minus the other one */
	int64_t total_bytes, calls, frees;
	int64_t temporary;    /* calls whose block was freed before the thread's next one */
	int64_t max_bytes;    /* the most that was ever live: of a group, an upper bound */
	int64_t waste_bytes;  /* usable minus requested, of all calls */
	int64_t lifetime_ms;  /* sum over the freed blocks */
	int64_t copied_bytes; /* by realloc, to where the block moved */
	int64_t realloc_calls;
	/* Of estimates; 0 of what was counted. They add up, as the numbers do. */
	struct {
		float live_bytes, live_blocks;
		float total_bytes, calls, frees;
		float temporary, max_bytes, waste_bytes;
		float lifetime_ms, copied_bytes, realloc_calls;
		float samples; /* how many there are; not a variance */
	} variance;
};
/* All of them, for what is done to each. */
#define MEASURES(X)                                                                                \
	X(live_bytes)                                                                              \
	X(live_blocks)                                                                             \
	X(total_bytes)                                                                             \
	X(calls)                                                                                   \
	X(frees)                                                                                   \
	X(temporary)                                                                               \
	X(max_bytes)                                                                               \
	X(waste_bytes)                                                                             \
	X(lifetime_ms)                                                                             \
	X(copied_bytes)                                                                            \
	X(realloc_calls)
void measures_add(struct measures *sum, const struct measures *part);

enum cost_id {
	COST_LIVE,
	COST_BLOCKS,
	COST_TOTAL,
	COST_CALLS,
	COST_TEMPORARY,
	COST_MAX,
	COST_WASTE,
	COST_LIFETIME,
	COST_REALLOC,
	COST_RATE,
	COST_COUNT,
};

struct cost_row {
	const char *name;
	const char *key;   /* "live_bytes" */
	const char *title; /* "LIVE" */
	enum result_unit unit;
	bool of_moment; /* --at and --minus mean something */
	bool adds_up;	/* the value of a group is the sum of its members' */
};
extern const struct cost_row cost_rows[COST_COUNT];

enum moment_kind { MOMENT_DEFAULT, MOMENT_PEAK, MOMENT_END, MOMENT_TIME, MOMENT_SNAP };

/* What --cost accepts: the costs, and short forms that say the moment too. Ends with a NULL name. */
struct cost_word {
	const char *name, *help;
	enum cost_id cost;
	enum moment_kind at; /* DEFAULT: not said */
};
extern const struct cost_word cost_words[];

/* The number of a cost; `duration_ns` is what a rate is over. */
int64_t cost_of(enum cost_id cost, const struct measures *measures, uint64_t duration_ns);
/* The mean of lifetimes whose sum may be more than 64 bits of ns: a thousand million blocks of ten seconds are. frees > 0. */
uint64_t mean_lifetime_ns(uint64_t sum_ms, uint64_t frees);
/* The variance of what cost_of tells. */
double cost_variance(enum cost_id cost, const struct measures *measures, uint64_t duration_ns);
/* The same as a value; with its sign shown if `change`. */
struct result_value cost_value(enum cost_id cost, const struct measures *measures,
			       uint64_t duration_ns, bool change);
/* The unit of the cost's column. */
enum result_unit cost_unit(enum cost_id cost, bool change);
/* For programs: "bytes", "ns", "per second", "count". */
const char *cost_unit_name(enum cost_id cost);

enum axis_id {
	AXIS_SITE,
	AXIS_FUNCTION,
	AXIS_LINE,
	AXIS_FILE,
	AXIS_MODULE,
	AXIS_THREAD,
	AXIS_SIZE,
	AXIS_TYPE,
	AXIS_PROCESS,
	AXIS_TAG,
	AXIS_POOL,
	AXIS_LABEL,
	AXIS_COUNT,
};

struct axis_row {
	const char *name, *help;
	const char *plural; /* the JSON key of the table */
	const char *title;
	bool of_frames; /* every frame of a stack has one: self and total differ */
};
/* Ends with a NULL name. */
extern const struct axis_row axis_rows[AXIS_COUNT + 1];

/* What --at and --minus accept; a name that ends in ':' wants something behind it. Ends with a NULL name. */
struct moment_word {
	const char *name, *help;
};
extern const struct moment_word moment_words[];

struct moment {
	enum moment_kind kind;
	uint64_t at_ns;	  /* TIME: since the start of the recording */
	uint64_t number;  /* SNAP: 1 is the first; 0: by name */
	const char *name; /* SNAP: as it was given; perhaps with "#2" behind it */
};

/* "live", and the short forms "peak" and "leaked", which also set the moment. -1 with the error set. */
int cost_parse(const char *text, enum cost_id *ret_cost, struct moment *ret_at,
	       struct error *error);
int axis_parse(const char *text, enum axis_id *ret, struct error *error);
/* "peak", "end", "time:1.5s", "snap:3". */
int moment_parse(const char *text, struct moment *ret, struct error *error);

#endif

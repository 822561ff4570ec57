/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terms of queries, each defined once: costs, axes and moments. The rows are what --cost, --by
 * and --at accept, what help, man page and web page show, and the JSON keys.
 */
#ifndef ANALYSIS_RESULT_VOCABULARY_H
#define ANALYSIS_RESULT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/result/result.h"
#include "util/error.h"

/* All numbers of a site or of any group of sites. Signed, because differences may be negative. */
struct measures {
	int64_t live_bytes, live_blocks; /* at the selected moment, minus the --minus one */
	int64_t total_bytes, calls, frees;
	int64_t temporary;    /* calls whose block was freed before the thread's next allocation */
	int64_t max_bytes;    /* maximum live bytes; for a group, an upper bound */
	int64_t waste_bytes;  /* usable minus requested bytes, over all calls */
	int64_t lifetime_ms;  /* sum over the freed blocks */
	int64_t copied_bytes; /* copied when realloc moved the block */
	int64_t realloc_calls;
	int64_t allocator_ns; /* in the allocator, for these blocks */
	/* Variances of estimates; 0 for exact counts. Additive, like the numbers. */
	struct {
		float live_bytes, live_blocks;
		float total_bytes, calls, frees;
		float temporary, max_bytes, waste_bytes;
		float lifetime_ms, copied_bytes, realloc_calls, allocator_ns;
		float samples; /* number of samples; not a variance */
	} variance;
};
/* X-macro over all members. */
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
	X(realloc_calls)                                                                           \
	X(allocator_ns)
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
	COST_TIME,
	COST_COUNT,
};

/* What --at and --minus do to a cost. */
enum cost_time {
	COST_OF_RUN,	/* nothing: it is known for the whole run only */
	COST_OF_MOMENT, /* live at that moment, or the difference of two */
	COST_OF_WINDOW, /* counted until --at, since --minus */
};
struct cost_row {
	const char *name;
	const char *key;   /* "live_bytes" */
	const char *title; /* "LIVE" */
	enum result_unit unit;
	enum cost_time time;
	bool adds_up; /* the value of a group is the sum over its members */
};
extern const struct cost_row cost_rows[COST_COUNT];

enum moment_kind { MOMENT_DEFAULT, MOMENT_PEAK, MOMENT_END, MOMENT_TIME, MOMENT_SNAP };

/* What --cost accepts: the costs, and short forms that also set the moment. Terminated by a NULL name. */
struct cost_word {
	const char *name, *help;
	enum cost_id cost;
	enum moment_kind at; /* DEFAULT: not set */
};
extern const struct cost_word cost_words[];

/* The number of a cost; a rate is per `duration_ns`. */
int64_t cost_of(enum cost_id cost, const struct measures *measures, uint64_t duration_ns);
/* The mean of lifetimes whose sum in ns may exceed 64 bits, as for two billion blocks of ten seconds. frees > 0. */
uint64_t mean_lifetime_ns(uint64_t sum_ms, uint64_t frees);
/* The variance of the result of cost_of. */
double cost_variance(enum cost_id cost, const struct measures *measures, uint64_t duration_ns);
/* The same as a value; shown with its sign if `change`. */
struct result_value cost_value(enum cost_id cost, const struct measures *measures,
			       uint64_t duration_ns, bool change);
/* The unit of the cost's column. */
enum result_unit cost_unit(enum cost_id cost, bool change);
/* For machine formats: "bytes", "ns", "per second", "count". */
const char *cost_unit_name(enum cost_id cost);

enum axis_id {
	AXIS_SITE,
	AXIS_OWN,
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
	AXIS_LANGUAGE,
	AXIS_ENTRY,
	AXIS_COUNT,
};

struct axis_row {
	const char *name, *help;
	const char *plural; /* the JSON key of the table */
	const char *title;
	bool of_frames; /* every frame of a stack has a value, so self and total differ */
};
/* Terminated by a NULL name. */
extern const struct axis_row axis_rows[AXIS_COUNT + 1];

/* What --at and --minus accept; a name that ends in ':' takes an argument. Terminated by a NULL name. */
struct moment_word {
	const char *name, *help;
};
extern const struct moment_word moment_words[];

struct moment {
	enum moment_kind kind;
	uint64_t at_ns;	  /* TIME: since the start of the recording */
	uint64_t number;  /* SNAP: counted from 1; 0: selected by name */
	const char *name; /* SNAP: as given, possibly with the suffix "#2" */
};

/* Parses a cost; the short forms "peak" and "leaked" also set the moment. -1 with the error set. */
int cost_parse(const char *text, enum cost_id *ret_cost, struct moment *ret_at,
	       struct error *error);
int axis_parse(const char *text, enum axis_id *ret, struct error *error);
/* "peak", "end", "time:1.5s", "snap:3". */
int moment_parse(const char *text, struct moment *ret, struct error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every analysis returns and every renderer takes: values that carry their unit.
 *
 * A result has a head (facts about the recording), sentences (the answer in words, for people), one
 * table and notes (what is missing or doubtful). The table has one of three shapes:
 *
 *   RESULT_TABLE   rows
 *   RESULT_TREE    rows in preorder; the first column is the depth
 *   RESULT_SERIES  rows in time; the first column is the moment
 *
 * or, where there may be a million of them, nodes of a tree column by column.
 *
 * Names of columns and fields are the keys of the JSON and never change their meaning; titles and
 * sentences are for people and may. Everything is in the result's arena, or lives as long as the
 * profile and the names it was made from.
 */
#ifndef ANALYSIS_RESULT_RESULT_H
#define ANALYSIS_RESULT_RESULT_H

#include <stdbool.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "util/arena.h"

enum result_unit {
	UNIT_TEXT,
	UNIT_ID, /* a number that is a name: pid, site */
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_NS,
	UNIT_RATE,	   /* per second */
	UNIT_COUNT_CHANGE, /* the same with their sign: differences */
	UNIT_BYTES_CHANGE,
	UNIT_NS_CHANGE,
	UNIT_BYTES_RATE, /* bytes per second, with their sign */
	UNIT_FLAG,
	UNIT_PERCENT,	/* for people only: machines have part and whole */
	UNIT_BAR,	/* the same as a bar, the whole as wide as the screen allows */
	UNIT_FRAMES,	/* a stack, leaf first */
	UNIT_SIZES,	/* bars [low, high] in bytes */
	UNIT_LIFETIMES, /* bars [low, high) in milliseconds */
	UNIT_FIELDS,	/* a record of named values */
	UNIT_SERIES,	/* numbers in the order of time; for people a line of small columns */
};

struct result_frame {
	uint32_t id;	      /* equal ids, equal frames; small */
	const char *function; /* in the style asked for; never NULL */
	const char *full;     /* with all its arguments; never NULL */
	const char *file;     /* NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	const char *module;   /* path; "": none */
	uint64_t offset;
	bool inlined, address_exact;
	bool runtime_frame; /* libc, runtimes, containers: not what a person looks for */
};
struct result_frames {
	const struct result_frame *const *at;
	size_t count;
};

struct result_bar {
	uint64_t low, high, count;
	float error; /* of the count, as result_value.error */
};
struct result_bars {
	const struct result_bar *at;
	size_t count;
};

struct result_numbers {
	const int64_t *at;
	size_t count;
	const float *errors; /* of each, as result_value.error; NULL: none */
};

struct result_share {
	uint64_t part, whole;
};

struct result_field;
struct result_fields {
	const struct result_field *at;
	size_t count;
};

struct result_value {
	enum result_unit unit;
	/* Of an estimate: its standard error, in the same unit; 0: it was counted. Renderers show it beside the number, to
	 * programs under the number's name with "_error" behind it. */
	float error;
	union {
		const char *text;	   /* TEXT; NULL: unknown */
		uint64_t number;	   /* ID, COUNT, BYTES, NS, RATE */
		int64_t change;		   /* *_CHANGE, BYTES_RATE */
		bool flag;		   /* FLAG */
		struct result_share share; /* PERCENT, BAR */
		struct result_frames frames;
		struct result_bars bars; /* SIZES, LIFETIMES */
		struct result_fields fields;
		struct result_numbers numbers; /* SERIES */
	};
};

struct result_field {
	const char *name;
	struct result_value value;
};

struct result_column {
	const char *name;  /* the key; NULL: for people only */
	const char *title; /* the heading; NULL: for machines only */
	enum result_unit unit;
};

/* A view's columns are a list X(id, what a column is made of): these make the ids of it, and the table. */
#define COLUMN_ID(id, ...) id,
#define COLUMN_ROW(id, ...) [id] = { __VA_ARGS__ },

enum result_shape { RESULT_TABLE, RESULT_TREE, RESULT_SERIES };

/*
 * A tree of very many nodes for a picture, in preorder, the heaviest of a node's children first: one array for each number.
 * What a node has is its own and its children's.
 */
struct result_nodes {
	const struct result_frame *names; /* id and line: 0 where they mean nothing */
	size_t name_count;
	const int32_t *name;	     /* by node: its name's index; -1: several that are not shown */
	const int32_t *parent;	     /* by node; -1: none */
	const int64_t *value, *self; /* by node: through it, and its own */
	const int64_t *before;	     /* of a comparison: what value was; else NULL */
	const float *value_error, *self_error; /* standard errors, of estimates; else NULL */
	size_t count;
};

struct result_table {
	const char *name; /* the key: what a row is, in the plural */
	enum result_shape shape;
	const struct result_column *columns;
	size_t column_count;
	const struct result_value *values; /* row by row */
	size_t row_count;
	const struct result_nodes *nodes;    /* instead of columns and values; NULL: none */
	bool machines_only;		     /* the sentences say it all: not shown to people */
	const struct result_value *left_out; /* what the limit hid, in words */
	size_t left_out_count;
};

/*
 * One line of the answer. Values are written one behind the other: texts as they are, numbers in
 * their unit. `more` stands in a column of its own to the right.
 */
struct result_sentence {
	const char *label; /* "peak"; NULL: a headline */
	const struct result_value *values;
	size_t value_count;
	const struct result_value *more;
	size_t more_count;
	bool aligned; /* the first value is a number of a column: right-aligned with the others */
};

struct result_note {
	uint64_t count; /* 0: the text says it all */
	const char *text;
};

struct result {
	struct arena arena;
	const char *view;
	struct result_fields head;
	const struct result_sentence *sentences;
	size_t sentence_count;
	struct result_table table;
	const struct result_note *notes;
	size_t note_count;
	bool shows_peak; /* of which an estimate has a bias that is worth a note */
};

void result_free(struct result *result);

static inline struct result_value value_text(const char *text)
{
	return (struct result_value){ .unit = UNIT_TEXT, .text = text };
}
/* Where a column has no value in some row. */
static inline struct result_value value_unknown(void)
{
	return value_text(NULL);
}
static inline struct result_value value_number(enum result_unit unit, uint64_t number)
{
	return (struct result_value){ .unit = unit, .number = number };
}
static inline struct result_value value_bytes(uint64_t bytes)
{
	return value_number(UNIT_BYTES, bytes);
}
static inline struct result_value value_count(uint64_t count)
{
	return value_number(UNIT_COUNT, count);
}
static inline struct result_value value_ns(uint64_t ns)
{
	return value_number(UNIT_NS, ns);
}
static inline struct result_value value_id(uint64_t id)
{
	return value_number(UNIT_ID, id);
}
static inline struct result_value value_change(enum result_unit unit, int64_t change)
{
	return (struct result_value){ .unit = unit, .change = change };
}
/* A number with what is known of its variance. A sum of several threads' may be less than 0: model/estimates.h. */
static inline struct result_value value_estimate(struct result_value value, double variance)
{
	value.error = (float)sqrt(fabs(variance));
	return value;
}
static inline struct result_value value_flag(bool flag)
{
	return (struct result_value){ .unit = UNIT_FLAG, .flag = flag };
}
static inline struct result_value value_percent(uint64_t part, uint64_t whole)
{
	return (struct result_value){ .unit = UNIT_PERCENT, .share = { part, whole } };
}

static inline struct result_value value_bar(uint64_t part, uint64_t whole)
{
	return (struct result_value){ .unit = UNIT_BAR, .share = { part, whole } };
}

#endif

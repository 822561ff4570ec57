/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The return value of every analysis and the input of every renderer: values that carry their unit.
 *
 * A result has a head (facts about the recording), sentences (the answer in words, for people), one
 * table, and notes (what is missing or doubtful). The table has one of three shapes:
 *
 *   RESULT_TABLE   rows
 *   RESULT_TREE    rows in preorder; the first column is the depth
 *   RESULT_SERIES  rows in time order; the first column is the moment
 *
 * Trees that may have a million nodes use one array per field instead (struct result_nodes).
 *
 * The names of columns and fields are JSON keys and never change their meaning; titles and
 * sentences are for people and may change. All data is in the result's arena, or lives as long as
 * the profile and names that the result was made from.
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
	UNIT_ID, /* an identifier: pid, site */
	UNIT_COUNT,
	UNIT_BYTES,
	UNIT_NS,
	UNIT_RATE,	   /* per second */
	UNIT_COUNT_CHANGE, /* signed variants, for differences */
	UNIT_BYTES_CHANGE,
	UNIT_NS_CHANGE,
	UNIT_BYTES_RATE, /* bytes per second, signed */
	UNIT_FLAG,
	UNIT_PERCENT,	/* for people only; machine formats have part and whole */
	UNIT_BAR,	/* a percentage as a bar; the whole spans the available width */
	UNIT_FRAMES,	/* a stack, leaf first */
	UNIT_SIZES,	/* histogram bars [low, high] in bytes */
	UNIT_LIFETIMES, /* histogram bars [low, high) in milliseconds */
	UNIT_FIELDS,	/* a record of named values */
	UNIT_SERIES,	/* numbers in time order; text output draws them as a sparkline */
	UNIT_PATH,	/* of references, from a root on; text output has it on a line of its own */
};

struct result_frame {
	uint32_t id;	      /* small; equal ids mean equal frames */
	const char *function; /* in the requested style; never NULL */
	const char *full;     /* with all template arguments and parameters; never NULL */
	const char *file;     /* NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	const char *module;   /* path; "": none */
	const char *language; /* "c++"; NULL: unknown */
	uint64_t offset;
	bool inlined, address_exact;
	bool runtime_frame; /* libc, runtimes, containers, allocation wrappers: rarely what the user looks for */
	bool own; /* the project's own code: model/frames/own_code.h */
};
struct result_frames {
	const struct result_frame *const *at;
	size_t count;
};

struct result_bar {
	uint64_t low, high, count;
	float error; /* standard error of the count */
};
struct result_bars {
	const struct result_bar *at;
	size_t count;
};

struct result_numbers {
	const int64_t *at;
	size_t count;
	const float *errors; /* standard error of each; NULL: none */
};
/* A root, or blocks that refer to the next one in the same way. */
struct result_step {
	const char *name, *type; /* NULL: left out; unknown */
	uint64_t site, blocks;	 /* both 0: a root */
	uint64_t offset;	 /* of the pointer to the next; UINT64_MAX: unknown */
};
struct result_path {
	const struct result_step *at;
	size_t count;
	const char *text;  /* all of it in words; NULL: there is none */
	const char *title; /* what it says of the row; NULL: the title of the column */
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
	/* The standard error of an estimate, in the same unit; 0 for an exact count. Text output prints it beside the
	 * number, machine formats under the number's name with the suffix "_error". */
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
		struct result_path path;
	};
};

struct result_field {
	const char *name;
	struct result_value value;
};

struct result_column {
	const char *name;  /* the JSON key; NULL: for people only */
	const char *title; /* the heading; NULL: for machine formats only */
	enum result_unit unit;
};

/* A view lists its columns as X(id, initializer): these macros expand the list to the ids and to the table. */
#define COLUMN_ID(id, ...) id,
#define COLUMN_ROW(id, ...) [id] = { __VA_ARGS__ },

enum result_shape { RESULT_TABLE, RESULT_TREE, RESULT_SERIES };

/*
 * A tree with very many nodes, for flame graphs: in preorder, the heaviest child first, one array per field. A node's value
 * includes its children's.
 */
struct result_nodes {
	const struct result_frame *names; /* id and line: 0 where they have no meaning */
	size_t name_count;
	const int32_t *name;	     /* by node: index of its name; -1: several nodes folded */
	const int32_t *parent;	     /* by node; -1: none */
	const int64_t *value, *self; /* by node: total and self */
	const int64_t *before;	     /* in a comparison: the old value; else NULL */
	const float *value_error, *self_error; /* standard errors of estimates; else NULL */
	size_t count;
};

struct result_table {
	const char *name; /* the JSON key: the plural noun for a row */
	enum result_shape shape;
	const struct result_column *columns;
	size_t column_count;
	const struct result_value *values; /* row by row */
	size_t row_count;
	const struct result_nodes *nodes;    /* replaces columns and values; NULL: none */
	bool machines_only;		     /* not in text output: the sentences already say it */
	const struct result_value *left_out; /* the rows omitted by the limit, in words */
	size_t left_out_count;
};

/* One line of the answer. Values are concatenated: texts verbatim, numbers in their unit. `more` is a separate column on the right. */
struct result_sentence {
	const char *label; /* "peak"; NULL: a headline */
	const struct result_value *values;
	size_t value_count;
	const struct result_value *more;
	size_t more_count;
	bool aligned; /* the first value is a number, right-aligned with those of other lines */
};

struct result_note {
	uint64_t count; /* 0: the text needs no count */
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
	bool shows_peak; /* its estimate has a bias that deserves a note */
};

void result_free(struct result *result);

static inline struct result_value value_text(const char *text)
{
	return (struct result_value){ .unit = UNIT_TEXT, .text = text };
}
/* The value of a cell that has none. */
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
/* A number with its variance. The variance of a sum over threads may be negative: see model/estimates.h. */
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

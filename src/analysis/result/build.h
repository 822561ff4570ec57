/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the views share for building a result. They allocate from the result's arena. */
#ifndef ANALYSIS_RESULT_BUILD_H
#define ANALYSIS_RESULT_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/analyses.h"
#include "analysis/result/result.h"

#include "model/estimates.h"
#include "util/vector.h"

/* A column whose values are read from a struct of the model. */
enum source_type {
	FROM_VIEW, /* the view fills in the value */
	FROM_U64,
	FROM_U32,
	FROM_BOOL,
	FROM_TEXT,
};
struct source_column {
	struct result_column column;
	enum source_type type;
	size_t offset;
	enum variance_rule rule; /* how the variance of an estimate is computed */
};

/* Returns the column's value in the struct at `base`; an empty value for FROM_VIEW. */
struct result_value source_value(const struct source_column *column, const void *base);
/* The same with its standard error, derived from the numbers that it is part of. */
struct result_value source_estimate(const struct source_column *column, const void *base,
				    const struct site_numbers *numbers);
/* A number with its standard error, derived in the same way. */
struct result_value value_part(enum result_unit unit, uint64_t number, enum variance_rule rule,
			       const struct site_numbers *numbers);

/*
 * Creates a result with the head that every view has: view, file, run, the peak of all processes,
 * warnings, sampling. Returns NULL if out of memory.
 */
struct result *result_begin(const char *view, const struct profile *profile,
			    const struct query *query, size_t extra_fields);
/* Adds one of the `extra_fields`. */
void result_head_add(struct result *result, const char *name, struct result_value value);

/* Extracts the columns for renderers. Returns NULL if out of memory. */
struct result_column *result_columns(struct result *result, const struct source_column *sources,
				     size_t count);

/* Fills one row of a table; false if out of memory. */
typedef bool row_filler(void *context, size_t index, struct result_value *row);
/* Creates the result's table: copies the columns and calls `fill` for every row. False if out of memory. */
bool result_fill(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, row_filler *fill, void *context);
/* The same for existing rows, which are copied too. */
bool result_take(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, const struct result_value *values);
/* Returns the result if `done`. Otherwise frees it, sets the out-of-memory error and returns NULL. */
struct result *result_end(struct result *result, bool done, struct error *error);

/* Converts notes to fields, {name: count}. False if out of memory. */
bool notes_value(struct result *result, struct profile_notes notes, struct result_value *ret);

/* The first note if no call was recorded at all: the likely reason. */
const char *nothing_recorded(const struct profile *profile);

/* "... 3 more sites (--limit N shows more)"; a no-op if the count is 0. False if out of memory. */
bool result_left_out(struct result *result, size_t count, const char *singular, const char *plural);

/* Collects the notes of the file and of all processes, without duplicates, after `first` (may be NULL). Notes about
 * missing names follow if `locations` is not NULL; NULL means that no frames were shown. False if out of memory. */
bool result_notes(struct result *result, const struct profile *profile, struct locations *locations,
		  const char *first);

/* The stack of a site as a value. False if out of memory. */
bool stack_value(struct result *result, struct locations *locations,
		 const struct profile_process *process, node_id node, struct result_value *ret);

/* A location as "Cache::insert (cache.cc:88)"; in the arena; NULL if out of memory. */
const char *location_label(struct result *result, const struct location *location);

/* Returns the stack's owner: the most informative frame (see locations.h). NULL for the empty stack or if
 * out of memory. */
const struct location *stack_owner(struct locations *locations,
				   const struct profile_process *process, node_id node);
/* The owner's label. NULL if out of memory. */
const char *stack_label(struct result *result, struct locations *locations,
			const struct profile_process *process, node_id node);

/* Finds the site with the most live bytes: its label and its bytes. Leaves both unchanged if nothing is live. Returns -1
 * with the error set on failure. */
int top_live(struct result *result, const struct profile *profile, struct locations *locations,
	     struct result_value *ret_label, struct result_value *ret_bytes, struct error *error);

/* The fields that describe a selection in every view: its cost, its moment, and how much of the total is shown. */
struct selection;
enum { SELECTION_FIELDS = 9 }; /* extra fields of the head */
bool selection_fields(struct result *result, const struct selection *selection);
/* The first line: file, run and the sum of the cost; plus a second line if filters hide anything. */
bool selection_headline(struct result *result, const struct profile *profile,
			const struct query *query, const struct selection *selection);
/* The same line, as the first of several sentences. */
struct sentences;
void selection_describe(struct sentences *sentences, const struct query *query,
			const struct selection *selection);
/* The notes of the profile, of missing names, and of a cost that is not additive. */
bool selection_notes(struct result *result, const struct profile *profile,
		     struct locations *locations, const struct selection *selection);

/* Copies a column title into the arena so that it outlives the selection; "?" if out of memory. */
const char *title_of(struct result *result, const char *title);

/* Collects the values of a sentence. */
struct words {
	VECTOR(struct word) list;
	bool failed;
};
struct word {
	struct result_value value;
	size_t holes; /* of a text: the number of following values that replace its {} */
};
void words_add(struct words *words, struct result_value value);
void words_text(struct words *words, const char *text);
/* "{} in {} blocks", followed by one value for each {}. The text must live until words_take. */
#define text_format(words, text, ...)                                                              \
	words_fill((words), (text), (const struct result_value[]){ __VA_ARGS__ },                  \
		   sizeof((const struct result_value[]){ __VA_ARGS__ }) /                          \
			   sizeof(struct result_value))
void words_fill(struct words *words, const char *text, const struct result_value *values,
		size_t count);
/* " at 2.0 ms" since the start of the recording, as for all times shown to users. The clock of a process ticks every millisecond: events
 * before its first tick have no time. at_ns counts from the start of the process. */
void words_time(struct words *words, const struct profile_process *process, uint64_t at_ns);
/* Moves the values into the arena; NULL if out of memory. */
const struct result_value *words_take(struct words *words, struct arena *arena, size_t *ret_count);
/* Shortens a long command to its beginning, for use within a line. In the arena; NULL if out of memory. */
const char *command_short(struct arena *arena, const char *command);
/* "exited with status 3"; in the arena; NULL if out of memory. */
const char *process_end_text(struct arena *arena, const struct profile_process *process);
/* Returns the process with the highest peak; NULL if there is no process. */
const struct profile_process *process_largest(const struct profile *profile);

/* "./server --config small.conf exact ": the start of the first line of every view except the summary. */
void words_headline(struct words *words, struct result *result, const struct profile *profile);
/* A number with its unit noun: "1 block" from " block" and " blocks". */
void words_count(struct words *words, uint64_t count, const char *singular, const char *plural);
/* The same for a number with a variance. */
void words_estimate(struct words *words, uint64_t count, double variance, const char *singular,
		    const char *plural);
/* "853.1 KiB/s in 2 sites" */
struct growth;
void words_growth(struct words *words, const struct growth *growth);
/* "; up to 64.0 MiB of mappings are not judged"; nothing for 0 bytes. */
void words_unjudged_mappings(struct words *words, uint64_t bytes);

/* Collects the sentences of a result. Empty if zeroed except for `result`. */
struct sentences {
	struct result *result;
	VECTOR(struct result_sentence) list;
	bool failed;
};
/* Label NULL: a headline; "": continues the previous sentence. `more` may be NULL. Takes ownership of both. */
void sentences_add(struct sentences *sentences, const char *label, struct words *words,
		   struct words *more);
/* Moves the sentences into the result and releases the rest; false if anything failed. */
bool sentences_end(struct sentences *sentences);

#endif

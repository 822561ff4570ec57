/* SPDX-License-Identifier: Apache-2.0 */
/* What the views share while they make a result. All of it goes into the result's arena. */
#ifndef ANALYSIS_RESULT_BUILD_H
#define ANALYSIS_RESULT_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/analyses.h"
#include "analysis/result/result.h"

#include "model/estimates.h"
#include "util/vector.h"

/* A column whose values lie in a struct of the model. */
enum source_type {
	FROM_VIEW, /* the view fills it in itself */
	FROM_U64,
	FROM_U32,
	FROM_BOOL,
	FROM_TEXT,
};
struct source_column {
	struct result_column column;
	enum source_type type;
	size_t offset;
	enum variance_rule rule; /* of a number: how far it may be off if it is an estimate */
};

/* The value of a column in the struct at base; nothing for FROM_VIEW. */
struct result_value source_value(const struct source_column *column, const void *base);
/* The same with its standard error, as a part of these numbers. */
struct result_value source_estimate(const struct source_column *column, const void *base,
				    const struct site_numbers *numbers);
/* A number with its standard error, as such a part. */
struct result_value value_part(enum result_unit unit, uint64_t number, enum variance_rule rule,
			       const struct site_numbers *numbers);

/*
 * A result with its head: file, run, the peak of all processes and the warnings. Both are keys of
 * every view. NULL if out of memory.
 */
struct result *result_begin(const char *view, const struct profile *profile,
			    const struct query *query, size_t extra_fields);
/* Adds one of the extra fields. */
void result_head_add(struct result *result, const char *name, struct result_value value);

/* The columns, as the renderers take them; NULL if out of memory. */
struct result_column *result_columns(struct result *result, const struct source_column *sources,
				     size_t count);

/* Fills one row of a table; false if out of memory. */
typedef bool row_filler(void *context, size_t index, struct result_value *row);
/* The result's table: a copy of the columns, and its rows. False if out of memory. */
bool result_fill(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, row_filler *fill, void *context);
/* The same with rows that are there already, and are copied too. */
bool result_take(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, const struct result_value *values);
/* The result, if all of it was made. Else it is freed, memory has run out, and there is none: NULL. */
struct result *result_end(struct result *result, bool done, struct error *error);

/* Fields for notes: {name: count}. False if out of memory. */
bool notes_value(struct result *result, struct profile_notes notes, struct result_value *ret);

/* The first note where no call was recorded at all: why that may be. */
const char *nothing_recorded(const struct profile *profile);

/* "... 3 more sites (--limit N shows more)"; nothing if the count is 0. False if out of memory. */
bool result_left_out(struct result *result, size_t count, const char *singular, const char *plural);

/* Notes of the file and of all processes together, each once; `first` (may be NULL) comes before, and behind them what the
 * locations (NULL: none were shown) could not be named by. False if out of memory. */
bool result_notes(struct result *result, const struct profile *profile, struct locations *locations,
		  const char *first);

/* The stack of a site as a value. False if out of memory. */
bool stack_value(struct result *result, struct locations *locations,
		 const struct profile_process *process, node_id node, struct result_value *ret);

/* A location as "Cache::insert (cache.cc:88)"; in the arena; NULL if out of memory. */
const char *location_label(struct result *result, const struct location *location);

/* The stack's owner: the frame that says most to a person. NULL for the empty stack, or if out of memory. */
const struct location *stack_owner(struct locations *locations,
				   const struct profile_process *process, node_id node);
/* Its label. NULL if out of memory. */
const char *stack_label(struct result *result, struct locations *locations,
			const struct profile_process *process, node_id node);

/* The site that holds most now: its label and what it holds. Both stay as they are if none holds anything. -1 with the error
 * set. */
int top_live(struct result *result, const struct profile *profile, struct locations *locations,
	     struct result_value *ret_label, struct result_value *ret_bytes, struct error *error);

/* What every view of a selection says of it: which cost, which moment, how much is shown of how much. */
struct selection;
enum { SELECTION_FIELDS = 9 }; /* extra fields of the head */
bool selection_fields(struct result *result, const struct selection *selection);
/* The first line: the file, the run, and the sum of the cost; a second one if filters hide something. */
bool selection_headline(struct result *result, const struct profile *profile,
			const struct query *query, const struct selection *selection);
/* The same as the first of more sentences. */
struct sentences;
void selection_say(struct sentences *sentences, const struct query *query,
		   const struct selection *selection);
/* Notes of the profile, of names that are missing, and of a cost that does not add up. */
bool selection_notes(struct result *result, const struct profile *profile,
		     struct locations *locations, const struct selection *selection);

/* A column's title that outlives the selection: in the arena; "?" if out of memory. */
const char *title_of(struct result *result, const char *title);

/* Collects the values of a sentence. */
struct words {
	VECTOR(struct word) list;
	bool failed;
};
struct word {
	struct result_value value;
	size_t holes; /* of a text: how many of the values behind it stand in its {} */
};
void words_add(struct words *words, struct result_value value);
void words_text(struct words *words, const char *text);
/* "{} in {} blocks", with the values that stand in its {}: one each. The text must live until the words are taken. */
#define words_say(words, text, ...)                                                                \
	words_fill((words), (text), (const struct result_value[]){ __VA_ARGS__ },                  \
		   sizeof((const struct result_value[]){ __VA_ARGS__ }) /                          \
			   sizeof(struct result_value))
void words_fill(struct words *words, const char *text, const struct result_value *values,
		size_t count);
/* " at 2.0 ms" since the start of the recording, as all times that people are told. The clock of a process ticks every millisecond: what came
 * before its first tick has no time. at_ns: since the process' start. */
void words_time(struct words *words, const struct profile_process *process, uint64_t at_ns);
/* Moves the values into the arena; NULL if out of memory. */
const struct result_value *words_take(struct words *words, struct arena *arena, size_t *ret_count);
/* A command for a line of text: its beginning if it is long. In the arena; NULL if out of memory. */
const char *command_short(struct arena *arena, const char *command);
/* "exited with status 3"; in the arena; NULL if out of memory. */
const char *process_end_text(struct arena *arena, const struct profile_process *process);
/* The one with the highest peak; NULL: there is none. */
const struct profile_process *process_largest(const struct profile *profile);

/* "./server --config small.conf  exact  ", how the first line of every view but the summary begins. */
void words_headline(struct words *words, struct result *result, const struct profile *profile);
/* A number and what it counts: "1 block" of " block" and " blocks". */
void words_count(struct words *words, uint64_t count, const char *singular, const char *plural);
/* The same of a number with a variance. */
void words_estimate(struct words *words, uint64_t count, double variance, const char *singular,
		    const char *plural);
/* "853.1 KiB/s in 2 sites" */
struct growth;
void words_growth(struct words *words, const struct growth *growth);

/* Collects the sentences of a result. Zeroed but for `result` is empty. */
struct sentences {
	struct result *result;
	VECTOR(struct result_sentence) list;
	bool failed;
};
/* Label NULL: a headline; "": goes on with the one before. `more` may be NULL. Takes both. */
void sentences_add(struct sentences *sentences, const char *label, struct words *words,
		   struct words *more);
/* Moves them into the result and releases the rest; false if anything failed. */
bool sentences_end(struct sentences *sentences);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of `heapgauge list`: the live memory of each process and its top site. The peak, the calls and the
 * recorder's memory are for machine formats. A problem is a value of the row, and a note for people.
 *
 * Owns its result; also rows and notes until they are moved into it.
 */
#include "analysis/views/listing.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/result/process_rows.h"
#include "util/vector.h"

#define COLUMN_LIST(X)                                                                             \
	X(PID, "pid", "PID", UNIT_ID)                                                              \
	X(PROGRAM, "program", "PROGRAM", UNIT_TEXT)                                                \
	X(COMMAND, "command", NULL, UNIT_TEXT)                                                     \
	X(MODE, "mode", "MODE", UNIT_TEXT)                                                         \
	X(LIVE, "live_bytes", "LIVE", UNIT_BYTES)                                                  \
	X(BLOCKS, "live_blocks", NULL, UNIT_COUNT)                                                 \
	X(PEAK, "peak_bytes", NULL, UNIT_BYTES)                                                    \
	X(CALLS, "calls", NULL, UNIT_COUNT)                                                        \
	X(RSS, "rss_bytes", NULL, UNIT_BYTES)                                                      \
	X(RECORDER, "recorder_bytes", NULL, UNIT_BYTES)                                            \
	X(TOP_BYTES, "top_site_bytes", NULL, UNIT_BYTES)                                           \
	X(TOP, "top_site", "TOP SITE", UNIT_TEXT)                                                  \
	X(CONTAINER, "container", "CONTAINER", UNIT_TEXT)                                          \
	X(KEPT, "profile_storage", NULL, UNIT_TEXT)                                                \
	X(PROBLEM, "problem", NULL, UNIT_TEXT)
enum column { COLUMN_LIST(COLUMN_ID) COLUMNS };
static const struct result_column columns[COLUMNS] = { COLUMN_LIST(COLUMN_ROW) };

struct listing {
	struct result result; /* its arena has the texts */
	VECTOR(struct result_value) values;
	VECTOR(struct result_note) notes;
	bool failed; /* out of memory */
};

struct listing *listing_new(void)
{
	return calloc(1, sizeof(struct listing));
}

void listing_free(struct listing *listing)
{
	if (!listing)
		return;
	arena_release(&listing->result.arena);
	vector_release(&listing->values);
	vector_release(&listing->notes);
	free(listing);
}

static struct result_value keep(struct listing *listing, const char *text)
{
	const char *kept = text ? arena_strdup(&listing->result.arena, text) : NULL;

	listing->failed = listing->failed || (text && !kept);
	return value_text(kept);
}

static void add_note(struct listing *listing, uint64_t count, const char *text)
{
	struct result_note note = { count, keep(listing, text).text };

	listing->failed = !vector_push(&listing->notes, note) || listing->failed;
}

static int fill_numbers(struct listing *listing, const struct listed *one, struct result_value *row,
			struct error *error)
{
	const struct profile_process *process = &one->profile->processes[0];

	row[MODE] = keep(listing, one->mode ? one->mode : process->mode);
	const struct site_numbers *n = &process->sums;

	row[LIVE] = value_part(UNIT_BYTES, process->live_bytes, VARIANCE_LIVE_BYTES, n);
	row[BLOCKS] = value_part(UNIT_COUNT, process->live_blocks, VARIANCE_LIVE_BLOCKS, n);
	row[PEAK] = value_part(UNIT_BYTES, process->peak_bytes, VARIANCE_PEAK_BYTES, n);
	row[CALLS] = value_all_calls(process);
	row[RSS] = value_bytes(process->rss_bytes);
	row[RECORDER] = value_bytes(process->own_bytes);
	return top_live(&listing->result, one->profile, one->locations, &row[TOP], &row[TOP_BYTES],
			error);
}

/* Warns before a service is killed that has a folder for its profile but no profile in it. */
static void note_unkept(struct listing *listing, const struct listed *one)
{
	const struct profile_process *process = &one->profile->processes[0];
	const char *text;

	for (size_t i = 0; i < process->health.count; i++) {
		if (strcmp(process->health.at[i].name, "unkept") != 0)
			continue;
		text = arena_printf(&listing->result.arena, "%s (pid %d): %s", one->program,
				    (int)one->pid, process->health.at[i].text);
		if (text)
			add_note(listing, 0, text);
		listing->failed = listing->failed || !text;
	}
}

int listing_add(struct listing *listing, const struct listed *one, struct error *error)
{
	struct result_value *row = vector_reserve(&listing->values, COLUMNS)
					   ? listing->values.at + listing->values.count
					   : NULL;

	if (!row)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < COLUMNS; i++)
		row[i] = value_unknown();
	row[PID] = value_id((uint64_t)one->pid);
	row[PROGRAM] = keep(listing, one->program);
	row[COMMAND] = keep(listing, one->command);
	row[CONTAINER] = keep(listing, one->container);
	row[KEPT] = keep(listing, one->kept);
	row[PROBLEM] = keep(listing, one->problem);
	if (one->profile && one->profile->process_count &&
	    fill_numbers(listing, one, row, error) < 0)
		return -1;
	if (one->profile && one->profile->process_count)
		note_unkept(listing, one);
	if (one->problem)
		add_note(listing, 0, one->problem);
	listing->values.count += COLUMNS;
	return 0;
}

const struct result *listing_end(struct listing *listing, size_t hidden, struct error *error)
{
	struct result *result = &listing->result;

	if (listing->values.count == 0)
		add_note(listing, 0,
			 "no process here is recorded: start one with 'heapgauge record PROGRAM'");
	if (hidden)
		add_note(listing, hidden,
			 hidden == 1
				 ? "process cannot be read: it is not known whether it is recorded"
				 : "processes cannot be read: it is not known whether they are "
				   "recorded; root can read more");
	result->view = "list";
	result->table = (struct result_table){
		.name = "processes",
		.shape = RESULT_TABLE,
		.columns = columns,
		.column_count = COLUMNS,
		.values = listing->values.at,
		.row_count = listing->values.count / COLUMNS,
	};
	result->notes = listing->notes.at;
	result->note_count = listing->notes.count;
	result->head.count = 0;
	result->head.at = ARENA_ARRAY(&result->arena, struct result_field, 2);
	if (listing->failed || !result->head.at) {
		error_set(error, "out of memory");
		return NULL;
	}
	result_head_add(result, "view", value_text(result->view));
	result_head_add(result, "hidden_processes", value_count(hidden));
	return result;
}

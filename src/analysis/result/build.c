/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers shared by the views: the common head, columns read from structs of the model, notes, and
 * sentences.
 *
 * JSON keys are defined only here and in the column lists of the views.
 */
#include "analysis/result/build.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/imported.h"
#include "analysis/result/signal_names.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/files.h"
#include "util/text/units.h"

void result_free(struct result *result)
{
	if (!result)
		return;
	arena_release(&result->arena);
	free(result);
}

struct result_value source_value(const struct source_column *column, const void *base)
{
	const char *at = (const char *)base + column->offset;
	struct result_value value = { .unit = column->column.unit };
	uint32_t narrow;

	switch (column->type) {
	case FROM_U64:
		memcpy(&value.number, at, sizeof value.number);
		break;
	case FROM_U32:
		memcpy(&narrow, at, sizeof narrow);
		value.number = narrow;
		break;
	case FROM_BOOL:
		memcpy(&value.flag, at, sizeof value.flag);
		break;
	case FROM_TEXT:
		memcpy(&value.text, at, sizeof value.text);
		break;
	case FROM_VIEW:
		break;
	}
	return value;
}

struct result_value source_estimate(const struct source_column *column, const void *base,
				    const struct site_numbers *numbers)
{
	struct result_value value = source_value(column, base);

	return column->rule == VARIANCE_NONE
		       ? value
		       : value_estimate(value,
					estimate_variance(numbers, column->rule, value.number));
}

struct result_value value_part(enum result_unit unit, uint64_t number, enum variance_rule rule,
			       const struct site_numbers *numbers)
{
	return value_estimate(value_number(unit, number), estimate_variance(numbers, rule, number));
}

static struct result_value fields_value(const struct result_field *fields, size_t count)
{
	return (struct result_value){ .unit = UNIT_FIELDS, .fields = { fields, count } };
}

/* Whether calls were made that the recorder knows it missed. */
static bool has_lost_calls(const struct profile_process *p)
{
	static const char *const lost[] = { "early_calls", "unregistered_calls", "lost_samples" };

	for (size_t i = 0; i < p->health.count; i++)
		for (size_t j = 0; j < ARRAY_SIZE(lost); j++)
			if (strcmp(p->health.at[i].name, lost[j]) == 0)
				return true;
	return false;
}

const char *nothing_recorded(const struct profile *profile)
{
	bool sampled = profile->process_count > 0, dormant = sampled;

	if (profile_is_imported(profile))
		return "0 BLOCKS: there is no stack in this heap profile of another tool";
	for (size_t i = 0; i < profile->process_count; i++) {
		if (has_lost_calls(&profile->processes[i]))
			return "0 ALLOCATIONS RECORDED: the calls that the program made could not "
			       "be recorded; the view health says why";
		sampled &= strcmp(profile->processes[i].mode, "sampled") == 0;
		dormant &= strcmp(profile->processes[i].mode, "dormant") == 0;
	}
	if (sampled)
		return "0 ALLOCATIONS SAMPLED: the program allocates little, measured by the interval of "
		       "the samples; --mode exact records every one, --interval more of them";
	if (dormant)
		return "0 ALLOCATIONS RECORDED: the recorder was dormant all the time; --mode exact or "
		       "--mode sample records, and so does hg_start in the program";
	return "0 ALLOCATIONS RECORDED: no call reached the recorder (the program allocates nothing, or "
	       "has an allocator linked in statically)";
}

bool notes_value(struct result *result, struct profile_notes notes, struct result_value *ret)
{
	struct result_field *fields = ARENA_ARRAY(&result->arena, struct result_field, notes.count);

	if (!fields)
		return false;
	for (size_t i = 0; i < notes.count; i++)
		fields[i] =
			(struct result_field){ notes.at[i].name, value_count(notes.at[i].count) };
	*ret = fields_value(fields, notes.count);
	return true;
}

static struct result_value unless(bool unknown, struct result_value value)
{
	return unknown ? value_unknown() : value;
}

static bool run_value(struct result *result, const struct profile *p, struct result_value *ret)
{
	bool imported = profile_is_imported(p);
	const struct result_field run[] = {
		{ "command", value_text(p->command) },
		{ "host", value_text(p->host) },
		{ "kernel", value_text(p->kernel) },
		{ "version", value_text(p->version) },
		{ "options", value_text(p->options) },
		{ "started_real_ns", unless(imported, value_ns(p->started_real_ns)) },
		{ "duration_ns", unless(imported, value_ns(p->duration_ns)) },
		{ "peak_bound_bytes", unless(imported, value_bytes(p->peak_bound_bytes)) },
	};
	const struct result_field *kept = arena_copy(&result->arena, run, sizeof run);

	*ret = fields_value(kept, ARRAY_SIZE(run));
	return kept != NULL;
}

struct sampling {
	uint64_t samples, interval, bias_bytes;
};

static struct sampling sampling_of(const struct profile *profile)
{
	struct sampling s = { 0 };

	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		s.samples = saturating_add(s.samples, p->samples);
		s.interval = MAX(s.interval, p->interval);
		s.bias_bytes = MAX(s.bias_bytes, p->peak_bias_bytes);
	}
	return s;
}

/* The value is unknown (null in JSON) if every block was recorded. */
static bool sampling_value(struct result *result, const struct profile *profile,
			   struct result_value *ret)
{
	struct sampling s = sampling_of(profile);
	const struct result_field fields[] = {
		{ "interval_bytes", value_bytes(s.interval) },
		{ "samples", value_count(s.samples) },
		{ "peak_bias_bytes", value_bytes(s.bias_bytes) },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	*ret = s.interval ? fields_value(kept, ARRAY_SIZE(fields)) : value_unknown();
	return kept != NULL;
}

void result_head_add(struct result *result, const char *name, struct result_value value)
{
	/* result_begin reserved the space. */
	struct result_field *fields = (struct result_field *)result->head.at;

	fields[result->head.count++] = (struct result_field){ name, value };
}

struct result *result_begin(const char *view, const struct profile *profile,
			    const struct query *query, size_t extra_fields)
{
	enum { COMMON_FIELDS = 7 };
	struct result *result = calloc(1, sizeof *result);
	struct result_value run, warnings, sampling;

	if (!result)
		return NULL;
	result->view = view;
	result->head.at =
		ARENA_ARRAY(&result->arena, struct result_field, COMMON_FIELDS + extra_fields);
	if (!result->head.at || !run_value(result, profile, &run) ||
	    !notes_value(result, profile->warnings, &warnings) ||
	    !sampling_value(result, profile, &sampling)) {
		result_free(result);
		return NULL;
	}
	result_head_add(result, "view", value_text(view));
	result_head_add(result, "file", value_text(query->file));
	result_head_add(result, "run", run);
	bool imported = profile_is_imported(profile);
	struct result_value peak =
		value_estimate(value_bytes(profile->peak_bytes), profile_peak_variance(profile));

	result_head_add(result, "peak_bytes", unless(imported, peak));
	result_head_add(result, "peak_at_ns", unless(imported, value_ns(profile->peak_at_ns)));
	result_head_add(result, "warnings", warnings);
	result_head_add(result, "sampling", sampling);
	ASSERT(result->head.count == COMMON_FIELDS);
	return result;
}

struct result_column *result_columns(struct result *result, const struct source_column *sources,
				     size_t count)
{
	struct result_column *columns = ARENA_ARRAY(&result->arena, struct result_column, count);

	for (size_t i = 0; columns && i < count; i++)
		columns[i] = sources[i].column;
	return columns;
}

bool result_take(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, const struct result_value *values)
{
	struct result_table *t = &result->table;

	*t = (struct result_table){
		.name = name,
		.columns = arena_copy(&result->arena, columns, column_count * sizeof *columns),
		.column_count = column_count,
		.values = arena_copy(&result->arena, values,
				     row_count * column_count * sizeof *values),
		.row_count = row_count,
	};
	return t->columns && t->values;
}

bool result_fill(struct result *result, const char *name, const struct result_column *columns,
		 size_t column_count, size_t row_count, row_filler *fill, void *context)
{
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, row_count * column_count);

	for (size_t i = 0; values && i < row_count; i++)
		if (!fill(context, i, &values[i * column_count]))
			return false;
	if (!values || !result_take(result, name, columns, column_count, 0, NULL))
		return false;
	result->table.values = values;
	result->table.row_count = row_count;
	return true;
}

struct result *result_end(struct result *result, bool done, struct error *error)
{
	if (done)
		return result;
	result_free(result);
	error_set(error, "out of memory");
	return NULL;
}

typedef VECTOR(struct result_note) note_vector;

/* Merges notes with equal text, of several processes. */
static bool add_note(note_vector *notes, uint64_t count, const char *text)
{
	for (size_t i = 0; i < notes->count; i++) {
		if (strcmp(notes->at[i].text, text) == 0) {
			notes->at[i].count = saturating_add(notes->at[i].count, count);
			return true;
		}
	}
	return vector_push(notes, ((struct result_note){ count, text }));
}

static bool add_notes(note_vector *notes, struct profile_notes from)
{
	for (size_t i = 0; i < from.count; i++)
		if (!add_note(notes, from.at[i].count, from.at[i].text))
			return false;
	return true;
}

/* The note on estimates goes under every view, because no single number can explain it. */
static bool add_sampling(note_vector *notes, struct result *result, const struct profile *profile)
{
	struct sampling s = sampling_of(profile);

	if (!s.interval)
		return true;
	const char *text = arena_printf(
		&result->arena,
		"samples, one for each %s or less on average: numbers are estimates, shown with "
		"their standard error; the 95 %% interval is 2 standard errors either way for 30 "
		"samples or more, 3 for 5, 6 for 2, 13 for 1",
		units_bytes(s.interval).text);
	const char *peak =
		s.bias_bytes && result->shows_peak
			? arena_printf(
				  &result->arena,
				  "the peak is the largest of many estimates and therefore too "
				  "high on average, here by %s at most",
				  units_bytes(s.bias_bytes).text)
			: NULL;

	return text && add_note(notes, s.samples, text) && (!peak || add_note(notes, 0, peak));
}

bool result_notes(struct result *result, const struct profile *profile, struct locations *locations,
		  const char *first)
{
	note_vector notes = { 0 };
	struct profile_notes unnamed = { 0 };
	bool done = (!first || add_note(&notes, 0, first)) && add_notes(&notes, profile->warnings);

	for (size_t i = 0; done && i < profile->process_count; i++)
		done = add_notes(&notes, profile->processes[i].health);
	if (done && locations)
		done = names_notes(locations_names(locations), &result->arena, &unnamed) == 0;
	done = done && add_notes(&notes, unnamed) && add_sampling(&notes, result, profile);
	if (done) {
		result->notes =
			arena_copy(&result->arena, notes.at, notes.count * sizeof *notes.at);
		result->note_count = notes.count;
		done = result->notes != NULL;
	}
	vector_release(&notes);
	return done;
}

void words_add(struct words *words, struct result_value value)
{
	if (!vector_push(&words->list, ((struct word){ value, 0 })))
		words->failed = true;
}

void words_text(struct words *words, const char *text)
{
	if (!text)
		words->failed = true;
	else
		words_add(words, value_text(text));
}

void words_fill(struct words *words, const char *text, const struct result_value *values,
		size_t count)
{
	if (!vector_push(&words->list, ((struct word){ value_text(text), count })))
		words->failed = true;
	for (size_t i = 0; i < count; i++)
		words_add(words, values[i]);
}

void words_time(struct words *words, const struct profile_process *process, uint64_t at_ns)
{
	if (at_ns == 0) {
		words_text(words, " at the start");
		return;
	}
	text_format(words, " at {}", value_ns(saturating_add(process->started_offset_ns, at_ns)));
}

/* Copies the text and replaces each {} with the next value. Returns the number of values written; 0 if out of memory. */
static size_t fill_holes(const struct word *word, struct arena *arena, struct result_value *to)
{
	const char *text = word->value.text;
	size_t count = 0;

	for (size_t i = 0; i <= word->holes; i++) {
		const char *hole = i < word->holes ? strstr(text, "{}") : text + strlen(text);

		ASSERT(hole);
		const char *part = arena_string(arena, span_of(text, (size_t)(hole - text)));

		if (!part)
			return 0;
		if (*part)
			to[count++] = value_text(part);
		if (i < word->holes) {
			to[count++] = word[1 + i].value;
			text = hole + strlen("{}");
		}
	}
	return count;
}

const struct result_value *words_take(struct words *words, struct arena *arena, size_t *ret_count)
{
	struct result_value *kept = NULL;
	size_t room = words->list.count, count = 0;

	for (size_t i = 0; i < words->list.count; i++)
		room += words->list.at[i].holes;
	if (!words->failed)
		kept = ARENA_ARRAY(arena, struct result_value, room);
	for (size_t i = 0; kept && i < words->list.count; i += 1 + words->list.at[i].holes) {
		const struct word *word = &words->list.at[i];
		size_t added = word->holes ? fill_holes(word, arena, &kept[count]) : 1;

		if (!word->holes)
			kept[count] = word->value;
		if (!added)
			kept = NULL;
		count += added;
	}
	*ret_count = kept ? count : 0;
	vector_release(&words->list);
	return kept;
}

const char *command_short(struct arena *arena, const char *command)
{
	enum { SHOWN = 60 };

	if (!command[0])
		return "?";
	if (strlen(command) <= SHOWN)
		return command;
	const char *tail = path_tail(command, SHOWN);

	return arena_printf(arena, "%s%.*s%s", tail > command ? "..." : "", SHOWN, tail,
			    strlen(tail) > SHOWN ? "..." : "");
}

const char *process_end_text(struct arena *arena, const struct profile_process *p)
{
	const char *signal = p->end == PROFILE_SIGNALLED || p->end == PROFILE_KILLED
				     ? signal_name(p->exit_code)
				     : NULL;

	switch (p->end) {
	case PROFILE_EXITED:
		return p->exit_code ? arena_printf(arena, "exited with status %u", p->exit_code)
				    : "ended";
	case PROFILE_SIGNALLED:
	case PROFILE_KILLED:
		if (signal)
			return arena_printf(arena, "ended by SIG%s", signal);
		return arena_printf(arena, "ended by signal %u", p->exit_code);
	case PROFILE_BECAME:
		return "became another program";
	case PROFILE_ENDED:
		return "ended (how is not known)";
	case PROFILE_RUNNING:
		break;
	}
	return "was still running";
}

const struct profile_process *process_largest(const struct profile *profile)
{
	const struct profile_process *best = NULL;

	for (size_t i = 0; i < profile->process_count; i++)
		if (!best || profile->processes[i].peak_bytes > best->peak_bytes)
			best = &profile->processes[i];
	return best;
}

void words_count(struct words *words, uint64_t count, const char *singular, const char *plural)
{
	words_add(words, value_count(count));
	words_text(words, count == 1 ? singular : plural);
}

void words_estimate(struct words *words, uint64_t count, double variance, const char *singular,
		    const char *plural)
{
	words_add(words, value_estimate(value_count(count), variance));
	words_text(words, count == 1 ? singular : plural);
}

bool result_left_out(struct result *result, size_t count, const char *singular, const char *plural)
{
	struct words w = { 0 };

	if (!count)
		return true;
	words_count(&w, count, singular, plural);
	words_text(&w, " (--limit N shows more)");
	result->table.left_out = words_take(&w, &result->arena, &result->table.left_out_count);
	return result->table.left_out != NULL;
}

void words_headline(struct words *words, struct result *result, const struct profile *profile)
{
	const char *command = command_short(&result->arena, profile->command);

	if (profile->process_count == 1)
		words_text(words, arena_printf(&result->arena, "%s  %s  ", command,
					       profile->processes[0].mode));
	else
		words_text(words, arena_printf(&result->arena, "%s  %zu processes  ", command,
					       profile->process_count));
}

void sentences_add(struct sentences *s, const char *label, struct words *words, struct words *more)
{
	struct result_sentence line = { .label = label };

	line.values = words_take(words, &s->result->arena, &line.value_count);
	if (more)
		line.more = words_take(more, &s->result->arena, &line.more_count);
	if (!line.values || (more && !line.more) || !vector_push(&s->list, line))
		s->failed = true;
}

bool sentences_end(struct sentences *s)
{
	if (!s->failed) {
		s->result->sentences = arena_copy(&s->result->arena, s->list.at,
						  s->list.count * sizeof *s->list.at);
		s->result->sentence_count = s->list.count;
		s->failed = !s->result->sentences;
	}
	vector_release(&s->list);
	return !s->failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per number of a process. In OpenMetrics a counter's family has no "_total"; else the formats differ only in their
 * last line. Values are of each process' last reading, whose time is a metric too.
 *
 * Where there are too many series, the largest processes keep theirs and the others become one sum, so that totals stay right.
 * A process may change sides with every answer: the counters of the sum therefore grow by what is allocated meanwhile
 * (metrics_count), and never go back. Tags come last: only what is left of the limit is theirs.
 */
#include "agent/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/clock.h"

struct row {
	const char *name, *help;
	bool is_counter;
	size_t offset; /* of a u64 in struct reading */
	bool skip_zero;
	bool is_summed; /* of several processes the sum means something */
};

static const struct row rows[] = {
#define MEMBER(name) offsetof(struct reading, name)
	{ "heapgauge_live_bytes", "Bytes of the heap that are allocated and not freed.", false,
	  MEMBER(live_bytes), false, true },
	{ "heapgauge_live_blocks", "Blocks of the heap that are allocated and not freed.", false,
	  MEMBER(live_blocks), false, true },
	{ "heapgauge_peak_bytes", "The most live bytes since the process began.", false,
	  MEMBER(peak_bytes), false, false },
	{ "heapgauge_allocations_total", "Allocations.", true, MEMBER(calls), false, true },
	{ "heapgauge_allocated_bytes_total", "Bytes allocated.", true, MEMBER(bytes), false, true },
	{ "heapgauge_frees_total", "Blocks freed.", true, MEMBER(frees), false, true },
	{ "heapgauge_freed_bytes_total", "Bytes freed.", true, MEMBER(freed_bytes), false, true },
	{ "heapgauge_mmap_live_bytes", "Bytes that the program has mapped itself.", false,
	  MEMBER(mmap_live_bytes), false, true },
	{ "heapgauge_unexplained_bytes",
	  "Resident anonymous memory that no recorded block explains, at least.", false,
	  MEMBER(unexplained_bytes), false, true },
	{ "heapgauge_recorder_bytes", "Memory of the recorder itself.", false,
	  MEMBER(recorder_bytes), false, true },
	{ "heapgauge_stacks", "Distinct stacks that allocated.", false, MEMBER(stacks), false,
	  true },
	{ "heapgauge_sampling_interval_bytes",
	  "Mean bytes between samples; absent where every block is recorded.", false,
	  MEMBER(interval), true, false },
	{ "heapgauge_cgroup_limit_bytes", "Memory limit of the control group; absent without one.",
	  false, MEMBER(cgroup_limit_bytes), true, false },
	{ "heapgauge_cgroup_usage_bytes",
	  "Memory used by the control group, without reclaimable file pages.", false,
	  MEMBER(cgroup_usage_bytes), true, false },
#undef MEMBER
};

static const char *const class_names[READING_CLASSES] = {
	[READING_RSS] = "rss",
	[READING_HEAP] = "heap",
	[READING_ANONYMOUS] = "anonymous",
	[READING_STACK] = "stack",
	[READING_FILE] = "file",
	[READING_SHARED] = "shared",
	[READING_SWAP] = "swap",
	[READING_RECORDER] = "recorder",
};

/* A process with series of its own. */
struct shown {
	const struct agent_process *process;
	bool has_tags;
};

struct writer {
	struct buffer *out;
	bool openmetrics;
	struct shown *shown; /* the largest first */
	size_t shown_count;
	struct reading rest; /* the sum of the others */
	struct labels rest_labels;
	uint64_t rest_count; /* of processes */
	uint64_t left_out;   /* series */
};

static void put_family(struct writer *w, const char *name, bool is_counter, const char *help)
{
	size_t length = strlen(name);

	if (is_counter && w->openmetrics)
		length -= strlen("_total");
	buffer_printf(w->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)length, name, help,
		      (int)length, name, is_counter ? "counter" : "gauge");
}

static void put_value(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			buffer_char(out, '\\');
		if (*text == '\n')
			buffer_text(out, "\\n");
		else
			buffer_char(out, *text);
	}
}

static void put_label(struct buffer *out, const char *key, const char *value, bool first)
{
	buffer_printf(out, "%s%s=\"", first ? "{" : ",", key);
	put_value(out, value);
	buffer_char(out, '"');
}

/* "name{labels...,key="value"} " */
static void put_series(const struct writer *w, const char *name, const struct labels *labels,
		       const char *key, const char *value)
{
	buffer_text(w->out, name);
	for (size_t i = 0; i < labels->count; i++)
		put_label(w->out, labels->at[i].key, labels->at[i].value, i == 0);
	if (key)
		put_label(w->out, key, value, labels->count == 0);
	buffer_text(w->out, labels->count || key ? "} " : " ");
}

static uint64_t value_of(const struct reading *reading, const struct row *row)
{
	uint64_t value;

	memcpy(&value, (const char *)reading + row->offset, sizeof value);
	return value;
}

/* ---- which processes ---- */

static size_t series_of(const struct agent_process *process)
{
	const struct reading *reading = process->reading;
	size_t count = 2 + reading->health_count; /* its time and its error */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		count += value_of(reading, &rows[i]) || !rows[i].skip_zero;
	return count + (reading->memory.known ? READING_CLASSES : 0);
}

static int compare_live(const void *left, const void *right)
{
	const struct agent_process *a = ((const struct shown *)left)->process,
				   *b = ((const struct shown *)right)->process;

	if (a->reading->live_bytes != b->reading->live_bytes)
		return a->reading->live_bytes > b->reading->live_bytes ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static void add_health(struct reading *rest, const struct reading_health *one)
{
	uint32_t at = 0;

	while (at < rest->health_count && strcmp(rest->health[at].name, one->name) != 0)
		at++;
	if (at == READING_HEALTH_MAX)
		return;
	if (at == rest->health_count)
		rest->health[rest->health_count++] = (struct reading_health){ 0 };
	memcpy(rest->health[at].name, one->name, sizeof one->name);
	rest->health[at].count = saturating_add(rest->health[at].count, one->count);
}

static void add_rest(struct writer *w, const struct agent_process *process)
{
	const struct reading *reading = process->reading;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t sum =
			saturating_add(value_of(&w->rest, &rows[i]), value_of(reading, &rows[i]));

		memcpy((char *)&w->rest + rows[i].offset, &sum, sizeof sum);
	}
	for (size_t c = 0; reading->memory.known && c < READING_CLASSES; c++)
		w->rest.memory.bytes[c] =
			saturating_add(w->rest.memory.bytes[c], reading->memory.bytes[c]);
	w->rest.memory.known |= reading->memory.known;
	for (size_t h = 0; h < reading->health_count; h++)
		add_health(&w->rest, &reading->health[h]);
	if (isfinite(reading->live_error))
		w->rest.live_error = hypot(w->rest.live_error, reading->live_error);
	w->rest_count++;
	w->left_out += series_of(process) + 2 * reading->tag_count;
}

/* False: out of memory. */
static bool choose(struct writer *w, struct processes *processes)
{
	uint64_t room = processes->settings->max_series;
	size_t count = 0;

	w->shown = calloc(processes->at.count + 1, sizeof *w->shown);
	if (!w->shown)
		return false;
	for (size_t i = 0; i < processes->at.count; i++)
		if (processes->at.at[i]->reading && processes->at.at[i]->fate == FATE_RUNS)
			w->shown[count++].process = processes->at.at[i];
	qsort(w->shown, count, sizeof *w->shown, compare_live);
	while (w->shown_count < count && series_of(w->shown[w->shown_count].process) <= room)
		room -= series_of(w->shown[w->shown_count++].process);
	for (size_t i = w->shown_count; i < count; i++)
		add_rest(w, w->shown[i].process);
	for (size_t i = 0; i < w->shown_count; i++) {
		uint64_t tags = 2 * w->shown[i].process->reading->tag_count;

		w->shown[i].has_tags = tags <= room;
		room -= w->shown[i].has_tags ? tags : 0;
		w->left_out += w->shown[i].has_tags ? 0 : tags;
	}
	for (size_t i = 0; i < processes->at.count; i++)
		processes->at.at[i]->is_shown = false;
	for (size_t i = 0; i < w->shown_count; i++)
		((struct agent_process *)(uintptr_t)w->shown[i].process)->is_shown = true;
	return true;
}

void metrics_count(struct processes *processes, const struct agent_process *process,
		   const struct reading *now)
{
	const struct reading *before = process->reading;
	struct process_sums *rest = &processes->rest;

	if (!before || process->is_shown)
		return;
	rest->calls += saturating_sub(now->calls, before->calls);
	rest->bytes += saturating_sub(now->bytes, before->bytes);
	rest->frees += saturating_sub(now->frees, before->frees);
	rest->freed_bytes += saturating_sub(now->freed_bytes, before->freed_bytes);
}

static void name_rest(struct writer *w, const struct processes *processes)
{
	labels_of(&w->rest_labels, 0, METRICS_REST, "", processes->settings);
	labels_set(&w->rest_labels, "pid", "");
	w->rest.calls = processes->rest.calls;
	w->rest.bytes = processes->rest.bytes;
	w->rest.frees = processes->rest.frees;
	w->rest.freed_bytes = processes->rest.freed_bytes;
}

/* ---- families ---- */

/* The processes that are shown, and the sum of the others; NULL: no more. */
static const struct reading *reading_at(const struct writer *w, size_t i,
					const struct labels **ret_labels)
{
	if (i < w->shown_count) {
		*ret_labels = &w->shown[i].process->labels;
		return w->shown[i].process->reading;
	}
	*ret_labels = &w->rest_labels;
	return i == w->shown_count && w->rest_count ? &w->rest : NULL;
}

static void put_rows(struct writer *w)
{
	const struct reading *reading;
	const struct labels *labels;

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		put_family(w, rows[r].name, rows[r].is_counter, rows[r].help);
		for (size_t i = 0; (reading = reading_at(w, i, &labels)); i++) {
			uint64_t value = value_of(reading, &rows[r]);

			if ((!value && rows[r].skip_zero) ||
			    (reading == &w->rest && !rows[r].is_summed))
				continue;
			put_series(w, rows[r].name, labels, NULL, NULL);
			buffer_printf(w->out, "%" PRIu64 "\n", value);
		}
	}
}

static void put_times(struct writer *w)
{
	static const char observed[] = "heapgauge_observed_timestamp_seconds";
	static const char error[] = "heapgauge_live_bytes_standard_error";
	const struct reading *reading;
	const struct labels *labels;

	put_family(w, observed, false, "When the numbers of the process were read.");
	for (size_t i = 0; i < w->shown_count; i++) {
		reading = reading_at(w, i, &labels);
		put_series(w, observed, labels, NULL, NULL);
		buffer_printf(w->out, "%.3f\n", (double)reading->at_real_ns / (double)NS_PER_S);
	}
	put_family(w, error, false,
		   "Standard error of heapgauge_live_bytes; 0 where every block is recorded.");
	for (size_t i = 0; (reading = reading_at(w, i, &labels)); i++) {
		put_series(w, error, labels, NULL, NULL);
		buffer_printf(w->out, "%.0f\n",
			      isfinite(reading->live_error) ? reading->live_error : 0);
	}
}

static void put_memory(struct writer *w)
{
	static const char name[] = "heapgauge_memory_bytes";
	const struct reading *reading;
	const struct labels *labels;

	put_family(
		w, name, false,
		"Resident memory by class, read again when the total changes; swap is not resident.");
	for (size_t i = 0; (reading = reading_at(w, i, &labels)); i++)
		for (size_t c = 0; reading->memory.known && c < READING_CLASSES; c++) {
			put_series(w, name, labels, "class", class_names[c]);
			buffer_printf(w->out, "%" PRIu64 "\n", reading->memory.bytes[c]);
		}
}

static void put_health(struct writer *w)
{
	static const char name[] = "heapgauge_health_events_total";
	const struct reading *reading;
	const struct labels *labels;

	put_family(w, name, true,
		   "What the recorder could not record, by reason; absent if nothing.");
	for (size_t i = 0; (reading = reading_at(w, i, &labels)); i++)
		for (size_t h = 0; h < reading->health_count; h++) {
			put_series(w, name, labels, "reason", reading->health[h].name);
			buffer_printf(w->out, "%" PRIu64 "\n", reading->health[h].count);
		}
}

static void put_tags(struct writer *w)
{
	static const struct {
		const char *name, *help;
		bool is_counter;
		size_t offset;
	} numbers[] = {
		{ "heapgauge_tag_live_bytes",
		  "Live bytes by tag; the largest tags of each process.", false,
		  offsetof(struct reading_tag, live_bytes) },
		{ "heapgauge_tag_allocated_bytes_total", "Bytes allocated by tag.", true,
		  offsetof(struct reading_tag, bytes) },
	};

	for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
		put_family(w, numbers[n].name, numbers[n].is_counter, numbers[n].help);
		for (size_t i = 0; i < w->shown_count; i++) {
			const struct agent_process *p = w->shown[i].process;

			for (size_t t = 0; w->shown[i].has_tags && t < p->reading->tag_count; t++) {
				uint64_t value;

				memcpy(&value, (const char *)&p->tags[t] + numbers[n].offset,
				       sizeof value);
				put_series(w, numbers[n].name, &p->labels, "tag", p->tags[t].path);
				buffer_printf(w->out, "%" PRIu64 "\n", value);
			}
		}
	}
}

static void put_own(struct writer *w, const struct metrics_own *own, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(own[i].name, own[i - 1].name) != 0)
			put_family(w, own[i].name, own[i].is_counter, own[i].help);
		buffer_text(w->out, own[i].name);
		if (own[i].key) {
			put_label(w->out, own[i].key, own[i].value, true);
			buffer_char(w->out, '}');
		}
		buffer_printf(w->out, " %.15g\n", own[i].number);
	}
}

void metrics_write(struct buffer *out, struct processes *processes, const struct metrics_own *own,
		   size_t own_count, bool openmetrics)
{
	struct writer w = { .out = out, .openmetrics = openmetrics };

	if (choose(&w, processes)) {
		name_rest(&w, processes);
		put_rows(&w);
		put_times(&w);
		put_memory(&w);
		put_health(&w);
		put_tags(&w);
	}
	put_own(&w, own, own_count);
	const struct metrics_own limits[] = {
		{ "heapgauge_agent_series_left_out",
		  "Series beyond max-series, which are not shown.", false, NULL, NULL,
		  (double)w.left_out },
		{ "heapgauge_agent_summed_processes",
		  "Processes without series of their own for that reason, which are summed "
		  "instead.",
		  false, NULL, NULL, (double)w.rest_count },
	};

	put_own(&w, limits, ARRAY_SIZE(limits));
	if (openmetrics)
		buffer_text(out, "# EOF\n");
	free(w.shown);
}

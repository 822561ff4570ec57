/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per number of a process. In OpenMetrics a counter's family has no "_total"; else the formats differ only in their
 * last line. Values are of each process' last reading, whose time is a metric too. No state.
 */
#include "agent/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "util/clock.h"

struct row {
	const char *name, *help;
	bool is_counter;
	size_t offset; /* of a u64 in struct reading */
	bool skip_zero;
};

static const struct row rows[] = {
#define MEMBER(name) offsetof(struct reading, name)
	{ "heapgauge_live_bytes", "Bytes of the heap that are allocated and not freed.", false,
	  MEMBER(live_bytes), false },
	{ "heapgauge_live_blocks", "Blocks of the heap that are allocated and not freed.", false,
	  MEMBER(live_blocks), false },
	{ "heapgauge_peak_bytes", "The most live bytes since the process began.", false,
	  MEMBER(peak_bytes), false },
	{ "heapgauge_allocations_total", "Allocations.", true, MEMBER(calls), false },
	{ "heapgauge_allocated_bytes_total", "Bytes allocated.", true, MEMBER(bytes), false },
	{ "heapgauge_frees_total", "Blocks freed.", true, MEMBER(frees), false },
	{ "heapgauge_freed_bytes_total", "Bytes freed.", true, MEMBER(freed_bytes), false },
	{ "heapgauge_mmap_live_bytes", "Bytes that the program has mapped itself.", false,
	  MEMBER(mmap_live_bytes), false },
	{ "heapgauge_unexplained_bytes",
	  "Resident anonymous memory that no recorded block explains, at least.", false,
	  MEMBER(unexplained_bytes), false },
	{ "heapgauge_recorder_bytes", "Memory of the recorder itself.", false,
	  MEMBER(recorder_bytes), false },
	{ "heapgauge_stacks", "Distinct stacks that allocated.", false, MEMBER(stacks), false },
	{ "heapgauge_sampling_interval_bytes",
	  "Mean bytes between samples; absent where every block is recorded.", false,
	  MEMBER(interval), true },
	{ "heapgauge_cgroup_limit_bytes", "Memory limit of the control group; absent without one.",
	  false, MEMBER(cgroup_limit_bytes), true },
	{ "heapgauge_cgroup_usage_bytes",
	  "Memory used by the control group, without reclaimable file pages.", false,
	  MEMBER(cgroup_usage_bytes), true },
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

struct writer {
	struct buffer *out;
	bool openmetrics;
	uint64_t series, left_out;
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

/* "name{labels...,key="value"} "; false: one series too many. */
static bool put_series(struct writer *w, const char *name, const struct labels *labels,
		       const char *key, const char *value)
{
	if (++w->series > METRICS_SERIES_MAX) {
		w->left_out++;
		return false;
	}
	buffer_text(w->out, name);
	for (size_t i = 0; i < labels->count; i++)
		put_label(w->out, labels->at[i].key, labels->at[i].value, i == 0);
	if (key)
		put_label(w->out, key, value, labels->count == 0);
	buffer_text(w->out, labels->count || key ? "} " : " ");
	return true;
}

static void put_rows(struct writer *w, const struct processes *processes)
{
	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		put_family(w, rows[r].name, rows[r].is_counter, rows[r].help);
		for (size_t i = 0; i < processes->at.count; i++) {
			const struct agent_process *p = processes->at.at[i];
			uint64_t value;

			if (!p->reading || p->fate != FATE_RUNS)
				continue;
			memcpy(&value, (const char *)p->reading + rows[r].offset, sizeof value);
			if ((value || !rows[r].skip_zero) &&
			    put_series(w, rows[r].name, &p->labels, NULL, NULL))
				buffer_printf(w->out, "%" PRIu64 "\n", value);
		}
	}
}

static void put_times(struct writer *w, const struct processes *processes)
{
	static const char observed[] = "heapgauge_observed_timestamp_seconds";
	static const char error[] = "heapgauge_live_bytes_standard_error";

	put_family(w, observed, false, "When the numbers of the process were read.");
	for (size_t i = 0; i < processes->at.count; i++) {
		const struct agent_process *p = processes->at.at[i];

		if (p->reading && p->fate == FATE_RUNS &&
		    put_series(w, observed, &p->labels, NULL, NULL))
			buffer_printf(w->out, "%.3f\n",
				      (double)p->reading->at_real_ns / (double)NS_PER_S);
	}
	put_family(w, error, false,
		   "Standard error of heapgauge_live_bytes; 0 where every block is recorded.");
	for (size_t i = 0; i < processes->at.count; i++) {
		const struct agent_process *p = processes->at.at[i];

		if (p->reading && p->fate == FATE_RUNS &&
		    put_series(w, error, &p->labels, NULL, NULL))
			buffer_printf(w->out, "%.0f\n",
				      isfinite(p->reading->live_error) ? p->reading->live_error
								       : 0);
	}
}

static void put_memory(struct writer *w, const struct processes *processes)
{
	static const char name[] = "heapgauge_memory_bytes";

	put_family(w, name, false, "Resident memory by class; swap is not resident.");
	for (size_t i = 0; i < processes->at.count; i++) {
		const struct agent_process *p = processes->at.at[i];

		for (size_t c = 0; p->reading && p->reading->memory_known && c < READING_CLASSES;
		     c++)
			if (p->fate == FATE_RUNS &&
			    put_series(w, name, &p->labels, "class", class_names[c]))
				buffer_printf(w->out, "%" PRIu64 "\n", p->reading->memory[c]);
	}
}

static void put_health(struct writer *w, const struct processes *processes)
{
	static const char name[] = "heapgauge_health_events_total";

	put_family(w, name, true,
		   "What the recorder could not record, by reason; absent if nothing.");
	for (size_t i = 0; i < processes->at.count; i++) {
		const struct agent_process *p = processes->at.at[i];

		for (size_t h = 0;
		     p->reading && p->fate == FATE_RUNS && h < p->reading->health_count; h++)
			if (put_series(w, name, &p->labels, "reason", p->reading->health[h].name))
				buffer_printf(w->out, "%" PRIu64 "\n", p->reading->health[h].count);
	}
}

static void put_tags(struct writer *w, const struct processes *processes)
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
		for (size_t i = 0; i < processes->at.count; i++) {
			const struct agent_process *p = processes->at.at[i];
			uint32_t count =
				p->reading && p->fate == FATE_RUNS ? p->reading->tag_count : 0;

			for (size_t t = 0; t < count; t++) {
				uint64_t value;

				memcpy(&value, (const char *)&p->tags[t] + numbers[n].offset,
				       sizeof value);
				if (put_series(w, numbers[n].name, &p->labels, "tag",
					       p->tags[t].path))
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

void metrics_write(struct buffer *out, const struct processes *processes,
		   const struct metrics_own *own, size_t own_count, bool openmetrics)
{
	struct writer w = { .out = out, .openmetrics = openmetrics };

	put_rows(&w, processes);
	put_times(&w, processes);
	put_memory(&w, processes);
	put_health(&w, processes);
	put_tags(&w, processes);
	put_own(&w, own, own_count);
	put_family(&w, "heapgauge_agent_series_left_out", false,
		   "Series beyond the limit of the agent, which are not shown.");
	buffer_printf(out, "heapgauge_agent_series_left_out %" PRIu64 "\n", w.left_out);
	if (openmetrics)
		buffer_text(out, "# EOF\n");
}

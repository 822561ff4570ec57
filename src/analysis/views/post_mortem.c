/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last state of processes that have ended, as sentences for people and rows for machine formats: what each held, its
 * memory limit, its top site, and how much of it was new. The newest comes first and in detail; the others get one line
 * each.
 *
 * Owns its result; also rows and sentences until they are moved into it.
 */
#include "analysis/views/post_mortem.h"

#include <stdlib.h>

#include "analysis/result/build.h"
#include "base/checked.h"
#include "model/ages.h"
#include "util/cleanup.h"

#define COLUMN_LIST(X)                                                                             \
	X(FILE_NAME, "file", NULL, UNIT_TEXT)                                                      \
	X(PID, "pid", NULL, UNIT_ID)                                                               \
	X(COMMAND, "command", NULL, UNIT_TEXT)                                                     \
	X(HOST, "host", NULL, UNIT_TEXT)                                                           \
	X(CAUSE, "cause", NULL, UNIT_TEXT)                                                         \
	X(ENDED, "ended_real_ns", NULL, UNIT_NS)                                                   \
	X(LIVE, "live_bytes", NULL, UNIT_BYTES)                                                    \
	X(BLOCKS, "live_blocks", NULL, UNIT_COUNT)                                                 \
	X(PEAK, "peak_bytes", NULL, UNIT_BYTES)                                                    \
	X(LIMIT, "cgroup_limit_bytes", NULL, UNIT_BYTES)                                           \
	X(GROUP, "cgroup", NULL, UNIT_TEXT)                                                        \
	X(OOM_KILLS, "cgroup_oom_kills", NULL, UNIT_COUNT)                                         \
	X(PRESSURE_SOME, "pressure_some_ns", NULL, UNIT_NS)                                        \
	X(PRESSURE_FULL, "pressure_full_ns", NULL, UNIT_NS)                                        \
	X(PRESSURE_WITHIN, "pressure_within_ns", NULL, UNIT_NS)                                    \
	X(PRESSURE_OF, "pressure_of", NULL, UNIT_TEXT)                                             \
	X(TOP_BYTES, "top_site_bytes", NULL, UNIT_BYTES)                                           \
	X(TOP, "top_site", NULL, UNIT_TEXT)                                                        \
	X(YOUNG_BYTES, "young_bytes", NULL, UNIT_BYTES)                                            \
	X(YOUNG_WITHIN, "young_within_ns", NULL, UNIT_NS)                                          \
	X(RECORDER, "recorder_bytes", NULL, UNIT_BYTES)                                            \
	X(PROBLEM, "problem", NULL, UNIT_TEXT)
enum column { COLUMN_LIST(COLUMN_ID) COLUMNS };
static const struct result_column columns[COLUMNS] = { COLUMN_LIST(COLUMN_ROW) };

static const struct {
	const char *name, *words;
} causes[] = {
	[CAUSE_UNKNOWN] = { "unknown", "was killed or crashed" },
	[CAUSE_OOM] = { "oom", "was killed by the OOM killer" },
	[CAUSE_OOM_NEARBY] = { "oom_in_group", "was killed or crashed, maybe by the OOM killer" },
};

struct post_mortems {
	struct result result; /* its arena has the texts */
	struct sentences sentences;
	VECTOR(struct result_value) values;
	VECTOR(struct result_note) notes;
	size_t shown, count;
	bool failed; /* out of memory */
};

struct post_mortems *post_mortems_new(size_t shown)
{
	struct post_mortems *m = calloc(1, sizeof *m);

	if (m) {
		m->shown = shown;
		m->sentences.result = &m->result;
	}
	return m;
}

void post_mortems_free(struct post_mortems *m)
{
	if (!m)
		return;
	arena_release(&m->result.arena);
	vector_release(&m->sentences.list);
	vector_release(&m->values);
	vector_release(&m->notes);
	free(m);
}

static struct result_value keep(struct post_mortems *m, const char *text)
{
	const char *kept = text ? arena_strdup(&m->result.arena, text) : NULL;

	m->failed = m->failed || (text && !kept);
	return value_text(kept);
}

/* ---- numbers ---- */

/* The smallest age below which most of the live bytes are, and those bytes; 0 if most of them are old. */
struct young {
	uint64_t bytes, within_ms;
};

static int compare_ages(const void *left, const void *right)
{
	const struct profile_age *a = left, *b = right;

	return a->high_ms < b->high_ms ? -1 : a->high_ms > b->high_ms;
}

static int find_young(const struct profile_process *process, struct young *ret)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct profile_ages ages = { 0 };
	uint64_t bytes = 0;

	*ret = (struct young){ 0 };
	if (profile_ages(process, NULL, &scratch, &ages) < 0)
		return -1;
	size_t count = ages.first[ages.site_count];
	struct profile_age *sorted = arena_copy(&scratch, ages.at, count * sizeof *sorted);

	if (!sorted)
		return -1;
	if (count)
		qsort(sorted, count, sizeof *sorted, compare_ages);
	for (size_t i = 0; i < count; i++) {
		bytes = saturating_add(bytes, sorted[i].bytes);
		/* Include all entries of equal age. Most means three quarters; an age above half of the lifetime is no
		 * news. */
		if (i + 1 < count && sorted[i + 1].high_ms == sorted[i].high_ms)
			continue;
		if (sorted[i].high_ms > process->duration_ns / 2000000)
			break;
		if (bytes >= process->live_bytes / 4 * 3 && bytes > 0) {
			*ret = (struct young){ bytes, sorted[i].high_ms };
			break;
		}
	}
	return 0;
}

static int fill_row(struct post_mortems *m, const struct post_mortem *one, struct result_value *row,
		    struct error *error)
{
	const struct profile_process *process = &one->profile->processes[0];
	struct young young;

	if (find_young(process, &young) < 0)
		return error_set(error, "out of memory");
	row[PID] = value_id(process->pid);
	row[COMMAND] = keep(m, process->command);
	const struct site_numbers *n = &process->sums;

	row[LIVE] = value_part(UNIT_BYTES, process->live_bytes, VARIANCE_LIVE_BYTES, n);
	row[BLOCKS] = value_part(UNIT_COUNT, process->live_blocks, VARIANCE_LIVE_BLOCKS, n);
	row[PEAK] = value_part(UNIT_BYTES, process->peak_bytes, VARIANCE_PEAK_BYTES, n);
	row[RECORDER] = value_bytes(process->own_bytes);
	if (young.bytes) {
		row[YOUNG_BYTES] = value_part(UNIT_BYTES, young.bytes, VARIANCE_BYTES, n);
		row[YOUNG_WITHIN] = value_ns(young.within_ms * 1000000);
	}
	return top_live(&m->result, one->profile, one->locations, &row[TOP], &row[TOP_BYTES],
			error);
}

/* ---- text ---- */

static void describe_end(struct post_mortems *m, const struct post_mortem *one,
			 const struct result_value *row)
{
	struct words w = { 0 };

	words_text(&w,
		   arena_printf(&m->result.arena, "pid %u  %s  %s", one->profile->processes[0].pid,
				command_short(&m->result.arena, row[COMMAND].text),
				causes[one->cause].words));
	if (one->ended)
		words_text(&w, arena_printf(&m->result.arena, "%s%s",
					    one->cause == CAUSE_OOM ? " at " : ", last seen at ",
					    one->ended));
	if (one->limit_bytes)
		text_format(&w, ", cgroup limit {}", row[LIMIT]);
	sentences_add(&m->sentences, NULL, &w, NULL);
}

static void describe_state(struct post_mortems *m, const struct post_mortem *one,
			   const struct result_value *row)
{
	struct words live = { 0 }, from = { 0 }, young = { 0 }, next = { 0 };

	text_format(&live, row[BLOCKS].number == 1 ? "{} in {} block" : "{} in {} blocks",
		    row[LIVE], row[BLOCKS]);
	if (one->limit_bytes)
		text_format(&live, ", {} of the limit",
			    value_percent(row[LIVE].number, one->limit_bytes));
	if (row[TOP].text)
		text_format(&from, "{} of it from {}",
			    value_percent(row[TOP_BYTES].number, row[LIVE].number), row[TOP]);
	sentences_add(&m->sentences, "live", &live, row[TOP].text ? &from : NULL);
	if (row[YOUNG_BYTES].unit == UNIT_BYTES) {
		text_format(&young, "{} of it was taken in the last {}", row[YOUNG_BYTES],
			    row[YOUNG_WITHIN]);
		sentences_add(&m->sentences, "grew", &young, NULL);
	}
	words_text(&next, arena_printf(&m->result.arena, "%s --view tree --cost live", one->again));
	sentences_add(&m->sentences, "next", &next, NULL);
}

/* What the control group and the kernel report in addition to the profile. */
static void describe_group(struct post_mortems *m, const struct post_mortem *one,
			   const struct result_value *row)
{
	struct words kills = { 0 }, waits = { 0 };

	if (row[OOM_KILLS].unit == UNIT_COUNT && one->oom_kills > 0) {
		words_text(&kills, "the OOM killer has killed ");
		words_count(&kills, one->oom_kills, " process in ", " processes in ");
		words_text(&kills, one->group[0] ? row[GROUP].text : "its control group");
		words_text(&kills, " since it began");
		sentences_add(&m->sentences, "group", &kills, NULL);
	}
	if (one->pressure.within_ns) {
		words_text(&waits, one->pressure.of_group ? "tasks of its control group waited "
							  : "tasks of this machine waited ");
		text_format(&waits, "{} of the last {} for memory, all of them at once {}",
			    value_percent(one->pressure.some_ns, one->pressure.within_ns),
			    row[PRESSURE_WITHIN],
			    value_percent(one->pressure.full_ns, one->pressure.within_ns));
		sentences_add(&m->sentences, "pressure", &waits, NULL);
	}
}

static void fill_group(struct post_mortems *m, const struct post_mortem *one,
		       struct result_value *row)
{
	const struct post_mortem_pressure *pressure = &one->pressure;

	if (one->oom_kills != UINT64_MAX)
		row[OOM_KILLS] = value_count(one->oom_kills);
	if (!pressure->within_ns)
		return;
	row[PRESSURE_SOME] = value_ns(pressure->some_ns);
	row[PRESSURE_FULL] = value_ns(pressure->full_ns);
	row[PRESSURE_WITHIN] = value_ns(pressure->within_ns);
	row[PRESSURE_OF] = keep(m, pressure->of_group ? "cgroup" : "machine");
}

int post_mortems_add(struct post_mortems *m, const struct post_mortem *one, struct error *error)
{
	struct result_value *row =
		vector_reserve(&m->values, COLUMNS) ? m->values.at + m->values.count : NULL;

	bool told = !one->problem && m->count < m->shown;

	if (!row)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < COLUMNS; i++)
		row[i] = value_unknown();
	row[FILE_NAME] = keep(m, one->path);
	row[HOST] = keep(m, one->host);
	row[GROUP] = keep(m, one->group);
	row[PROBLEM] = keep(m, one->problem);
	row[CAUSE] = keep(m, one->problem ? NULL : causes[one->cause].name);
	if (one->ended_real_ns)
		row[ENDED] = value_ns(one->ended_real_ns);
	if (one->limit_bytes)
		row[LIMIT] = value_bytes(one->limit_bytes);
	if (one->problem) {
		struct result_note note = { 0, row[PROBLEM].text };

		m->failed = !vector_push(&m->notes, note) || m->failed;
	} else {
		if (fill_row(m, one, row, error) < 0)
			return -1;
		fill_group(m, one, row);
		if (told) {
			describe_end(m, one, row);
			describe_group(m, one, row);
			describe_state(m, one, row);
		}
		m->count++;
	}
	m->values.count += COLUMNS;
	return told;
}

static void add_note(struct post_mortems *m, uint64_t count, const char *text)
{
	struct result_note note = { count, text };

	m->failed = !vector_push(&m->notes, note) || m->failed;
}

const struct result *post_mortems_end(struct post_mortems *m, const char *folder, size_t running,
				      struct error *error)
{
	struct result *result = &m->result;

	if (m->count == 0) {
		struct words w = { 0 };

		words_text(&w, arena_printf(&result->arena,
					    "no process in %s was killed or crashed", folder));
		sentences_add(&m->sentences, NULL, &w, NULL);
	}
	if (m->count > m->shown)
		add_note(m, m->count - m->shown, "more have ended: --limit N shows more");
	if (running)
		add_note(m, running,
			 running == 1
				 ? "process has a profile there and runs: see heapgauge list"
				 : "processes have a profile there and run: see heapgauge list");
	result->view = "post-mortem";
	result->table = (struct result_table){ .name = "processes",
					       .shape = RESULT_TABLE,
					       .columns = columns,
					       .column_count = COLUMNS,
					       .values = m->values.at,
					       .row_count = m->values.count / COLUMNS,
					       .machines_only = true };
	result->notes = m->notes.at;
	result->note_count = m->notes.count;
	result->head.at = ARENA_ARRAY(&result->arena, struct result_field, 3);
	if (!sentences_end(&m->sentences) || m->failed || !result->head.at) {
		error_set(error, "out of memory");
		return NULL;
	}
	result_head_add(result, "view", value_text(result->view));
	result_head_add(result, "folder", keep(m, folder));
	result_head_add(result, "running_processes", value_count(running));
	return result;
}

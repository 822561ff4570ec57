/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent serve export collect analysis model format util base */
/* Labels, settings, metrics and baselines of the agent, without processes. */
#include <stdlib.h>
#include <string.h>

#include "agent/agent_settings.h"
#include "agent/labels.h"
#include "agent/metrics.h"
#include "agent/push/baseline.h"
#include "agent/reading/reading.h"
#include "test_agent_folder.h"
#include "unit.h"
#include "util/cleanup.h"

static void labels_are_sorted_and_unique(void **state)
{
	struct labels labels = { 0 };

	(void)state;
	labels_set(&labels, "pod", "b");
	labels_set(&labels, "a.b-c", "x");
	labels_set(&labels, "pod", "c");
	labels_set(&labels, "1st", "\n\x80ok");
	assert_int_equal(labels.count, 3);
	assert_string_equal(labels.at[0].key, "a_b_c");
	assert_string_equal(labels.at[1].key, "pod");
	assert_string_equal(labels_get(&labels, "pod"), "c");
	assert_string_equal(labels.at[2].key, "xst");
	assert_string_equal(labels.at[2].value, "??ok");
	labels_set(&labels, "pod", "");
	assert_null(labels_get(&labels, "pod"));
	assert_int_equal(labels.count, 2);
}

static void labels_have_a_limit(void **state)
{
	struct labels labels = { 0 };
	char key[16], value[READING_TEXT * 2];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "k%02d", i);
		labels_set(&labels, key, "v");
	}
	assert_int_equal(labels.count, READING_LABELS_MAX);
	/* A character of three bytes at the cut is left out as a whole. */
	memset(value, 'x', sizeof value);
	memcpy(value + READING_TEXT - 3, "\xe2\x82\xac", 3);
	value[sizeof value - 1] = '\0';
	labels_set(&labels, "k00", value);
	assert_int_equal(strlen(labels_get(&labels, "k00")), READING_TEXT - 3);
}

static void pods_are_found_in_groups(void **state)
{
	static const char *const with[] = {
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_9abc_def0_1234_56789abcdef0.slice/cri-x.scope\n",
		"11:memory:/kubepods/burstable/pod12345678-9abc-def0-1234-56789abcdef0/0123\n",
	};
	static const char *const without[] = { "", "0::/user.slice\n", "0::/pod1234\n",
					       "0::/kubepods/podx\n" };
	char uid[40];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(with); i++) {
		assert_true(labels_pod_uid(with[i], uid, sizeof uid));
		assert_string_equal(uid, "12345678-9abc-def0-1234-56789abcdef0");
	}
	for (size_t i = 0; i < ARRAY_SIZE(without); i++)
		assert_false(labels_pod_uid(without[i], uid, sizeof uid));
}

static void metrics_escape_and_count(void **state)
{
	static struct agent_process process;
	static const struct agent_settings settings = { .max_series = 100 };
	struct agent_process *at[] = { &process };
	struct processes processes = { .at = { at, 1, 1 }, .settings = &settings };
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct reading reading = { .live_bytes = 18446744073709551615u, .tag_count = 1 };
	struct reading_tag tag = { .path = "a\"b\\c", .live_bytes = 7 };

	(void)state;
	labels_set(&process.labels, "service_name", "quo\"te");
	process.reading = &reading;
	process.tags = &tag;
	metrics_write(&text, &processes, NULL, 0, true);
	const char *said = buffer_string(&text);

	assert_non_null(strstr(said, "# TYPE heapgauge_allocations counter\n"));
	assert_non_null(strstr(
		said, "heapgauge_live_bytes{service_name=\"quo\\\"te\"} 18446744073709551615\n"));
	assert_non_null(strstr(said, "tag=\"a\\\"b\\\\c\"} 7\n"));
	assert_string_equal(said + strlen(said) - 6, "# EOF\n");
	process.fate = FATE_KILLED;
	buffer_clear(&text);
	metrics_write(&text, &processes, NULL, 0, false);
	assert_null(strstr(buffer_string(&text), "service_name"));
	assert_non_null(
		strstr(buffer_string(&text), "# TYPE heapgauge_allocations_total counter\n"));
}

/* The sum of a family, and how many series it has. */
static uint64_t sum_of(const char *text, const char *family, size_t *ret_series)
{
	uint64_t sum = 0;

	*ret_series = 0;
	for (const char *line = text; line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *end = strchrnul(line, '\n');

		if (strncmp(line, family, strlen(family)) != 0 || line[strlen(family)] != '{')
			continue;
		while (end[-1] != ' ')
			end--;
		sum += strtoull(end, NULL, 10);
		++*ret_series;
	}
	return sum;
}

enum { MANY = 1000, MANY_TAGS = 10 };

static struct many {
	struct agent_process process;
	struct reading reading;
	struct reading_tag tags[MANY_TAGS];
} many[MANY];

static void make_many(struct processes *processes)
{
	for (uint64_t i = 0; i < MANY; i++) {
		struct many *one = &many[i];

		one->reading = (struct reading){ .live_bytes = i,
						 .calls = 10 * i,
						 .peak_bytes = i,
						 .memory = { .known = 1, .bytes = { 3 } },
						 .live_error = 2,
						 .health_count = 1,
						 .health = { { "lost", 5 } },
						 .tag_count = MANY_TAGS };
		one->process = (struct agent_process){ .id = i,
						       .reading = &one->reading,
						       .tags = one->tags };
		labels_set(&one->process.labels, "service_name", "one");
		char pid[24];

		snprintf(pid, sizeof pid, "%d", (int)i + 1);
		labels_set(&one->process.labels, "pid", pid);
		assert_true(vector_push(&processes->at, &one->process));
	}
}

/* 22 series of each without tags; those beyond the limit are the smallest, and in the sum. */
static void more_series_than_the_limit_are_summed(void **state)
{
	const uint64_t live = MANY * (MANY - 1) / 2;
	struct agent_settings settings = { .max_series = 2300 };
	struct processes processes = { .settings = &settings };
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	size_t series;

	(void)state;
	make_many(&processes);
	metrics_write(&text, &processes, NULL, 0, false);
	const char *said = buffer_string(&text);

	assert_int_equal(sum_of(said, "heapgauge_live_bytes", &series), live);
	assert_int_equal(series, 2300 / 22 + 1);
	assert_non_null(strstr(said, "pid=\"1000\""));
	assert_null(strstr(said, "pid=\"895\""));
	assert_int_equal(sum_of(said, "heapgauge_health_events_total", &series), 5 * MANY);
	assert_int_equal(sum_of(said, "heapgauge_memory_bytes", &series), 3 * MANY);
	assert_int_equal(series, (2300 / 22 + 1) * READING_CLASSES);
	(void)sum_of(said, "heapgauge_peak_bytes", &series);
	assert_int_equal(series, 2300 / 22); /* of several processes there is no peak */
	/* The 12 series that are left are too few for the tags of one more. */
	assert_non_null(strstr(said, "\nheapgauge_agent_series_left_out 39712\n"));
	assert_non_null(strstr(said, "\nheapgauge_agent_summed_processes 896\n"));
	settings.max_series = 100000;
	buffer_clear(&text);
	metrics_write(&text, &processes, NULL, 0, false);
	said = buffer_string(&text);
	assert_int_equal(sum_of(said, "heapgauge_live_bytes", &series), live);
	assert_int_equal(series, MANY);
	(void)sum_of(said, "heapgauge_tag_live_bytes", &series);
	assert_int_equal(series, MANY * MANY_TAGS);
	assert_non_null(strstr(said, "\nheapgauge_agent_series_left_out 0\n"));
	vector_release(&processes.at);
}

static uint64_t calls_of_rest(struct processes *processes)
{
	static const char labels[] = ",service_name=\"others\"} ";
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;

	metrics_write(&text, processes, NULL, 0, false);
	const char *at = strstr(buffer_string(&text), "\nheapgauge_allocations_total{host=");

	at = at ? strstr(at, labels) : NULL;
	return at ? strtoull(at + strlen(labels), NULL, 10) : UINT64_MAX;
}

/* Whichever processes are in the sum: it grows by what they allocate, and never goes back. */
static void counters_of_the_sum_only_grow(void **state)
{
	struct agent_settings settings = { .max_series = 2300 };
	struct processes processes = { .settings = &settings };
	struct reading now;

	(void)state;
	make_many(&processes);
	assert_int_equal(calls_of_rest(&processes), 0);
	for (size_t i = 0; i < MANY; i++) { /* each has made one more allocation */
		now = many[i].reading;
		now.calls++;
		metrics_count(&processes, &many[i].process, &now);
		many[i].reading = now;
	}
	assert_int_equal(calls_of_rest(&processes), 896);
	many[0].reading.live_bytes = 1000000; /* leaves the sum with all that it has allocated */
	assert_int_equal(calls_of_rest(&processes), 896);
	now = many[0].reading;
	now.calls += 100;
	metrics_count(&processes, &many[0].process, &now);
	assert_int_equal(calls_of_rest(&processes), 896);
	now = many[1].reading;
	now.calls = 0; /* another program with its pid */
	metrics_count(&processes, &many[1].process, &now);
	assert_int_equal(calls_of_rest(&processes), 896);
	vector_release(&processes.at);
}

static bool is_b(void *context, const char *key)
{
	(void)context;
	return strcmp(key, "b") == 0;
}

static void baselines_are_replaced_and_swept(void **state)
{
	struct baseline_head head = { .serial = 3, .at_real_ns = 4 }, read_back;
	char rows[8];

	(void)state;
	int lock = baseline_prepare("baselines", NULL);

	assert_true(lock >= 0);
	assert_int_equal(baseline_prepare("baselines", NULL), -1); /* another agent has it */
	assert_int_equal(baseline_open("baselines", "a", &read_back), -1);
	assert_int_equal(baseline_write("baselines", "a", head, span_of("12345678", 8), NULL), 0);
	assert_int_equal(baseline_write("baselines", "b", head, span_of("", 0), NULL), 0);
	int fd = baseline_open("baselines", "a", &read_back);

	assert_true(fd >= 0);
	assert_int_equal(read_back.serial, 3);
	assert_int_equal(read(fd, rows, sizeof rows), 8);
	assert_memory_equal(rows, "12345678", 8);
	close(fd);
	baseline_sweep("baselines", is_b, NULL);
	assert_int_equal(baseline_open("baselines", "a", &read_back), -1);
	fd = baseline_open("baselines", "b", &read_back);
	assert_true(fd >= 0);
	close(fd);
	close(lock);
}

/* What a hostile child may have written. */
static void a_damaged_reading_is_refused(void **state)
{
	static struct {
		struct reading reading;
		char more[64];
	} file;
	struct reading_parts parts;

	(void)state;
	assert_true(reading_parse(span_of(&file.reading, sizeof file.reading), &parts));
	assert_false(reading_parse(span_of(&file.reading, sizeof file.reading - 1), &parts));
	assert_false(reading_parse(span_of(&file, sizeof file), &parts));
	file.reading.pprof_bytes = 64;
	assert_true(reading_parse(span_of(&file, sizeof file), &parts));
	assert_int_equal(parts.pprof.size, 64);
	file.reading.pprof_bytes = UINT64_MAX;
	assert_false(reading_parse(span_of(&file, sizeof file), &parts));
	file.reading.pprof_bytes = 32;
	file.reading.baseline_bytes = UINT64_MAX - 31;
	assert_false(reading_parse(span_of(&file, sizeof file), &parts));
	file.reading.pprof_bytes = file.reading.baseline_bytes = 0;
	file.reading.tag_count = READING_TAGS_MAX + 1;
	assert_false(reading_parse(span_of(&file, sizeof file), &parts));
	file.reading.tag_count = 0;
	file.reading.health_count = UINT32_MAX;
	assert_false(reading_parse(span_of(&file, sizeof file), &parts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_sorted_and_unique),
		cmocka_unit_test(labels_have_a_limit),
		cmocka_unit_test(pods_are_found_in_groups),
		cmocka_unit_test(metrics_escape_and_count),
		cmocka_unit_test(more_series_than_the_limit_are_summed),
		cmocka_unit_test(counters_of_the_sum_only_grow),
		cmocka_unit_test_setup_teardown(baselines_are_replaced_and_swept, enter_folder,
						leave_folder),
		cmocka_unit_test(a_damaged_reading_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

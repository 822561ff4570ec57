/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent export util base */
/* Profiles as files: where they are, hostile names, and the limit of their size. */
#include "agent/push/file_sink.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/output_file.h"
#include "unit.h"
#include "test_agent_folder.h"

#define NOON_NS (UINT64_C(1763467200) * NS_PER_S) /* 2025-11-18 12:00:00 UTC */
#define HOUR_NS (3600 * NS_PER_S)

static struct file_sink *opened(const char *host, uint64_t max_bytes)
{
	struct error err = ERROR_INIT;
	struct file_sink *s = file_sink_open("sink", host, ".pb.gz", max_bytes, &err);

	assert_string_equal(err.message, "");
	assert_non_null(s);
	return s;
}

static int put(struct file_sink *s, const char *service, uint64_t serial, uint64_t at_ns,
	       const char *text)
{
	return file_sink_write(s,
			       &(struct file_sink_profile){ .service = service,
							    .pid = 42,
							    .serial = serial,
							    .at_ns = at_ns,
							    .bytes = span_of(text, strlen(text)) },
			       NULL);
}

static void check_content(const char *path, const char *text)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct error err = ERROR_INIT;

	assert_int_equal(file_read(path, 1 << 20, &b, &err), 0);
	assert_string_equal(buffer_string(&b), text);
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static void a_profile_is_a_file_of_its_service_and_hour(void **state)
{
	struct file_sink *s = opened("web-1.example", 1000);
	struct file_sink_counters c;
	struct stat st;

	(void)state;
	assert_int_equal(put(s, "shop", 7, NOON_NS, "profile"), 0);
	assert_int_equal(put(s, "shop", 8, NOON_NS + HOUR_NS - 1, "next"), 0);
	assert_int_equal(put(s, "shop", 9, NOON_NS + 12 * HOUR_NS, "midnight"), 0);
	check_content("sink/service=shop/2025-11-18/12/web-1.example-42-7.pb.gz", "profile");
	check_content("sink/service=shop/2025-11-18/12/web-1.example-42-8.pb.gz", "next");
	check_content("sink/service=shop/2025-11-19/00/web-1.example-42-9.pb.gz", "midnight");
	assert_int_equal(stat("sink/service=shop/2025-11-18/12/web-1.example-42-7.pb.gz", &st), 0);
	assert_int_equal(st.st_mode & 0007, 0);
	c = file_sink_counters(s);
	assert_int_equal(c.files, 3);
	assert_int_equal(c.bytes, 19);
	assert_int_equal(c.written, 3);
	assert_int_equal(c.deleted + c.failed, 0);
	file_sink_close(s);
}

static void hostile_names_stay_below_the_folder(void **state)
{
	static const struct {
		const char *service, *folder;
	} cases[] = {
		{ "", "_" },
		{ ".", "_" },
		{ "..", "_." },
		{ "../../etc", "_._.._etc" },
		{ "/etc/passwd", "_etc_passwd" },
		{ "a b\n\xc3\xa4=*?", "a_b______" },
		{ "v1.2-x_Y", "v1.2-x_Y" },
		{ ".hidden", "_hidden" },
	};
	char long_name[5000], path[300];
	struct file_sink *s = opened("../h/..", 100000);
	struct dirent **entries = NULL;
	int count;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(put(s, cases[i].service, i, NOON_NS, "x"), 0);
		snprintf(path, sizeof path, "sink/service=%s/2025-11-18/12/_._h_..-42-%zu.pb.gz",
			 cases[i].folder, i);
		check_content(path, "x");
	}
	memset(long_name, 'n', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	assert_int_equal(put(s, long_name, 1, UINT64_MAX, "x"), 0);
	snprintf(path, sizeof path, "sink/service=%.100s/2554-07-21/23/_._h_..-42-1.pb.gz",
		 long_name);
	check_content(path, "x");
	count = scandir("sink", &entries, NULL, NULL);
	assert_int_equal(count, 2 + 8); /* "" and "." are the same */
	while (count > 0)
		free(entries[--count]);
	free(entries);
	file_sink_close(s);
}

static void the_oldest_files_are_deleted_over_the_limit(void **state)
{
	struct file_sink *s = opened("h", 10);

	(void)state;
	assert_int_equal(put(s, "a", 1, NOON_NS, "1111"), 0);
	assert_int_equal(put(s, "b", 2, NOON_NS + HOUR_NS, "2222"), 0);
	assert_int_equal(put(s, "a", 3, NOON_NS + 24 * HOUR_NS, "33"), 0);
	assert_int_equal(file_sink_counters(s).deleted, 0);
	assert_int_equal(put(s, "a", 4, NOON_NS + 24 * HOUR_NS, "4"), 0);
	assert_int_equal(file_sink_counters(s).deleted, 1);
	assert_int_equal(file_sink_counters(s).bytes, 7);
	assert_false(exists("sink/service=a/2025-11-18")); /* with its folders */
	assert_true(exists("sink/service=b/2025-11-18/13/h-42-2.pb.gz"));
	assert_int_equal(put(s, "a", 5, NOON_NS, "larger than all"), -1);
	assert_int_equal(file_sink_counters(s).failed, 1);
	assert_int_equal(put(s, "a", 6, NOON_NS, "0123456789"), 0);
	assert_int_equal(file_sink_counters(s).files, 1);
	assert_false(exists("sink/service=b")); /* that of the service too */
	assert_true(exists("sink/service=a"));
	file_sink_close(s);
}

static void a_replaced_file_counts_once(void **state)
{
	struct file_sink *s = opened("h", 100);

	(void)state;
	assert_int_equal(put(s, "a", 1, NOON_NS, "first"), 0);
	assert_int_equal(put(s, "a", 2, NOON_NS, "x"), 0);
	assert_int_equal(put(s, "a", 1, NOON_NS, "second"), 0);
	assert_int_equal(file_sink_counters(s).files, 2);
	assert_int_equal(file_sink_counters(s).bytes, 7);
	check_content("sink/service=a/2025-11-18/12/h-42-1.pb.gz", "second");
	file_sink_close(s);
}

static void only_its_own_files_are_found_again_and_deleted(void **state)
{
	static const char *const others[] = {
		"sink/service=a/2025-11-18/12/h-1-42-1.pb.gz", /* of host h-1 */
		"sink/service=a/2025-11-18/12/h-42-1.pb.gz.part",
		"sink/service=a/2025-11-18/12/h-42-1.pb.gz.",
		"sink/service=a/2025-11-18/12/h-x-1.pb.gz",
		"sink/service=a/2025-11-18/h-42-1.pb.gz",
		"sink/README",
		"sink/other/2025-11-18/12/h-42-1.pb.gz",
	};
	static const char leftover[] = "sink/service=a/2025-11-18/12/h-42-9.pb.gz.77-0.tmp";
	struct file_sink *s = opened("h", 1000);

	(void)state;
	for (uint64_t i = 1; i <= 5; i++) /* not in the order of their times */
		assert_int_equal(put(s, "a", i, NOON_NS + i * 7 % 5 * HOUR_NS, "x"), 0);
	file_sink_close(s);
	assert_int_equal(mkdir("sink/other", 0700) | mkdir("sink/other/2025-11-18", 0700) |
				 mkdir("sink/other/2025-11-18/12", 0700),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(output_file_write(others[i], span_of("1234567", 7), 0600, NULL),
				 0);
	assert_int_equal(output_file_write(leftover, span_of("1", 1), 0600, NULL), 0);
	s = opened("h", 2);
	assert_int_equal(file_sink_counters(s).files, 5);
	assert_int_equal(file_sink_counters(s).bytes, 5);
	assert_false(exists(leftover));
	assert_int_equal(put(s, "a", 6, NOON_NS + 10 * HOUR_NS, "y"), 0);
	assert_int_equal(file_sink_counters(s).deleted, 4);
	check_content("sink/service=a/2025-11-18/16/h-42-2.pb.gz", "x"); /* 2 * 7 % 5 is 4 */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		check_content(others[i], "1234567");
	file_sink_close(s);
}

static void a_failed_write_leaves_no_file(void **state)
{
	struct rlimit before, small;
	struct file_sink *s = opened("h", 1000000);
	AUTO_FREE char *large = calloc(1, 100000);

	(void)state;
	assert_non_null(large);
	memset(large, 'x', 99999);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 50000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(put(s, "a", 1, NOON_NS, large), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(rmdir("sink/service=a/2025-11-18/12"), 0); /* is empty */
	assert_int_equal(file_sink_counters(s).failed, 1);
	assert_int_equal(put(s, "a", 1, NOON_NS, large), 0); /* and the folder is made again */
	file_sink_close(s);
}

static void a_folder_that_cannot_be_written_is_refused(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_null(file_sink_open("missing/sink", "h", ".pb.gz", 10, &err));
	assert_non_null(strstr(err.message, "create missing/sink"));
	assert_int_equal(output_file_write("file", span_of("x", 1), 0600, NULL), 0);
	assert_null(file_sink_open("file", "h", ".pb.gz", 10, &err));
	assert_non_null(strstr(err.message, "write to file"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, enter_folder, leave_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_profile_is_a_file_of_its_service_and_hour),
		TEST(hostile_names_stay_below_the_folder),
		TEST(the_oldest_files_are_deleted_over_the_limit),
		TEST(a_replaced_file_counts_once),
		TEST(only_its_own_files_are_found_again_and_deleted),
		TEST(a_failed_write_leaves_no_file),
		TEST(a_folder_that_cannot_be_written_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

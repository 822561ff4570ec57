/* links: util base */
/* SPDX-License-Identifier: Apache-2.0 */
#include "util/files.h"
#include "util/output_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "unit.h"

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* Each test has a fresh folder as its current one. */
static int enter_folder(void **state)
{
	char *folder = strdup("/tmp/heapgauge-unit-XXXXXX");

	*state = folder;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	int status = chdir("/") == 0 ? nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS) : -1;

	free(*state);
	return status;
}

static void put(const char *path, const char *text)
{
	struct error err = ERROR_INIT;

	assert_int_equal(output_file_write(path, span_of(text, strlen(text)), 0666, &err), 0);
}

static void check_content(const char *path, const char *text)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct error err = ERROR_INIT;

	assert_int_equal(file_read(path, 1 << 20, &b, &err), 0);
	assert_string_equal(buffer_string(&b), text);
}

static unsigned count_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2; /* . and .. */
}

static void a_written_file_replaces_the_old_one_and_leaves_nothing_else(void **state)
{
	(void)state;
	put("run.hg", "old");
	put("run.hg", "new");
	check_content("run.hg", "new");
	assert_int_equal(count_entries("."), 1);
}

static void a_reader_of_the_old_file_keeps_it(void **state)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	put("run.hg", "old content");
	assert_int_equal(file_map_open(&map, "run.hg", &err), 0);
	put("run.hg", "x");
	assert_true(span_equal(map.bytes, span_of("old content", 11)));
}

static void a_written_file_obeys_the_umask(void **state)
{
	mode_t before = umask(027);
	struct stat st;

	(void)state;
	put("run.hg", "x");
	umask(before);
	assert_int_equal(stat("run.hg", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

static void a_write_into_a_missing_folder_says_so(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(output_file_write("no/run.hg", span_of("x", 1), 0666, &err), -1);
	assert_non_null(strstr(err.message, "no/run.hg"));
	assert_non_null(strstr(err.message, "there is no directory no"));
}

static void a_new_file_replaces_none(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(output_file_write_new("run.hg", span_of("old", 3), 0666, &err), 0);
	errno = 0;
	assert_int_equal(output_file_write_new("run.hg", span_of("new", 3), 0666, &err), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(symlink("nowhere", "link"), 0);
	assert_int_equal(output_file_write_new("link", span_of("new", 3), 0666, &err), -1);
	assert_int_equal(errno, EEXIST);
	check_content("run.hg", "old");
	assert_int_equal(count_entries("."), 2);
}

static void a_failed_write_removes_its_temporary(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	/* Another process's temporary of the same name must not be taken over, nor block us. */
	put("run.hg", "old");
	assert_int_equal(mkdir("folder", 0777), 0);
	assert_int_equal(output_file_write("folder", span_of("x", 1), 0666, &err), -1);
	assert_non_null(strstr(err.message, "folder"));
	assert_int_equal(count_entries("."), 2);
}

static void a_pipe_is_written_to_and_stays(void **state)
{
	char got[8] = "";
	struct stat st;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600), 0);
	AUTO_CLOSE int fd = open("pipe", O_RDONLY | O_NONBLOCK);

	put("pipe", "in it");
	assert_int_equal(read(fd, got, sizeof got), 5);
	assert_string_equal(got, "in it");
	assert_int_equal(stat("pipe", &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
}

static void a_file_that_becomes_shorter_keeps_what_was_read(void **state)
{
	enum { PAGE = 4096, PAGES = 8 };
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	char bytes[PAGES * PAGE];

	(void)state;
	memset(bytes, 'x', sizeof bytes);
	assert_int_equal(output_file_write("shorter", span_of(bytes, sizeof bytes), 0666, NULL), 0);
	assert_int_equal(file_map_open(&map, "shorter", NULL), 0);
	assert_int_equal(truncate("shorter", PAGE), 0);
	assert_int_equal(map.bytes.size, sizeof bytes);
	assert_memory_equal(map.bytes.data, bytes, sizeof bytes);
}

static void holes_are_not_read(void **state)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	const off_t end = (off_t)1 << 40;
	int fd = open("holes", O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	(void)state;
	assert_int_equal(pwrite(fd, "first", 5, 0), 5);
	assert_int_equal(pwrite(fd, "last", 4, end - 4), 4);
	if (lseek(fd, 1 << 20, SEEK_HOLE) != 1 << 20)
		skip(); /* this file system has no holes */
	assert_int_equal(file_map_open(&map, "holes", NULL), 0);
	assert_int_equal(map.bytes.size, end);
	assert_memory_equal(map.bytes.data, "first", 6);
	assert_memory_equal(map.bytes.data + end - 5, "\0last", 5);
	close(fd);
}

static void maps_refuse_what_they_cannot_map(void **state)
{
	struct file_map map = FILE_MAP_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(file_map_open(&map, "missing.hg", &err), -1);
	assert_string_equal(err.message, "open missing.hg: No such file or directory");
	assert_int_equal(file_map_open(&map, "/dev/null", &err), -1);
	assert_string_equal(err.message, "/dev/null is not a regular file");
	assert_int_equal(file_map_open(&map, ".", &err), -1);
	put("empty", "");
	assert_int_equal(file_map_open(&map, "empty", &err), 0);
	assert_int_equal(map.bytes.size, 0);
	file_map_release(&map);
}

static void files_without_a_size_are_read_to_their_end(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(file_read("/proc/self/maps", 1 << 20, &b, &err), 0);
	assert_non_null(strstr(buffer_string(&b), "[stack]"));
}

static void a_file_above_the_limit_is_refused(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	put("five", "12345");
	assert_int_equal(file_read("five", 5, &b, &err), 0);
	assert_int_equal(file_read("five", 4, &b, &err), -1);
	assert_string_equal(err.message, "read five: more than 4 bytes");
}

static void set_time(const char *path, time_t seconds, long nanoseconds)
{
	struct timespec times[2] = { { seconds, nanoseconds }, { seconds, nanoseconds } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void check_newest(const char *folder, const char *expected)
{
	AUTO_FREE char *path = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(file_newest(folder, ".hg", &path, &err), 0);
	if (expected)
		assert_string_equal(path, expected);
	else
		assert_null(path);
}

static void the_newest_recording_is_found(void **state)
{
	(void)state;
	check_newest(".", NULL);
	put("a.hg", "");
	put("b.hg", "");
	put("c.txt", "");
	put(".hg", "");
	assert_int_equal(mkdir("d.hg", 0777), 0);
	set_time("a.hg", 1000, 2);
	set_time("b.hg", 1000, 1);
	check_newest(".", "a.hg");
	set_time("b.hg", 1001, 0);
	check_newest(".", "b.hg");
	set_time("a.hg", 1001, 0);
	check_newest(".", "b.hg");
	check_newest("./", "./b.hg");
	check_newest("d.hg", NULL);
}

static void a_missing_folder_is_an_error(void **state)
{
	struct error err = ERROR_INIT;
	char *path = NULL;

	(void)state;
	assert_int_equal(file_newest("nowhere", ".hg", &path, &err), -1);
	assert_string_equal(err.message, "open folder nowhere: No such file or directory");
	assert_null(path);
}

static void check_folder(const char *path, const char *folder, const char *base)
{
	AUTO_FREE char *got = path_folder(path);

	assert_string_equal(got, folder);
	assert_string_equal(path_base(path), base);
}

static void paths_are_taken_apart_and_joined(void **state)
{
	AUTO_FREE char *joined = path_join("build", "x.hg"), *rooted = path_join("/", "x.hg");

	(void)state;
	check_folder("run.hg", ".", "run.hg");
	check_folder("a/run.hg", "a", "run.hg");
	check_folder("/a/b/run.hg", "/a/b", "run.hg");
	check_folder("/run.hg", "/", "run.hg");
	check_folder("a/", "a", "");
	assert_string_equal(joined, "build/x.hg");
	assert_string_equal(rooted, "/x.hg");
}

/* H8 */
static void only_regular_files_are_opened_and_nobody_waits(void **state)
{
	AUTO(buffer_release) struct buffer b = BUFFER_INIT;
	struct error err = ERROR_INIT;
	struct stat st;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(file_open_regular("pipe", NULL, &err), -1);
	assert_string_equal(err.message, "pipe is not a regular file");
	assert_int_equal(file_open_regular("/dev/null", NULL, NULL), -1);
	assert_int_equal(file_open_regular(".", NULL, NULL), -1);
	assert_int_equal(file_read("pipe", 100, &b, NULL), -1);
	assert_true(file_is_irregular("pipe") && file_is_irregular("."));
	assert_false(file_is_irregular("nothing"));
	put("file", "text");
	assert_false(file_is_irregular("file"));
	AUTO_CLOSE int fd = file_open_regular("file", &st, NULL);

	assert_true(fd >= 0);
	assert_int_equal(st.st_size, 4);
}

/* H4 */
static void a_writer_is_known_while_it_has_the_file(void **state)
{
	(void)state;
	put("file", "text");
	AUTO_CLOSE int fd = file_open_regular("file", NULL, NULL);
	int writer = open("file", O_RDWR | O_CLOEXEC);

	assert_true(file_has_writer(fd));
	close(writer);
	assert_false(file_has_writer(fd));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

static void a_long_command_keeps_its_program(void **state)
{
	(void)state;
	assert_string_equal(path_tail("/usr/lib/tool run", 20), "/usr/lib/tool run");
	assert_string_equal(path_tail("/usr/lib/tool run", 13), "/lib/tool run");
	assert_string_equal(path_tail("/usr/lib/tool run", 12), "/tool run");
	assert_string_equal(path_tail("/usr/lib/tool run", 1), "/tool run");
	assert_string_equal(path_tail("/tool /a/b", 3), "/tool /a/b");
	assert_string_equal(path_tail("tool /a/b", 3), "tool /a/b");
	assert_string_equal(path_tail("/", 0), "/");
	assert_string_equal(path_tail("", 0), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(a_file_that_becomes_shorter_keeps_what_was_read),
		IN_FOLDER(holes_are_not_read),
		IN_FOLDER(a_written_file_replaces_the_old_one_and_leaves_nothing_else),
		IN_FOLDER(a_reader_of_the_old_file_keeps_it),
		IN_FOLDER(a_written_file_obeys_the_umask),
		IN_FOLDER(a_write_into_a_missing_folder_says_so),
		IN_FOLDER(a_new_file_replaces_none),
		IN_FOLDER(a_failed_write_removes_its_temporary),
		IN_FOLDER(a_pipe_is_written_to_and_stays),
		IN_FOLDER(maps_refuse_what_they_cannot_map),
		IN_FOLDER(files_without_a_size_are_read_to_their_end),
		IN_FOLDER(a_file_above_the_limit_is_refused),
		IN_FOLDER(the_newest_recording_is_found),
		IN_FOLDER(a_missing_folder_is_an_error),
		IN_FOLDER(paths_are_taken_apart_and_joined),
		IN_FOLDER(a_long_command_keeps_its_program),
		IN_FOLDER(only_regular_files_are_opened_and_nobody_waits),
		IN_FOLDER(a_writer_is_known_while_it_has_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/* Maps of code that a runtime made: right ones, old ones, and ones full of rubbish. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "symbols/debug/perf_map.h"
#include "symbols/symbolizer.h"
#include "util/files.h"
#include "util/output_file.h"

static const uint64_t second_ns = 1000000000;
static char path[] = "/tmp/test_perf_map.XXXXXX";

static int make_file(void **state)
{
	(void)state;
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_map(const char *text, uint64_t written_ns)
{
	struct timespec time = { .tv_sec = (time_t)(written_ns / second_ns) };
	struct timespec both[2] = { time, time };

	assert_int_equal(output_file_write(path, span_of(text, strlen(text)), 0600, NULL), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, both, 0), 0);
}

static const struct perf_map_life life = { 1000 * 1000000000ull, 2000 * 1000000000ull };

static void assert_name(const struct perf_map *map, uint64_t address, const char *name)
{
	struct span found = perf_map_find(map, address);

	assert_int_equal(found.size, strlen(name));
	assert_memory_equal(found.data, name, found.size);
}

static void later_line_counts(void **state)
{
	enum perf_map_state map_state;

	(void)state;
	write_map("1000 100 first\n"
		  "0x1100 0x80 LazyCompile:~fib /tmp/fib.js:1:13\n"
		  "1040 20 used again\n"
		  "1000 30 and again\n"
		  "ffff80001000 10 of aarch64\n"
		  "ffffffffffffff00 ff the end",
		  1500 * second_ns);
	struct perf_map *map = perf_map_open(path, life, &map_state);

	assert_non_null(map);
	assert_int_equal(map_state, PERF_MAP_READ);
	assert_name(map, 0x1000, "and again");
	assert_name(map, 0x102f, "and again");
	assert_name(map, 0x1030, "first");
	assert_name(map, 0x7fff80001000, "of aarch64"); /* frames keep 47 bits */
	assert_name(map, 0x1040, "used again");
	assert_name(map, 0x1060, "first");
	assert_name(map, 0x10ff, "first");
	assert_name(map, 0x1100, "LazyCompile:~fib /tmp/fib.js:1:13");
	assert_name(map, 0x1180, "");
	assert_name(map, 0xfff, "");
	assert_name(map, 0xffffffffffffff80, "the end");
	perf_map_free(map);
}

static void rubbish_is_left_out(void **state)
{
	enum perf_map_state map_state;

	(void)state;
	write_map("\n\n   \nhello world\n1000\n1000 \n1000 10\n1000 10 \nzz 10 x\n1000 zz x\n"
		  "11112222333344445 10 too long\nffffffffffffffff 10 over the end\n0x 10 x\n"
		  "-1 10 x\n2000 0 empty\n3000 10 good\n4000 10 \xff\xfe",
		  1500 * second_ns);
	struct perf_map *map = perf_map_open(path, life, &map_state);

	assert_non_null(map);
	assert_name(map, 0x1000, "");
	assert_name(map, 0x2000, "");
	assert_name(map, 0x3000, "good");
	assert_name(map, 0x4000, "\xff\xfe");
	perf_map_free(map);
}

static void map_of_another_life_is_refused(void **state)
{
	static const struct {
		uint64_t second;
		enum perf_map_state state;
	} rows[] = {
		{ 998, PERF_MAP_STRANGE },  { 1000, PERF_MAP_READ },	{ 2000, PERF_MAP_READ },
		{ 2004, PERF_MAP_READ },    { 2006, PERF_MAP_STRANGE }, { 0, PERF_MAP_STRANGE },
		{ 9000, PERF_MAP_STRANGE },
	};
	enum perf_map_state map_state;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		write_map("1000 10 f\n", rows[i].second * second_ns);
		struct perf_map *map = perf_map_open(path, life, &map_state);

		assert_int_equal(map_state, rows[i].state);
		assert_int_equal(map != NULL, map_state == PERF_MAP_READ);
		perf_map_free(map);
	}
	/* A process that runs may write at any time. */
	struct perf_map_life running = { .started_real_ns = life.started_real_ns };
	struct perf_map *map;

	write_map("1000 10 f\n", 9000 * second_ns);
	map = perf_map_open(path, running, &map_state);
	assert_non_null(map);
	perf_map_free(map);
	assert_null(perf_map_open("/no/such/map", life, &map_state));
	assert_int_equal(map_state, PERF_MAP_MISSING);
	assert_null(perf_map_open("/tmp", life, &map_state));
	assert_int_equal(map_state, PERF_MAP_MISSING);
}

/* H8: /tmp is everybody's. */
static void map_of_another_user_is_refused(void **state)
{
	struct perf_map_life ours = life, others = life;
	enum perf_map_state map_state;

	(void)state;
	ours.uid = (uint32_t)geteuid() + 1;
	others.uid = (uint32_t)geteuid() + 100;
	write_map("1000 10 f\n", 1500 * second_ns);
	struct perf_map *map = perf_map_open(path, ours, &map_state);

	assert_non_null(map);
	perf_map_free(map);
	map = perf_map_open(path, others, &map_state); /* root's are believed */
	assert_int_equal(map_state, geteuid() == 0 ? PERF_MAP_READ : PERF_MAP_STRANGE);
	perf_map_free(map);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 4321, (gid_t)-1), 0);
		assert_null(perf_map_open(path, life, &map_state));
		assert_int_equal(map_state, PERF_MAP_STRANGE);
		assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	}
}

static void map_is_found_by_process_id(void **state)
{
	/* Above what the kernel gives out: no process has it. */
	const uint32_t pid = 4194304u + 77;
	struct symbolizer_options options = { .style = NAMES_SHORT };
	struct symbolizer *s = symbolizer_new(&options);
	char name[64], line[] = "1000 100 f(int) of the runtime\n";
	struct perf_map_life now = { .started_real_ns = (uint64_t)time(NULL) * second_ns };
	symbol_module_id jit;

	(void)state;
	snprintf(name, sizeof name, "/tmp/perf-%u.map", pid);
	jit = symbolizer_jit(s, pid, now);
	assert_null(symbolizer_find(s, jit, 0x1010, false).at[0].function);
	assert_int_equal(symbolizer_module_state(s, jit).source, SYMBOLS_MISSING);
	assert_true(symbolizer_module_state(s, jit).jit);

	assert_int_equal(output_file_write(name, span_of(line, strlen(line)), 0600, NULL), 0);
	jit = symbolizer_jit(s, pid, now);
	/* A return address: one byte back is still inside, and the first byte is not. */
	assert_string_equal(symbolizer_find(s, jit, 0x1100, false).at[0].function,
			    "f(int) of the runtime");
	assert_null(symbolizer_find(s, jit, 0x1000, false).at[0].function);
	assert_non_null(symbolizer_find(s, jit, 0x1000, true).at[0].function);
	assert_int_equal(symbolizer_module_state(s, jit).source, SYMBOLS_JIT);
	assert_int_equal(symbolizer_module_state(s, jit).unnamed, 1);
	unlink(name);
	symbolizer_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_line_counts),
		cmocka_unit_test(rubbish_is_left_out),
		cmocka_unit_test(map_of_another_life_is_refused),
		cmocka_unit_test(map_of_another_user_is_refused),
		cmocka_unit_test(map_is_found_by_process_id),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}

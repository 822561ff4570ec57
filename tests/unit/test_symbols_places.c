/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/*
 * Where debug information is found when it is not in the module: folders by build-id, also for a module
 * that is gone, and packages of split units, whole and damaged. A small program is built for it by the
 * compiler that built this test.
 */
#include "unit.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "symbols/debug/debug_package.h"
#include "symbols/debug/debug_search.h"
#include "symbols/symbolizer.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"

static char folder[] = "/tmp/test_symbols_places.XXXXXX";

/* Runs a shell command with the folder as the current one; its output goes to *ret, if wanted. */
static int shell(struct buffer *ret, const char *format, ...) PRINTF_LIKE(2, 3);
static int shell(struct buffer *ret, const char *format, ...)
{
	struct buffer line = BUFFER_INIT;
	char text[2048], bytes[512];
	va_list args;
	size_t count;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	buffer_printf(&line, "cd %s && { %s; } 2>/dev/null", folder, text);
	FILE *pipe = popen(buffer_string(&line), "r");

	assert_non_null(pipe);
	while ((count = fread(bytes, 1, sizeof bytes, pipe)) > 0)
		if (ret)
			buffer_append(ret, bytes, count);
	buffer_release(&line);
	return pclose(pipe);
}

static const char source[] = "static volatile int n;\n"
			     "static inline __attribute__((always_inline)) void in(void)\n"
			     "{\n"
			     "	n++; /* line 4 */\n"
			     "}\n"
			     "__attribute__((noinline)) void out(void)\n"
			     "{\n"
			     "	in(); /* line 8 */\n"
			     "}\n"
			     "int main(void) { out(); return n; }\n";

static int make_folder(void **state)
{
	struct error error;
	AUTO_FREE char *path = NULL;

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	path = path_join(folder, "small.c");
	return output_file_write(path, span_of(source, sizeof source - 1), 0600, &error);
}

static int remove_folder(void **state)
{
	(void)state;
	return shell(NULL, "rm -rf %s", folder);
}

struct program {
	char path[256];
	uint8_t build_id[20];
	size_t build_id_bytes;
	uint64_t address; /* of the function out */
};

static struct program build(const char *name, const char *flags)
{
	struct program p = { { 0 } };
	struct buffer out = BUFFER_INIT;

	assert_int_equal(shell(NULL,
			       "gcc -g -O2 -Wl,--build-id=sha1 %s -c small.c -o small.o && "
			       "gcc -g -O2 -Wl,--build-id=sha1 %s small.o -o %s",
			       flags, flags, name),
			 0);
	snprintf(p.path, sizeof p.path, "%s/%s", folder, name);
	assert_int_equal(shell(&out, "readelf -n %s | sed -n 's/.*Build ID: //p'", name), 0);
	for (const char *hex = buffer_string(&out); p.build_id_bytes < sizeof p.build_id; hex += 2)
		assert_int_equal(sscanf(hex, "%2hhx", &p.build_id[p.build_id_bytes++]), 1);
	buffer_clear(&out);
	assert_int_equal(shell(&out, "nm %s | sed -n 's/ T out$//p'", name), 0);
	p.address = strtoull(buffer_string(&out), NULL, 16);
	assert_true(p.address > 0);
	buffer_release(&out);
	return p;
}

static struct symbolizer *new_symbolizer(const char *extra)
{
	struct symbolizer_options options = {
		.debug_folders = &extra,
		.debug_folder_count = extra ? 1 : 0,
	};
	struct symbolizer *s = symbolizer_new(&options);

	assert_non_null(s);
	return s;
}

/* The frames at the first instruction of in(), wherever it was inlined in out(). */
static struct symbol_list ask(struct symbolizer *s, const struct program *p, bool with_id,
			      symbol_module_id *ret_module)
{
	struct span id = span_of(p->build_id, with_id ? p->build_id_bytes : 0);

	*ret_module = symbolizer_module(s, p->path, id);
	for (uint64_t at = p->address; at < p->address + 16; at++) {
		struct symbol_list list = symbolizer_find(s, *ret_module, at, true);

		if (list.count == 2)
			return list;
	}
	return symbolizer_find(s, *ret_module, p->address, true);
}

static void assert_whole(struct symbol_list list)
{
	assert_int_equal(list.count, 2);
	assert_string_equal(list.at[0].function, "in");
	assert_int_equal(list.at[0].line, 4);
	assert_true(list.at[0].inlined);
	assert_string_equal(list.at[1].function, "out");
	assert_int_equal(list.at[1].line, 8);
	assert_string_equal(path_base(list.at[1].file), "small.c");
}

static void move_debug_file(const struct program *p, const char *where)
{
	struct debug_search search;

	assert_true(debug_search_init(&search, &where, 1));
	char *debug =
		debug_search_path(&search, 0, span_of(p->build_id, p->build_id_bytes), ".debug");

	assert_int_equal(shell(NULL,
			       "mkdir -p $(dirname %s) && objcopy --only-keep-debug %s %s && "
			       "strip --strip-all %s",
			       debug, p->path, debug, p->path),
			 0);
	free(debug);
	debug_search_release(&search);
}

static void folders_are_asked_by_build_id(void **state)
{
	struct program p = build("by_id", "");
	struct symbolizer *with, *without;
	symbol_module_id module;
	char extra[256];

	(void)state;
	snprintf(extra, sizeof extra, "%s/debug", folder);
	move_debug_file(&p, extra);
	without = new_symbolizer(NULL);
	assert_null(ask(without, &p, true, &module).at[0].function);
	with = new_symbolizer(extra);
	assert_whole(ask(with, &p, true, &module));
	assert_int_equal(symbolizer_module_state(with, module).source, SYMBOLS_DWARF);
	symbolizer_free(with);
	symbolizer_free(without);
}

static void module_that_is_gone_is_named_by_its_debug_file(void **state)
{
	struct program p = build("gone", "");
	struct program other = build("other", "-DOTHER -O0");
	symbol_module_id module;
	char extra[256];

	(void)state;
	snprintf(extra, sizeof extra, "%s/debug", folder);
	move_debug_file(&p, extra);
	for (int changed = 0; changed < 2; changed++) {
		struct symbolizer *s = new_symbolizer(extra);

		if (changed)
			assert_int_equal(shell(NULL, "cp %s %s", other.path, p.path), 0);
		else
			assert_int_equal(shell(NULL, "rm %s", p.path), 0);
		assert_whole(ask(s, &p, true, &module));
		/* Without a build-id there is nothing to look for; what lies at the path is trusted. */
		assert_int_equal(ask(s, &p, false, &module).count, 1);
		symbolizer_free(s);
	}
}

static void debug_file_under_a_false_build_id_is_refused(void **state)
{
	struct program p = build("lied", ""), other = build("liar", "-O0");
	symbol_module_id module;
	char extra[256];

	(void)state;
	snprintf(extra, sizeof extra, "%s/lies", folder);
	move_debug_file(&p, extra);
	assert_int_equal(
		shell(NULL, "cp %s $(find lies -name '*.debug') && rm %s", other.path, p.path), 0);
	struct symbolizer *s = new_symbolizer(extra);

	assert_null(ask(s, &p, true, &module).at[0].function);
	assert_int_equal(symbolizer_module_state(s, module).source, SYMBOLS_MISSING);
	symbolizer_free(s);
}

/* One common file of two programs, found by its own build-id when it is not where it was. */
static void common_file_of_dwz_is_found_by_build_id(void **state)
{
	symbol_module_id module;
	char extra[256];

	(void)state;
	if (shell(NULL, "command -v dwz") != 0)
		skip();
	struct program p = build("one", "");

	snprintf(extra, sizeof extra, "%s/alt", folder);
	assert_int_equal(
		shell(NULL, "cp one two && dwz -m common.debug -M /nowhere/common.debug one two"),
		0);
	assert_int_equal(shell(NULL,
			       "id=$(readelf -n common.debug | sed -n 's/.*Build ID: //p') && "
			       "to=alt/.build-id/$(echo $id | cut -c1-2) && mkdir -p $to && "
			       "mv common.debug $to/$(echo $id | cut -c3-).debug"),
			 0);
	struct symbolizer *s = new_symbolizer(extra);

	assert_whole(ask(s, &p, true, &module));
	symbolizer_free(s);
	/* Without it the inlined function has lost its name, not its line. */
	s = new_symbolizer(NULL);
	struct symbol_list list = ask(s, &p, true, &module);

	assert_string_equal(list.at[list.count - 1].function, "out");
	symbolizer_free(s);
}

static void package_may_be_in_a_folder(void **state)
{
	symbol_module_id module;
	char extra[256];

	(void)state;
	if (shell(NULL, "command -v llvm-dwp") != 0)
		skip();
	struct program p = build("packed", "-gsplit-dwarf");

	snprintf(extra, sizeof extra, "%s/packages", folder);
	assert_int_equal(shell(NULL,
			       "mkdir -p packages && llvm-dwp -e packed -o packages/packed.dwp && "
			       "rm -f *.dwo"),
			 0);
	struct symbolizer *s = new_symbolizer(NULL);

	assert_int_equal(ask(s, &p, true, &module).count, 1);
	symbolizer_free(s);
	s = new_symbolizer(extra);
	assert_whole(ask(s, &p, true, &module));
	symbolizer_free(s);
}

/* Every byte of the index in turn: names may be lost, nothing else may happen. */
static void damaged_package_costs_names_only(void **state)
{
	struct buffer whole = BUFFER_INIT, place = BUFFER_INIT;
	symbol_module_id module;
	unsigned long offset, size;
	size_t lost = 0;
	char path[300];

	(void)state;
	if (shell(NULL, "command -v llvm-dwp") != 0)
		skip();
	struct program p = build("damaged", "-gsplit-dwarf");

	assert_int_equal(shell(NULL, "llvm-dwp -e damaged -o damaged.dwp && rm -f *.dwo"), 0);
	snprintf(path, sizeof path, "%s.dwp", p.path);
	assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
	shell(&place,
	      "readelf -SW damaged.dwp | "
	      "sed -n 's/.*\\.debug_cu_index *PROGBITS *[0-9a-f]* \\([0-9a-f]*\\) \\([0-9a-f]*\\).*/\\1 \\2/p'");
	assert_int_equal(sscanf(buffer_string(&place), "%lx %lx", &offset, &size), 2);
	assert_in_range(size, 16, 4096);
	for (unsigned long i = 0; i < size; i++) {
		static const uint8_t values[] = { 0xff, 0x01, 0x80 };
		struct symbolizer *s = new_symbolizer(NULL);
		uint8_t saved = whole.data[offset + i];

		whole.data[offset + i] ^= values[i % 3];
		assert_int_equal(output_file_write(path, buffer_span(&whole), 0600, NULL), 0);
		whole.data[offset + i] = saved;
		struct symbol_list list = ask(s, &p, true, &module);

		lost += list.count == 1;
		assert_string_equal(list.at[list.count - 1].function, "out");
		symbolizer_free(s);
	}
	assert_in_range(lost, 8, size);
	buffer_release(&whole);
	buffer_release(&place);
}

static void debian_package_is_found_by_the_file(void **state)
{
	static const char *const wanted[][2] = {
		{ "/usr/bin/tool", "tool-dbgsym" },
		{ "/usr/lib/libfoo.so.1", "libfoo1-dbgsym" }, /* listed without /usr */
		{ "/lib/libc.so.6", "libc6-dbg" },	      /* listed with it */
		{ "/usr/bin/tool2", NULL },
		{ "/usr/bin", NULL },
		{ "", NULL },
	};
	char lists[sizeof folder + 8];

	(void)state;
	snprintf(lists, sizeof lists, "%s/lists", folder);
	assert_null(debug_package_of(lists, "/usr/bin/tool"));
	assert_int_equal(shell(NULL, "mkdir lists && cd lists && "
				     "printf '/.\\n/usr/bin/tool\\n' > tool.list && "
				     "printf '/lib/libfoo.so.1' > libfoo1:amd64.list && "
				     "printf '/usr/lib/libc.so.6\\n' > libc6:amd64.list && "
				     "printf '/usr/bin/tool2\\n' > tool2.md5sums"),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		AUTO_FREE char *found = debug_package_of(lists, wanted[i][0]);

		if (wanted[i][1])
			assert_string_equal(found, wanted[i][1]);
		else
			assert_null(found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_are_asked_by_build_id),
		cmocka_unit_test(module_that_is_gone_is_named_by_its_debug_file),
		cmocka_unit_test(debug_file_under_a_false_build_id_is_refused),
		cmocka_unit_test(common_file_of_dwz_is_found_by_build_id),
		cmocka_unit_test(package_may_be_in_a_folder),
		cmocka_unit_test(damaged_package_costs_names_only),
		cmocka_unit_test(debian_package_is_found_by_the_file),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/*
 * The symbolizer against the one program whose functions and lines it can know exactly: this one.
 * Addresses are taken while running and turned back into ELF addresses by the loader's own words.
 */
#include "unit.h"

#include <link.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "symbols/names/demangle.h"
#include "symbols/ranges.h"
#include "symbols/symbolizer.h"

struct self {
	char path[512];
	uint64_t bias;
	uint8_t build_id[64];
	size_t build_id_bytes;
};
static struct self self;

static void take_build_id(const ElfW(Nhdr) * note, const char *end)
{
	while ((const char *)note + sizeof *note <= end) {
		const char *name = (const char *)(note + 1);
		const char *desc = name + ((note->n_namesz + 3) & ~3u);

		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp(name, "GNU", 4) == 0) {
			self.build_id_bytes = MIN(note->n_descsz, (uint32_t)32);
			memcpy(self.build_id, desc, self.build_id_bytes);
			return;
		}
		note = (const void *)(desc + ((note->n_descsz + 3) & ~3u));
	}
}

static int take_self(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	self.bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const char *start = (const char *)info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_NOTE && !self.build_id_bytes)
			take_build_id((const void *)start, start + p->p_memsz);
	}
	return 1; /* the program itself comes first */
}

static int find_self(void **state)
{
	(void)state;
	ssize_t length = readlink("/proc/self/exe", self.path, sizeof self.path - 1);

	dl_iterate_phdr(take_self, NULL);
	return length > 0 && self.build_id_bytes > 0 ? 0 : -1;
}

static struct span self_build_id(void)
{
	return span_of(self.build_id, self.build_id_bytes);
}

/* The chain outer() > middle() > inner(), the last two inlined; each says its line. */
static volatile uintptr_t taken;
static int inner_line, middle_line, outer_line;

static NOINLINE void take_return_address(void)
{
	taken = (uintptr_t)__builtin_return_address(0);
}

static ALWAYS_INLINE void inner(void)
{
	inner_line = __LINE__ + 1;
	take_return_address();
	__asm__ volatile("" ::: "memory");
}

static ALWAYS_INLINE void middle(void)
{
	middle_line = __LINE__ + 1;
	inner();
	__asm__ volatile("" ::: "memory");
}

static NOINLINE uint64_t outer(void)
{
	outer_line = __LINE__ + 1;
	middle();
	__asm__ volatile("" ::: "memory");
	return taken - self.bias;
}

static void assert_frame(const struct symbol_frame *f, const char *function, int line, bool inlined)
{
	assert_non_null(f->function);
	assert_string_equal(f->function, function);
	assert_string_equal(f->linkage, function);
	assert_non_null(f->file);
	assert_non_null(strstr(f->file, "test_symbols.c"));
	assert_int_equal(f->line, line);
	assert_int_equal(f->inlined, inlined);
}

static void inline_chain_has_names_and_lines(void **state)
{
	(void)state;
	uint64_t address = outer();
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, self.path, self_build_id());
	struct symbol_list list = symbolizer_find(s, module, address, false);

	assert_int_equal(list.count, 3);
	assert_frame(&list.at[0], "inner", inner_line, true);
	assert_frame(&list.at[1], "middle", middle_line, true);
	assert_frame(&list.at[2], "outer", outer_line, false);
	assert_int_equal(symbolizer_module_state(s, module).source, SYMBOLS_DWARF);
	assert_int_equal(symbolizer_module_state(s, module).unnamed, 0);
	symbolizer_free(s);
}

static void second_question_gets_the_same_answer(void **state)
{
	(void)state;
	uint64_t address = outer();
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, self.path, self_build_id());
	struct symbol_list first = symbolizer_find(s, module, address, false);

	/* Enough others to make the cache grow. */
	for (uint64_t i = 0; i < 5000; i++)
		symbolizer_find(s, module, address + 16 + i, true);
	struct symbol_list second = symbolizer_find(s, module, address, false);

	assert_ptr_equal(first.at, second.at);
	assert_int_equal(first.count, second.count);
	assert_int_equal(symbolizer_module_state(s, module).frames, 5001);
	assert_int_equal(symbolizer_module(s, self.path, self_build_id()).v, module.v);
	assert_int_equal(symbolizer_module_count(s), 1);
	symbolizer_free(s);
}

/* The first byte of a function is the function if exact, and the end of what is before it if not. */
static void exact_address_is_not_moved_back(void **state)
{
	(void)state;
	uint64_t entry = (uint64_t)(uintptr_t)take_return_address - self.bias;
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, self.path, self_build_id());
	struct symbol_list exact = symbolizer_find(s, module, entry, true);
	struct symbol_list call = symbolizer_find(s, module, entry, false);

	assert_string_equal(exact.at[exact.count - 1].function, "take_return_address");
	if (call.at[call.count - 1].function)
		assert_string_not_equal(call.at[call.count - 1].function, "take_return_address");
	symbolizer_free(s);
}

static void other_build_is_refused(void **state)
{
	(void)state;
	uint64_t address = outer();
	uint8_t other[64];

	memcpy(other, self.build_id, sizeof other);
	other[3] ^= 1;
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id changed =
		symbolizer_module(s, self.path, span_of(other, self.build_id_bytes));
	struct symbol_list list = symbolizer_find(s, changed, address, false);

	assert_int_equal(list.count, 1);
	assert_null(list.at[0].function);
	assert_null(list.at[0].file);
	assert_int_equal(symbolizer_module_state(s, changed).source, SYMBOLS_CHANGED);
	assert_int_equal(symbolizer_module_state(s, changed).unnamed, 1);

	/* A recording that kept no build-id cannot be compared: trusted. */
	symbol_module_id unknown = symbolizer_module(s, self.path, span_of(NULL, 0));

	assert_string_equal(symbolizer_find(s, unknown, address, false).at[0].function, "inner");
	symbolizer_free(s);
}

static void what_is_no_program_gives_no_name(void **state)
{
	(void)state;
	static const char *const paths[] = { "",      "/no/such/file", "/dev/zero",
					     "/proc", "[vdso]",	       "/proc/self/status" };
	struct symbolizer *s = symbolizer_new(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		symbol_module_id m = symbolizer_module(s, paths[i], span_of(NULL, 0));
		struct symbol_list list = symbolizer_find(s, m, 0x1234, false);

		assert_int_equal(list.count, 1);
		assert_null(list.at[0].function);
		assert_int_equal(symbolizer_module_state(s, m).source, SYMBOLS_MISSING);
	}
	assert_null(symbolizer_find(s, (symbol_module_id){ 0 }, 1, false).at[0].function);
	assert_null(symbolizer_find(s, (symbol_module_id){ 99 }, 1, false).at[0].function);
	symbolizer_free(s);
}

/* Makes a stripped copy of this program in a folder of its own. */
static bool make_copy(char *ret_path, size_t room, const char *how)
{
	char folder[] = "/tmp/test_symbols.XXXXXX";
	char line[2048];

	if (!mkdtemp(folder))
		return false;
	snprintf(ret_path, room, "%s/copy", folder);
	snprintf(line, sizeof line, "strip %s -o %s %s", how, ret_path, self.path);
	return system(line) == 0;
}

static void remove_copy(char *path)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

static void without_dwarf_the_symbol_table_answers(void **state)
{
	(void)state;
	uint64_t address = outer();
	char path[512];

	assert_true(make_copy(path, sizeof path, "--strip-debug"));
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, path, self_build_id());
	struct symbol_list list = symbolizer_find(s, module, address, false);

	assert_int_equal(list.count, 1);
	assert_string_equal(list.at[0].function, "outer");
	assert_null(list.at[0].file);
	assert_int_equal(list.at[0].line, 0);
	assert_int_equal(symbolizer_module_state(s, module).source, SYMBOLS_ELF);
	symbolizer_free(s);
	remove_copy(path);
}

static void stripped_module_gives_no_neighbours_name(void **state)
{
	(void)state;
	uint64_t address = outer();
	char path[512];

	assert_true(make_copy(path, sizeof path, "--strip-all"));
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, path, self_build_id());
	struct symbol_list list = symbolizer_find(s, module, address, false);

	assert_int_equal(list.count, 1);
	assert_null(list.at[0].function);
	assert_in_range(symbolizer_module_state(s, module).source, SYMBOLS_NONE, SYMBOLS_ELF);
	symbolizer_free(s);
	remove_copy(path);
}

static void separate_debug_file_is_found_by_its_link(void **state)
{
	(void)state;
	uint64_t address = outer();
	char path[512], debug[600], line[4096];

	assert_true(make_copy(path, sizeof path, "--strip-all"));
	snprintf(debug, sizeof debug, "%s.debug", path);
	snprintf(line, sizeof line,
		 "objcopy --only-keep-debug %s %s && objcopy --add-gnu-debuglink=%s %s", self.path,
		 debug, debug, path);
	assert_int_equal(system(line), 0);
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, path, self_build_id());
	struct symbol_list list = symbolizer_find(s, module, address, false);

	assert_int_equal(list.count, 3);
	assert_frame(&list.at[0], "inner", inner_line, true);
	assert_frame(&list.at[2], "outer", outer_line, false);
	symbolizer_free(s);
	unlink(debug);
	remove_copy(path);
}

/*
 * Who else can tell. addr2line (binutils 2.40) misreads the inline ranges of clang's DWARF 5;
 * llvm-symbolizer reads both, but is often not there.
 */
#ifdef __clang__
#define OTHER "llvm-symbolizer"
#define OTHER_OPTIONS "-a --inlines --no-demangle --output-style=GNU --obj="
#else
#define OTHER "addr2line"
#define OTHER_OPTIONS "-a -i -f -e "
#endif

/* Reads what the other says about one address and compares; false if one of us knows nothing. */
static bool compare_address(FILE *pipe, struct symbol_list list, size_t *ret_inlined)
{
	char function[1024], place[1024];
	bool known = true;
	size_t i = 0;

	/* Pairs of lines up to the next address, which begins with 0x. */
	for (int c; (c = getc(pipe)) != EOF && c != '0'; i++) {
		if (c == '\n') {
			i--;
			continue;
		}
		ungetc(c, pipe);
		assert_non_null(fgets(function, sizeof function, pipe));
		assert_non_null(fgets(place, sizeof place, pipe));
		/* Between functions it may take the one before; we say that we know none. */
		known = known && function[0] != '?' && list.at[0].function;
		if (!known)
			continue;
		function[strcspn(function, "\n")] = 0;
		assert_true(i < list.count);
		assert_string_equal(list.at[i].function, function);
		const char *colon = strrchr(place, ':');

		if (colon && colon[1] != '?')
			assert_int_equal(list.at[i].line, strtoul(colon + 1, NULL, 10));
	}
	ungetc('0', pipe);
	if (!known)
		return false;
	assert_int_equal(i, list.count);
	*ret_inlined += i > 1;
	return true;
}

static void agrees_with_the_toolchain(void **state)
{
	enum { BYTES = 3000 };
	char list_path[] = "/tmp/test_symbols.XXXXXX";
	char line[1024];
	size_t known = 0, inlined = 0;
	uint64_t one = (uint64_t)(uintptr_t)take_return_address - self.bias;
	uint64_t other = (uint64_t)(uintptr_t)outer - self.bias;
	uint64_t start = MIN(one, other);

	(void)state;
	if (system(OTHER " --version >/dev/null 2>&1") != 0)
		skip();
	int fd = mkstemp(list_path);

	assert_true(fd >= 0);
	for (uint64_t a = start; a < start + BYTES; a++)
		assert_true(dprintf(fd, "0x%" PRIx64 "\n", a) > 0);
	close(fd);
	snprintf(line, sizeof line, OTHER " " OTHER_OPTIONS "%s <%s", self.path, list_path);
	FILE *pipe = popen(line, "r");

	assert_non_null(pipe);
	struct symbolizer *s = symbolizer_new(NULL);
	symbol_module_id module = symbolizer_module(s, self.path, self_build_id());

	for (uint64_t a = start; a < start + BYTES; a++) {
		assert_non_null(fgets(line, sizeof line, pipe));
		assert_int_equal(strtoull(line, NULL, 16), a);
		known += compare_address(pipe, symbolizer_find(s, module, a, true), &inlined);
	}
	pclose(pipe);
	unlink(list_path);
	assert_true(known > BYTES / 2);
	assert_true(inlined > 0);
	symbolizer_free(s);
}

static void names_are_demangled(void **state)
{
	static const struct {
		const char *linkage, *plain;
	} rows[] = {
		{ "_ZN5Cache6insertE3Key4Blob", "Cache::insert(Key, Blob)" },
		{ "_ZNSt6vectorIiSaIiEE9push_backERKi",
		  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
		{ "_ZN12_GLOBAL__N_14growEm", "(anonymous namespace)::grow(unsigned long)" },
		{ "_Znwm", "operator new(unsigned long)" },
		{ "_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()(int) const" },
		{ "_ZN3foo3barEv.cold", "foo::bar() [clone .cold]" },
		/* Rust, legacy: the hash goes */
		{ "_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE",
		  "alloc::vec::Vec<T>::push" },
		{ "_ZN4core3fmt9Formatter3pad17h05af221e174051e9E", "core::fmt::Formatter::pad" },
		/* Rust, v0 */
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>" },
		/* gfortran */
		{ "__grid_MOD_solve", "grid::solve" },
		{ "__grid_MOD_", NULL },
		{ "___MOD_solve", NULL },
		/* not mangled */
		{ "__libc_start_main", NULL },
		{ "malloc", NULL },
		{ "_Zebra", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *plain = demangle(rows[i].linkage);

		if (rows[i].plain) {
			assert_non_null(plain);
			assert_string_equal(plain, rows[i].plain);
		} else {
			assert_null(plain);
		}
		free(plain);
	}
}

static void name_of_a_megabyte_is_left_alone(void **state)
{
	(void)state;
	size_t length = 1 << 20;
	char *name = malloc(length + 1);

	memset(name, 'S', length);
	memcpy(name, "_Z", 2);
	name[length] = 0;
	assert_null(demangle(name));
	free(name);
}

/* Against a search through all of them. */
static void innermost_range_wins(void **state)
{
	(void)state;
	struct ranges r = RANGES_INIT;

	srandom(7);
	for (uint32_t i = 0; i < 400; i++) {
		uint64_t low = (uint64_t)random() % 1000;

		assert_true(ranges_add(&r, low, low + (uint64_t)random() % 50, i, 0));
	}
	ranges_sort(&r);
	for (uint64_t a = 0; a < 1100; a++) {
		const struct range *found = ranges_find(&r, a), *best = NULL;

		for (size_t i = 0; i < r.count; i++) {
			const struct range *c = &r.at[i];

			if (c->low <= a && a < c->high &&
			    (!best || c->low > best->low ||
			     (c->low == best->low && c->high < best->high)))
				best = c;
		}
		assert_int_equal(found != NULL, best != NULL);
		if (best) {
			assert_int_equal(found->low, best->low);
			assert_int_equal(found->high, best->high);
		}
	}
	ranges_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inline_chain_has_names_and_lines),
		cmocka_unit_test(second_question_gets_the_same_answer),
		cmocka_unit_test(exact_address_is_not_moved_back),
		cmocka_unit_test(other_build_is_refused),
		cmocka_unit_test(what_is_no_program_gives_no_name),
		cmocka_unit_test(without_dwarf_the_symbol_table_answers),
		cmocka_unit_test(stripped_module_gives_no_neighbours_name),
		cmocka_unit_test(separate_debug_file_is_found_by_its_link),
		cmocka_unit_test(agrees_with_the_toolchain),
		cmocka_unit_test(names_are_demangled),
		cmocka_unit_test(name_of_a_megabyte_is_left_alone),
		cmocka_unit_test(innermost_range_wins),
	};

	return cmocka_run_group_tests(tests, find_self, NULL);
}

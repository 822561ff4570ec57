/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/* Demangled names, read: real ones of g++, clang and rustc, and some that only an enemy writes. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/runtime_frames.h"
#include "analysis/result/type_names.h"
#include "base/compiler.h"

static void assert_span(struct span got, const char *want)
{
	char text[512] = "";

	assert_true(got.size < sizeof text);
	if (got.size)
		memcpy(text, got.data, got.size);
	assert_string_equal(text, want);
}

static void a_function_is_found_between_what_it_returns_and_takes(void **state)
{
	static const char *const cases[][2] = {
		{ "main", "main" },
		{ "Cache::insert(Key, Blob)", "Cache::insert" },
		{ "void std::vector<int, std::allocator<int> >::push_back(int&&)",
		  "std::vector<int, std::allocator<int> >::push_back" },
		{ "std::pair<int, bool> std::_Rb_tree<long, long>::_M_insert_unique<long>(long&&)",
		  "std::_Rb_tree<long, long>::_M_insert_unique<long>" },
		{ "Blob& std::vector<Blob>::emplace_back<>()",
		  "std::vector<Blob>::emplace_back<>" },
		{ "operator new(unsigned long)", "operator new" },
		{ "Pooled::operator new[](unsigned long)", "Pooled::operator new[]" },
		{ "Big::operator unsigned long() const", "Big::operator unsigned long" },
		{ "bool operator< <int>(A const&, B const&)", "operator< <int>" },
		{ "(anonymous namespace)::helper(int)", "(anonymous namespace)::helper" },
		{ "void (anonymous namespace)::helper<int>(int)",
		  "(anonymous namespace)::helper<int>" },
		{ "Functor::operator()(int) const", "Functor::operator()" },
		{ "std::function<int (long)>::function<f(int)::{lambda()#1}>(f(int)::{lambda()#1})",
		  "std::function<int (long)>::function<f(int)::{lambda()#1}>" },
		{ "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
		  "<alloc::vec::Vec<T> as core::clone::Clone>::clone" },
		{ "core::ops::function::FnOnce<fn(u8) -> u16>::call",
		  "core::ops::function::FnOnce<fn(u8) -> u16>::call" },
		{ "", "" },
		{ ">>>)(((", ">>>)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_span(name_qualified(cases[i][0]), cases[i][1]);
}

static struct span text_span(const char *text)
{
	return span_of(text, strlen(text));
}

static void the_subject_of_a_rust_method_is_its_type(void **state)
{
	static const char *const cases[][2] = {
		{ "<alloc::vec::Vec<T> as core::clone::Clone>::clone", "alloc::vec::Vec<T>" },
		{ "<alloc::vec::Vec<u8>>::with_capacity", "alloc::vec::Vec<u8>" },
		{ "<<Box<str> as From<&str>>::from as FnOnce<(&str,)>>::call_once", "Box<str>" },
		{ "<fn(u8) -> u16 as core::ops::FnOnce>::call", "fn(u8) -> u16" },
		{ "alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<T,A>::push" },
		{ "<never closed", "<never closed" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_span(name_subject(text_span(cases[i][0])), cases[i][1]);
}

static void arguments_are_split_where_brackets_are_closed(void **state)
{
	struct span list[3];

	(void)state;
	assert_int_equal(name_arguments(text_span("<int, std::pair<a, b>, (x, y)>::f"), list, 3),
			 3);
	assert_span(list[0], "int");
	assert_span(list[1], "std::pair<a, b>");
	assert_span(list[2], "(x, y)");
	assert_int_equal(name_arguments(text_span("<a,b,c,d>"), list, 3), 3);
	assert_span(list[2], "c");
	assert_int_equal(name_arguments(text_span("<>"), list, 3), 0);
	assert_int_equal(name_arguments(text_span("<int"), list, 3), 1);
	assert_int_equal(name_arguments(text_span("int>"), list, 3), 0);
	assert_int_equal(name_arguments(span_of(NULL, 0), list, 3), 0);
}

static void types_are_written_as_people_do(void **state)
{
	static const char *const cases[][2] = {
		{ "int", "int" },
		{ "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
		  "std::string" },
		{ "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> > const&",
		  "std::string const&" },
		{ "std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t> >",
		  "std::basic_string<wchar_t>" },
		{ "std::map<int, std::vector<A, std::allocator<A> >, std::less<int>, "
		  "std::allocator<std::pair<int const, std::vector<A> > > >",
		  "std::map<int, std::vector<A>>" },
		{ "alloc::vec::Vec<alloc::string::String, alloc::alloc::Global>", "Vec<String>" },
		{ "my::allocator<int>", "my::allocator<int>" },
		{ "[u64; 9]", "[u64; 9]" },
		{ "Blob*", "Blob*" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buffer out = BUFFER_INIT;

		type_append(&out, text_span(cases[i][0]));
		assert_string_equal(buffer_string(&out), cases[i][1]);
		buffer_release(&out);
	}
}

static void endless_nesting_ends(void **state)
{
	enum { DEPTH = 10000 };
	char *text = malloc(2 * DEPTH + 1);
	struct buffer out = BUFFER_INIT;

	(void)state;
	for (size_t i = 0; i < DEPTH; i++)
		memcpy(text + 2 * i, "a<", 2);
	text[2 * DEPTH] = '\0';
	type_append(&out, text_span(text));
	assert_non_null(strstr(buffer_string(&out), "..."));
	assert_true(out.size < 200);
	buffer_release(&out);
	for (size_t i = 0; i < DEPTH; i++)
		text[i] = '<';
	(void)name_subject(text_span(text));
	free(text);
}

static bool runtime_frame(const char *function)
{
	return is_runtime_frame(
		&(struct result_frame){ .function = function, .full = function, .module = "a" });
}

static void a_return_type_hides_no_library(void **state)
{
	(void)state;
	assert_true(runtime_frame("Blob& std::vector<Blob>::emplace_back<>()"));
	assert_true(runtime_frame("std::pair<int, bool> std::set<int>::insert(int&&)"));
	assert_true(runtime_frame("<str as alloc::borrow::ToOwned>::to_owned"));
	assert_true(runtime_frame("<T as alloc::string::ToString>::to_string"));
	assert_true(runtime_frame("<&str as <std::ffi::os_str::OsString>::push::SpecPushTo>::f"));
	assert_true(runtime_frame(
		"<&dyn core::ops::function::Fn<(), Output = i32> + core::panic::unwind_safe::UnwindSafe "
		"as core::ops::function::FnOnce<()>>::call_once"));
	assert_true(runtime_frame(
		"<&mut core::str::iter::Chars as core::iter::traits::iterator::Iterator>::next"));
	assert_false(runtime_frame("std::string make_name(int)"));
	assert_false(runtime_frame("std::vector<int> mine::collect()"));
	assert_false(runtime_frame("<app::Blob as core::clone::Clone>::clone"));
	assert_false(runtime_frame("<&mut app::Blob as core::fmt::Write>::write_str"));
}

/* N20: lists are headed by who asked for memory, not by what handed it out. */
static void wrappers_of_malloc_are_no_owners(void **state)
{
	static const char *const wrappers[] = {
		"zmalloc_usable",
		"ztrymalloc_usable_internal",
		"sqlite3Malloc",
		"sqlite3DbMallocRawNN",
		"sqlite3_realloc64",
		"_obstack_newchunk",
		"xmalloc",
		"xmallocz",
		"xpalloc",
		"m_malloc",
		"nfmalloc",
		"ximalloc",
		"git_strdup",
		"vim_memsave",
		"lalloc",
		"_alloc",
		"alloc_clear",
		"emalloc_real",
		"xreallocarray",
		"xstrdup_or_die",
		"mem_pool_alloc_block",
		"xdl_arena_alloc",
		"more_blocks",
		"leveldb::Arena::AllocateNewBlock(unsigned long)",
		"Minisat::RegionAllocator<unsigned int>::capacity(unsigned int)",
		"mem::Pool::realloc(void*, unsigned long)",
		"_PyObject_Malloc",
		"_PyMem_RawMalloc",
		"<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
		"<heapgauge::alloc::Alloc<std::alloc::System> as core::alloc::global::GlobalAlloc>::alloc",
		"<app::Counting as core::alloc::global::GlobalAlloc>::alloc",
		"__rustc::__rust_alloc",
		"<alloc::alloc::Global>::alloc_impl",
		"<str>::repeat",
		"<[app::Blob]>::to_vec",
	};
	static const char *const owners[] = {
		"sqlite3BtreeInsert", "xml_parse",	  "zadd",
		"PyList_Append",      "<app::Blob>::new", "app::alloc_buffers",
		"alloc_word_desc",    "fts_alloc",	  "vim_strsave_all",
		"realloc_tables",     "mallocator_new",	  "table<PoolAllocator>::insert(int)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
		assert_true(runtime_frame(wrappers[i]));
	for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
		assert_false(runtime_frame(owners[i]));
}

static bool in_allocator(const char *file, const char *language)
{
	return is_allocator_source(&(struct result_frame){
		.function = "f", .full = "f", .module = "a", .file = file, .language = language });
}

static void source_files_are_named_for_their_allocator(void **state)
{
	(void)state;
	assert_true(in_allocator("/src/xmalloc.c", "c"));
	assert_true(in_allocator("generic/tclThreadAlloc.c", "c"));
	assert_true(in_allocator("mem-pool.c", NULL));
	assert_true(in_allocator("mtl/XAlloc.h", "c++"));
	assert_false(in_allocator("alloc/parser.c", "c"));
	assert_false(in_allocator("allocations.c", "c"));
	assert_false(in_allocator("alloc.py", "python"));
	assert_false(in_allocator("alloc", NULL));
	assert_false(in_allocator(NULL, NULL));
}

static void instances_of_a_template_are_one(void **state)
{
	static const char *const names[][2] = {
		{ "ns::vec<ns::vec<int> >::push", "ns::vec::push" },
		{ "f<1, (char)60>", "f" },
		{ "plain", "plain" },
		{ "<app::Blob<T> as core::Clone>::clone", "<app::Blob as core::Clone>::clone" },
		{ "run<int>::{lambda(int)#1}::operator()", "run::{lambda(int)#1}::operator()" },
		{ "Less<int>::operator<", "Less::operator<" },
		{ "unclosed<int", "unclosed" },
		{ "", "" },
	};
	char name[64];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		name_without_arguments(span_of(names[i][0], strlen(names[i][0])), name,
				       sizeof name);
		assert_string_equal(name, names[i][1]);
	}
	name_without_arguments(span_of("abcdefgh", 8), name, 4);
	assert_string_equal(name, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_is_found_between_what_it_returns_and_takes),
		cmocka_unit_test(the_subject_of_a_rust_method_is_its_type),
		cmocka_unit_test(arguments_are_split_where_brackets_are_closed),
		cmocka_unit_test(types_are_written_as_people_do),
		cmocka_unit_test(endless_nesting_ends),
		cmocka_unit_test(a_return_type_hides_no_library),
		cmocka_unit_test(wrappers_of_malloc_are_no_owners),
		cmocka_unit_test(source_files_are_named_for_their_allocator),
		cmocka_unit_test(instances_of_a_template_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

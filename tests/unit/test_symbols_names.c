/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols */
/* Short names: what of a name is kept, for what compilers and demanglers really write. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "symbols/names/demangle.h"
#include "symbols/names/name_style.h"

static void names_are_shortened(void **state)
{
	static const struct {
		const char *full, *brief;
	} rows[] = {
		/* C */
		{ "malloc", "malloc" },
		{ "parse_json.constprop.0", "parse_json" },
		{ "grow.isra.0.cold", "grow" },
		{ "main.main", "main.main" },
		{ "", "" },
		/* C++ */
		{ "outer()", "outer" },
		{ "std::vector<int, std::allocator<int> >::push_back(int const&)",
		  "std::vector<...>::push_back" },
		{ "(anonymous namespace)::grow(unsigned long)", "(anonymous namespace)::grow" },
		{ "void Box<int>::each<main::{lambda(int)#1}>(main::{lambda(int)#1}&&)",
		  "Box<...>::each<...>" },
		{ "main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()" },
		{ "C::f(int) const::{lambda()#1}::operator()() const",
		  "C::f::{lambda#1}::operator()" },
		{ "outer::{lambda}::operator()", "outer::{lambda}::operator()" },
		{ "foo::bar() [clone .cold]", "foo::bar" },
		{ "foo::bar[abi:cxx11](int)", "foo::bar" },
		{ "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
		  ">::_M_create(unsigned long&, unsigned long)",
		  "std::basic_string<...>::_M_create" },
		{ "std::__1::vector<int>::size() const", "std::vector<...>::size" },
		{ "operator new(unsigned long)", "operator new" },
		{ "operator new[](unsigned long, std::align_val_t)", "operator new[]" },
		{ "A::operator delete(void*)", "A::operator delete" },
		{ "bool operator< <int>(A<int> const&, A<int> const&)", "operator<<...>" },
		{ "std::ostream& operator<< <char>(std::ostream&, char)", "operator<<<...>" },
		{ "A::operator<=>(A const&) const", "A::operator<=>" },
		{ "A<B<int> >::operator->() const", "A<...>::operator->" },
		{ "A::operator[](unsigned long)", "A::operator[]" },
		{ "A::operator bool() const", "A::operator bool" },
		{ "A::operator std::vector<int>()", "A::operator std::vector<...>" },
		{ "A::operator+(A const&)", "A::operator+" },
		{ "operator\"\" _km(long double)", "operator\"\" _km" },
		{ "operators_of(int)", "operators_of" },
		{ "std::function<int* (*)(char)>::operator()(char) const",
		  "std::function<...>::operator()" },
		{ "qsort_like(void*, int (*)(void const*, void const*))", "qsort_like" },
		{ "int (*signal_like(int))(long)", "int (*signal_like(int))(long)" },
		{ "decltype (f({parm#1})) call<int>(int)", "call<...>" },
		{ "unsigned long max<unsigned long>(unsigned long)", "max<...>" },
		{ "non-virtual thunk to A::f()", "A::f" },
		{ "X<&Y::operator<, (Y::operator->)>::f()", "X<...>::f" },
		{ "A<>::f()", "A<>::f" },
		/* Rust, legacy and v0 */
		{ "alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<...>::push" },
		{ "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
		  "<alloc::vec::Vec<...> as core::ops::drop::Drop>::drop" },
		{ "std::mem::align_of::<usize>", "std::mem::align_of<...>" },
		{ "<core::option::Option<T>>::map::<U, F>",
		  "<core::option::Option<...>>::map<...>" },
		{ "alloc::slice::<impl [T]>::to_vec", "alloc::slice::<impl [T]>::to_vec" },
		{ "<(A, B) as Trait>::f", "<(A, B) as Trait>::f" },
		{ "<fn(A) -> B as Trait>::f", "<fn(A) -> B as Trait>::f" },
		{ "main::work::{closure#0}", "main::work::{closure#0}" },
		{ "main::work::{{closure}}", "main::work::{{closure}}" },
		{ "<&mut T as core::fmt::Write>::write_str",
		  "<&mut T as core::fmt::Write>::write_str" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *brief = name_shorten(rows[i].full);

		assert_non_null(brief);
		assert_string_equal(brief, rows[i].brief);
		free(brief);
	}
}

/* Never longer, never empty, and done: for any brackets in any order. */
static void any_text_has_a_short_name(void **state)
{
	static const char *const pieces[] = { "<",	   ">",	 "(",	")", "{",	 "}",
					      "[",	   "]",	 "::",	" ", "operator", "a",
					      "->",	   "<=", "std", "*", "[clone",	 ".cold",
					      "__cxx11::", "&",	 "#1" };
	uint64_t seed = 11;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[256] = { 0 };
		size_t count = 1 + unit_random(&seed) % 12, length = 0;

		for (size_t j = 0; j < count; j++) {
			const char *piece = pieces[unit_random(&seed) % ARRAY_SIZE(pieces)];

			memcpy(text + length, piece, strlen(piece) + 1);
			length += strlen(piece);
		}
		char *brief = name_shorten(text);

		assert_non_null(brief);
		assert_true(strlen(brief) > 0);
		/* "<a>" becomes "<...>". */
		assert_true(strlen(brief) <= 4 * strlen(text));
		free(brief);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_shortened),
		cmocka_unit_test(any_text_has_a_short_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

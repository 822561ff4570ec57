/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
#include "unit.h"

#include "base/compiler.h"
#include "model/frames/languages.h"

static void names_and_files_tell_the_language(void **state)
{
	static const struct {
		const char *linkage, *full, *file, *module, *language;
	} cases[] = {
		{ "main", "main", "/src/main.c", "/bin/a", "c" },
		{ "main", "main", "/src/main.cc", "/bin/a", "c++" },
		{ "_ZN5Cache6insertEv", "Cache::insert()", "/src/cache.h", "/bin/a", "c++" },
		{ "_ZN5Cache6insertEv", "Cache::insert()", NULL, "/bin/a", "c++" },
		{ NULL, "std::vector<int>::push_back", "/usr/include/c++/12/bits/stl_vector.h",
		  "/bin/a", "c++" },
		{ NULL, "std::string::append", "/usr/include/c++/12/string", "/bin/a", "c++" },
		{ "inline_of_c", "inline_of_c", "/src/list.h", "/bin/a", "c" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", "/rustc/fmt.rs",
		  "/bin/a", "rust" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE.llvm.1", NULL, NULL, "/bin/a", "rust" },
		{ "_ZN3foo17hE", "foo::hE", NULL, "/bin/a", "c++" },
		{ "_RNvC1a4main", "a::main", NULL, "/bin/a", "rust" },
		{ "main", "main", "/src/main.rs", "/bin/a", "rust" },
		{ "__grid_MOD_solve", "__grid_MOD_solve", NULL, "/bin/a", "fortran" },
		{ "solve_", "solve_", "/src/solve.F90", "/bin/a", "fortran" },
		{ "hold", "hold", "/src/app.py", "/src/app.py", "python" },
		{ "<module>", "<module>", "<frozen os>", "<frozen os>", "python" },
		{ "malloc_of_somebody", "malloc_of_somebody", NULL, "/lib/a.so", NULL },
		{ "memcpy", "memcpy", "/src/memcpy.S", "/lib/a.so", NULL },
		{ NULL, NULL, NULL, "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *language = language_of(cases[i].linkage, cases[i].full, cases[i].file,
						   cases[i].module);

		if (cases[i].language && language)
			assert_string_equal(language, cases[i].language);
		else
			assert_ptr_equal(language, cases[i].language);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_files_tell_the_language),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

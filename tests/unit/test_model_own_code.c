/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "model/frames/own_code.h"

static bool covers(const char *text, struct own_frame frame)
{
	struct own_rule rule;

	assert_int_equal(own_rule_parse(text, &rule, NULL), 0);
	if (!frame.function)
		frame.function = "f";
	bool is_own = own_rule_covers(&rule, &frame);

	own_rule_release(&rule);
	return is_own;
}

static void root_covers_sources_below_it(void **state)
{
	const char *rule = "root:/home/me/app";
	struct own_frame f = { .exe = "/home/me/app/build/app",
			       .module = "/home/me/app/build/app" };

	(void)state;
	f.file = "/home/me/app/src/main.c";
	assert_true(covers(rule, f));
	f.file = "/home/me/application/main.c"; /* only begins alike */
	assert_false(covers(rule, f));
	f.file = "/usr/include/c++/12/bits/stl_vector.h";
	assert_false(covers(rule, f));
	f.file = "/home/me/app/.venv/lib/python3.11/site-packages/x.py";
	assert_false(covers(rule, f));
	/* Without an absolute path, the module decides. */
	f.file = "main.c";
	assert_true(covers(rule, f));
	f.file = NULL;
	assert_true(covers(rule, f));
	f.module = "/opt/vendor/libx.so";
	assert_false(covers(rule, f));
	/* A program from elsewhere in the same tree of processes is its own project. */
	f = (struct own_frame){ .exe = "/opt/tool", .module = "/opt/tool", .file = "/src/tool.c" };
	assert_true(covers(rule, f));
}

static void modules_are_those_of_no_distribution(void **state)
{
	(void)state;
	assert_true(covers("", (struct own_frame){ .exe = "/tmp/a", .module = "/tmp/a" }));
	assert_true(
		covers("modules", (struct own_frame){ .exe = "/tmp/a", .module = "/opt/b.so" }));
	assert_true(
		covers("", (struct own_frame){ .exe = "/tmp/a", .module = "/usr/local/lib/b.so" }));
	assert_false(covers("", (struct own_frame){ .exe = "/tmp/a", .module = "/usr/lib/b.so" }));
	assert_false(covers("", (struct own_frame){ .exe = "/tmp/a", .module = "" }));
	assert_false(covers("", (struct own_frame){ .exe = "/tmp/a", .module = "[jit]" }));
	/* The distribution's program is what is measured; its libraries are not. */
	assert_true(covers("", (struct own_frame){ .exe = "/usr/bin/a", .module = "/usr/bin/a" }));
	assert_true(covers("", (struct own_frame){ .exe = "/usr/bin/a",
						   .module = "/usr/bin/a",
						   .file = "/usr/src/a/main.c" }));
	assert_false(
		covers("", (struct own_frame){ .exe = "/usr/bin/a", .module = "/usr/lib/b.so" }));
	/* Inlined templates and a registry's crates are in the program's module. */
	assert_false(covers("", (struct own_frame){ .exe = "/tmp/a",
						    .module = "/tmp/a",
						    .file = "/usr/include/c++/12/vector" }));
	assert_false(
		covers("", (struct own_frame){ .exe = "/tmp/a",
					       .module = "/tmp/a",
					       .file = "/root/.cargo/registry/src/x/lib.rs" }));
	assert_false(covers("", (struct own_frame){ .exe = "/tmp/a",
						    .module = "/tmp/a",
						    .file = "/rustc/90b/library/alloc/vec.rs" }));
}

static void an_interpreter_is_never_the_project(void **state)
{
	struct own_frame f = { .exe = "/root/.pyenv/versions/3.11.7/bin/python3.11" };

	(void)state;
	f.module = f.exe;
	for (int i = 0; i < 2; i++) {
		const char *rule = i ? "root:/root/.pyenv" : "modules";

		assert_false(covers(rule, f));
		f.language = "python";
		f.file = "/tmp/app.py";
		assert_true(covers(rule, f));
		f.file = "<string>";
		assert_true(covers(rule, f));
		f.file = "<frozen importlib._bootstrap>";
		assert_false(covers(rule, f));
		f.file = "/root/.pyenv/versions/3.11.7/lib/python3.11/json/encoder.py";
		assert_false(covers(rule, f));
		f.file = NULL;
		f.language = "c";
		f.module = "/tmp/app/_native.so";
		assert_true(covers(rule, f));
		f.module = f.exe;
	}
}

static void copies_of_libraries_are_not_own(void **state)
{
	struct own_frame f = { .exe = "/home/me/vendor/app/build/app",
			       .module = "/home/me/vendor/app/build/app" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *rule = i ? "root:/home/me/vendor/app" : "modules";

		f.file = "/home/me/vendor/app/src/main.c"; /* the project is in such a folder */
		assert_true(covers(rule, f));
		f.file = "/home/me/vendor/app/externals/simplecpp/simplecpp.cpp";
		assert_false(covers(rule, f));
		f.file = "/home/me/vendor/app/src/third_party/zlib/inflate.c";
		assert_false(covers(rule, f));
		f.file = "/home/me/vendor/app/src/vendors.c";
		assert_true(covers(rule, f));
		f.file = "/home/me/vendor/app/build/../deps/x.c";
		assert_false(covers(rule, f));
	}
	/* Built elsewhere: nothing tells the project from what is around it. */
	f.file = "/srv/vendor/app/main.c";
	assert_true(covers("modules", f));
}

static void assert_package(const char *file, const char *package)
{
	struct span found = installed_package(file);

	assert_int_equal(found.size, strlen(package));
	assert_memory_equal(found.data, package, found.size);
}

static void packages_are_folders(void **state)
{
	(void)state;
	assert_package("/v/lib/python3.11/site-packages/black/parsing.py",
		       "/v/lib/python3.11/site-packages/black/");
	assert_package("/usr/lib/python3/dist-packages/apt/cache.py",
		       "/usr/lib/python3/dist-packages/apt/");
	assert_package("/v/lib/python3.11/site-packages/six.py", "");
	assert_package("/r/.cargo/registry/src/index.crates.io-1/rg-1.0/crates/core/main.rs",
		       "/r/.cargo/registry/src/index.crates.io-1/rg-1.0/");
	assert_package("/r/.cargo/git/checkouts/rg-12/3ab/src/main.rs",
		       "/r/.cargo/git/checkouts/rg-12/3ab/");
	assert_package("/home/me/app/main.c", "");
	assert_true(is_python_interpreter("/usr/bin/python3.11"));
	assert_true(is_python_interpreter("/usr/lib/libpython3.12.so.1.0"));
	assert_false(is_python_interpreter("/usr/bin/python3-config"));
}

static void regex_matches_function_file_or_module(void **state)
{
	struct own_frame f = {
		.exe = "/a", .module = "/lib/libmine.so", .file = "/x/y.c", .function = "zip"
	};

	(void)state;
	assert_true(covers("regex:libmine", f));
	assert_true(covers("regex:^/x/", f));
	assert_true(covers("regex:^zip$", f));
	assert_false(covers("regex:other", f));
	assert_false(covers("off", f));
}

static void other_texts_are_refused(void **state)
{
	static const char *const wrong[] = {
		"root:relative",       "root:",	      "regex:(", "nonsense",
		"regex:(a{255}){255}", "regex:(a)\\1"
	};
	char longest[400] = "regex:";
	struct own_rule rule;
	struct error error = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(own_rule_parse(wrong[i], &rule, &error), -1);
		assert_true(error.message[0] != '\0');
		own_rule_release(&rule); /* it is one that prefers nothing */
	}
	memset(longest + 6, 'a', 300);
	assert_int_equal(own_rule_parse(longest, &rule, &error), -1);
}

static void rule_is_described(void **state)
{
	static const char *const texts[][2] = { { "root:/a/b", "source files below /a/b/" },
						{ "regex:^x", "frames that match ^x" },
						{ "off", "none: --no-own" } };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct own_rule rule;

		assert_int_equal(own_rule_parse(texts[i][0], &rule, NULL), 0);
		char *text = own_rule_describe(&rule);

		assert_string_equal(text, texts[i][1]);
		free(text);
		own_rule_release(&rule);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_covers_sources_below_it),
		cmocka_unit_test(modules_are_those_of_no_distribution),
		cmocka_unit_test(an_interpreter_is_never_the_project),
		cmocka_unit_test(copies_of_libraries_are_not_own),
		cmocka_unit_test(packages_are_folders),
		cmocka_unit_test(regex_matches_function_file_or_module),
		cmocka_unit_test(other_texts_are_refused),
		cmocka_unit_test(rule_is_described),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

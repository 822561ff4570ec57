/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* Looking up names without the loader gives what dlsym gives: for a function of which there are old versions, one that the
 * object chooses when it is asked for, data, a name of several objects, and one of none. */
#include <dlfcn.h>
#include <string.h>

#include "base/compiler.h"
#include "recorder/lookup.h"
#include "unit.h"

/* posix_spawn, pthread_cond_wait: two versions. memcpy, strlen, time: chosen by the processor. dlsym: weak before 2.34. */
static const char *const names[] = { "malloc",
				     "free",
				     "posix_spawn",
				     "pthread_cond_wait",
				     "memcpy",
				     "strlen",
				     "time",
				     "environ",
				     "stdout",
				     "syscall",
				     "prlimit",
				     "prlimit64",
				     "mmap64",
				     "_dl_find_object",
				     "__tls_get_addr",
				     "_cmocka_run_group_tests",
				     "__libc_stack_end",
				     "dlsym",
				     "no_such_name_anywhere",
				     "",
				     "_Znwm" };

static void first_is_what_dlsym_finds(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *found = lookup_first(names[i]), *wanted = dlsym(RTLD_DEFAULT, names[i]);

		if (found != wanted)
			fail_msg("%s is %p, dlsym says %p", names[i], found, wanted);
	}
	assert_non_null(lookup_first("malloc"));
	assert_null(lookup_first("no_such_name_anywhere"));
}

static void next_is_what_dlsym_finds_behind_us(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *found = lookup_next(names[i]), *wanted = dlsym(RTLD_NEXT, names[i]);

		if (found != wanted)
			fail_msg("%s is %p, dlsym says %p", names[i], found, wanted);
	}
}

static void an_old_version_is_not_found(void **state)
{
	(void)state;
	/* Since glibc 2.26 only for programs from before; a sanitizer has one of its own. */
	assert_ptr_equal(lookup_first("cfree"), dlsym(RTLD_DEFAULT, "cfree"));
#ifndef __SANITIZE_ADDRESS__
	assert_null(lookup_first("cfree"));
#endif
}

/* A look-up that fails must not be seen by the program, and must not take away what it is about to see. */
static void a_failed_look_up_leaves_the_loaders_message_alone(void **state)
{
	(void)state;
	assert_null(dlsym(RTLD_DEFAULT, "wanted_by_the_program"));
	assert_null(lookup_first("no_such_name_anywhere"));
	assert_non_null(strstr(dlerror(), "wanted_by_the_program"));
	assert_null(lookup_next("no_such_name_anywhere"));
	assert_null(dlerror());
}

static void our_own_table_holds_what_we_export(void **state)
{
	uintptr_t start, bytes;

	(void)state;
	lookup_own_table(&start, &bytes);
	assert_true(bytes > sizeof(Elf64_Sym));
	const Elf64_Sym *symbol = lookup_own("malloc"); /* used here, not defined */

	assert_null(symbol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_is_what_dlsym_finds),
		cmocka_unit_test(next_is_what_dlsym_finds_behind_us),
		cmocka_unit_test(an_old_version_is_not_found),
		cmocka_unit_test(a_failed_look_up_leaves_the_loaders_message_alone),
		cmocka_unit_test(our_own_table_holds_what_we_export),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

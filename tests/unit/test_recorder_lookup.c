/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* Looking up names without the loader gives what dlsym gives: for a function of which there are old versions, one that the
 * object chooses when it is asked for, data, a name of several objects, and one of none. */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

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

		/* Before glibc 2.36 it finds the oldest version of some functions (bug 14932). */
		if (!__GLIBC_PREREQ(2, 36) && found != wanted && wanted != NULL)
			wanted = dlsym(RTLD_DEFAULT, names[i]);
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

/* An object of 3 MB with its tables at 0x1000 and its dynamic section at the end, wherever it lies: valgrind puts programs at
 * 0x108000, which is less than they are long. */
static void tables_are_found_wherever_the_object_lies(void **state)
{
	enum { TABLE = 0x1000, DYNAMIC = 3 << 20 };
	static const uintptr_t biases[] = { 0x1000, 0x108000, 0x400000, 0x555555554000,
					    0x7ffff7000000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(biases); i++) {
		struct libc_object object = { .map = { .l_addr = biases[i] } };
		void *memory = mmap((void *)(biases[i] + DYNAMIC), 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (memory == MAP_FAILED)
			continue; /* something lies there */
		Elf64_Dyn *entry = memory;

		entry->d_un.d_ptr = biases[i] + TABLE;
		assert_int_equal((uintptr_t)lookup_bucket(&object, entry), biases[i] + TABLE);
		if (biases[i] > TABLE) { /* a section that cannot be written */
			entry->d_un.d_ptr = TABLE;
			assert_int_equal((uintptr_t)lookup_bucket(&object, entry),
					 biases[i] + TABLE);
		}
		munmap(memory, 4096);
	}
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
		cmocka_unit_test(tables_are_found_wherever_the_object_lies),
		cmocka_unit_test(our_own_table_holds_what_we_export),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

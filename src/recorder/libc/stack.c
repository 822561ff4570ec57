/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel put the program's arguments. glibc knows it. musl keeps only pointers to the environment, which the program may
 * replace; but the auxiliary vector, which follows the environment, holds the address of the random bytes just above it.
 *
 * Owns: the address, once it is found. Any thread, any time. */
#include <elf.h>
#include <stddef.h>

#include "recorder/libc/libc.h"
#include "recorder/sys.h"

extern void *glibc_stack_end __asm__("__libc_stack_end") __attribute__((weak));

enum { VECTOR_WORDS = 4 << 10, TYPE_MAX = 1 << 10 };

/* The word of the auxiliary vector that announces the random bytes; NULL: not below them. */
static const uintptr_t *find_random_entry(uintptr_t random)
{
	const uintptr_t *at = (const uintptr_t *)(random & ~(uintptr_t)7);

	for (int i = 0; i < VECTOR_WORDS; i++) {
		at--;
		if (at[0] == AT_RANDOM && at[1] == random)
			return at;
	}
	return NULL;
}

/* Goes back over the vector, the environment, whose end is a zero word, and the arguments, which are as many as the word before
 * them says. */
static const uintptr_t *find_count(const uintptr_t *entry)
{
	uintptr_t arguments = 0;

	while (entry[-2] != 0 && entry[-2] < TYPE_MAX)
		entry -= 2;
	for (entry -= 2; *entry != 0; entry--)
		;
	for (entry--; *entry != arguments; entry--)
		arguments++;
	return entry;
}

/* If started as "ld.so program", glibc before 2.36 leaves its own arguments, and stores the new count over the last of them. */
static uintptr_t *skip_loader(uintptr_t *count)
{
	for (uintptr_t skipped = 1; skipped <= *count; skipped++) {
		if (count[skipped] == *count - skipped)
			return count + skipped;
	}
	return count;
}

uintptr_t *libc_argument_count(void)
{
	static const uintptr_t none[4]; /* no arguments, no environment, an empty vector */
	static const uintptr_t *found;
	const uintptr_t *count = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (&glibc_stack_end != NULL)
		return skip_loader(glibc_stack_end);
	if (count == NULL) {
		uintptr_t random = sys_auxiliary(AT_RANDOM);
		const uintptr_t *entry = random != 0 ? find_random_entry(random) : NULL;

		count = entry != NULL ? find_count(entry) : none;
		__atomic_store_n(&found, count, __ATOMIC_RELAXED);
	}
	return (uintptr_t *)(uintptr_t)count;
}

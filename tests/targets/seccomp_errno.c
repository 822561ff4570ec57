/* SPDX-License-Identifier: Apache-2.0 */
/* After a short start every system call fails but those of glibc's malloc, write and exit; the recorder cannot open more
 * memory. The program must not notice. Prints how many calls it made. */
#include "seccomp_filter.h"

static NOINLINE void *take_unopened(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void *descend(int depth, size_t n)
{
	void *p = depth > 0 ? descend(depth - 1, n) : take_unopened(n);
	KEEP(p);
	return p;
}

int main(void)
{
	static const int needed[] = { SYS_write,  SYS_brk,  SYS_mmap,	    SYS_munmap,
				      SYS_mremap, SYS_exit, SYS_exit_group, SYS_rt_sigreturn };
	static void *block[400000];
	unsigned long calls = 0;

	free(take_unopened(1));
	calls++;
	seccomp_allow_only(needed, sizeof needed / sizeof *needed, SECCOMP_RET_ERRNO | EPERM);
	for (size_t i = 0; i < 400000; i++) {
		block[i] = descend((int)(i % 200), i % 300);
		CHECK(block[i]);
		memset(block[i], (int)i, i % 300);
		calls++;
	}
	for (size_t i = 0; i < 400000; i++) {
		char *p = block[i];
		for (size_t k = 0; k < i % 300; k += 50)
			CHECK(p[k] == (char)i);
		free(p);
	}
	say("CALLS %lu\n", calls);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that once it runs the recorder makes no system call but those that open its next piece of memory: a filter that
 * allows these and what glibc's malloc itself needs, and kills for any other, kills nobody. */
#include "seccomp_filter.h"

static struct truth truth = TRUTH(take);
static void *block[60000];

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

/* Thousands of stacks that were never seen before the filter. */
static NOINLINE void *left(unsigned path, int depth, size_t n);
static NOINLINE void *right(unsigned path, int depth, size_t n)
{
	void *p = depth == 0 ? take(n)
		  : path & 1 ? left(path >> 1, depth - 1, n)
			     : right(path >> 1, depth - 1, n);
	KEEP(p);
	return p;
}
static NOINLINE void *left(unsigned path, int depth, size_t n)
{
	void *p = depth == 0 ? take(n)
		  : path & 1 ? right(path >> 1, depth - 1, n)
			     : left(path >> 1, depth - 1, n);
	KEEP(p);
	__asm__ volatile("nop");
	return p;
}

int main(void)
{
	static const int needed[] = { SYS_read,	  SYS_write,	  SYS_brk,	   SYS_mmap,
				      SYS_munmap, SYS_mremap,	  SYS_mprotect,	   SYS_madvise,
				      SYS_exit,	  SYS_exit_group, SYS_rt_sigreturn };

	free(take(1));
	truth_drop(&truth, 1);
	seccomp_allow_only(needed, sizeof needed / sizeof *needed, SECCOMP_RET_KILL_PROCESS);
	for (unsigned i = 0; i < 60000; i++)
		block[i] = left(i, 12, i * 7 % 5000);
	for (unsigned i = 0; i < 60000; i += 2) {
		free(block[i]);
		truth_drop(&truth, i * 7 % 5000);
	}
	truth_print(&truth, "");
	return 0;
}

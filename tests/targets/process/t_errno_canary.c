/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a successful malloc, calloc, realloc, free, mmap or munmap leaves errno alone, also where the recorder works
 * hardest: stacks never seen before, new threads, first large blocks. */
#include "target.h"
#include <pthread.h>
#include <sys/mman.h>

enum { CANARY = 4242 };
static struct truth truth = TRUTH(try_all);

#define QUIET(statement)                                                                           \
	do {                                                                                       \
		errno = CANARY;                                                                    \
		statement;                                                                         \
		CHECK(errno == CANARY);                                                            \
	} while (0)

static NOINLINE void try_all(size_t n)
{
	void *p, *q, *m;

	QUIET(p = malloc(n));
	KEEP(p);
	truth_take(&truth, n);
	QUIET(q = calloc(n, 2));
	KEEP(q);
	truth_take(&truth, n * 2);
	QUIET(p = realloc(p, n * 3));
	KEEP(p);
	truth_drop(&truth, n);
	truth_take(&truth, n * 3);
	QUIET(free(p));
	truth_drop(&truth, n * 3);
	QUIET(free(q));
	truth_drop(&truth, n * 2);
	QUIET(m = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	QUIET(munmap(m, 8192));
}

/* 2^depth different stacks. */
#define FORK(name) static NOINLINE void name(unsigned path, int depth, size_t n);
FORK(left)
FORK(right)
static NOINLINE void left(unsigned path, int depth, size_t n)
{
	if (depth == 0)
		try_all(n);
	else if (path & 1)
		left(path >> 1, depth - 1, n);
	else
		right(path >> 1, depth - 1, n);
	__asm__ volatile("" ::: "memory");
}
static NOINLINE void right(unsigned path, int depth, size_t n)
{
	if (depth == 0)
		try_all(n);
	else if (path & 1)
		right(path >> 1, depth - 1, n);
	else
		left(path >> 1, depth - 1, n);
	__asm__ volatile("nop" ::: "memory");
}

static void *in_thread(void *arg)
{
	for (unsigned path = 0; path < 64; path++)
		left(path, 6, 100);
	return arg;
}

int main(void)
{
	pthread_t thread;

	for (unsigned path = 0; path < (1u << long_form(11, 13)); path++)
		left(path, (int)long_form(11, 13), path % 9000 + 1);
	for (int i = 0; i < 50; i++) {
		CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	for (size_t n = 1 << 16; n <= (64 << 20); n *= 4)
		try_all(n);
	truth_print(&truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmark workloads: each knows the truth about its own allocations and prints it on stderr. */
#ifndef WORKLOAD_H
#define WORKLOAD_H
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps a value alive across a call, so that the call is no tail call and its frame stays on the stack. */
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")
/* Makes two otherwise equal functions differ, so that the linker cannot fold them. */
#define DISTINCT(n) __asm__ volatile(".rept " #n "\n\tnop\n\t.endr")

struct truth {
	uint64_t calls, bytes, frees, live, peak;
};

static inline void truth_add(struct truth *t, size_t n)
{
	t->calls++;
	t->bytes += n;
	t->live += n;
	if (t->live > t->peak)
		t->peak = t->live;
}

static inline void truth_sub(struct truth *t, size_t n)
{
	t->frees++;
	t->live -= n;
}

static inline uint32_t next_random(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

/* write(2), not stdio: the report itself must not allocate. */
static inline void truth_print(const char *workload, const struct truth *t)
{
	char line[256];
	int n = snprintf(
		line, sizeof line,
		"TRUTH workload=%s calls=%lu bytes=%lu frees=%lu peak=%lu leaked=%lu leaked_blocks=%lu\n",
		workload, (unsigned long)t->calls, (unsigned long)t->bytes, (unsigned long)t->frees,
		(unsigned long)t->peak, (unsigned long)t->live,
		(unsigned long)(t->calls - t->frees));
	if (n > 0 && write(2, line, (size_t)n) < 0)
		return;
}

/* A frame that all call paths share. */
#define COMMON(name, next)                                                                         \
	static NOINLINE void *name(size_t size, unsigned path)                                     \
	{                                                                                          \
		void *p = next(size, path);                                                        \
		KEEP(p);                                                                           \
		return p;                                                                          \
	}
#endif

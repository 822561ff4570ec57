/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the targets: a target counts what it does itself, and prints it at its end for the harness to compare.
 *
 *   EXPECT site=FUNCTION kind=heap calls=N bytes=N ...   sums over the sites whose innermost own frame is FUNCTION
 *   EXPECT site=A+B ...                                  the same over several functions
 *   EXPECT stack=A<B<main ...                            the whole chain of own functions, leaf first
 *   EXPECT process threads=N ...                         the process as a whole
 *   HEALTH name                                          this health counter must not be zero
 *   HEALTH_MAYBE name                                    this health counter may be there
 *
 * A comparison is one of = <= >= and ~= (within the process' peak_bound_bytes). Lines beginning otherwise are output
 * that must be the same with and without the recorder. Nothing here allocates. */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "older_glibc.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif

/* Keeps a value alive and unknown: the call that made it is no tail call, and no pair of calls is optimised away. */
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")

/* Prints on stdout without a stream: a FILE would allocate its buffer. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n > 0 && write(1, line, (size_t)n) != n)
		_exit(98);
}

/* A target that does not hold what it promises says where and fails. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			say("CHECK failed: %s:%d: %s\n", __FILE__, __LINE__, #condition);          \
			_exit(97);                                                                 \
		}                                                                                  \
	} while (0)

/* What one site did. Every field is updated atomically, so that threads may share it. */
struct truth {
	const char *site;
	const char *kind;
	uint64_t calls, bytes, frees, freed_bytes;
};

#define TRUTH(function)                                                                            \
	{                                                                                          \
#function, "heap", 0, 0, 0, 0                                                      \
	}
#define TRUTH_MMAP(function)                                                                       \
	{                                                                                          \
#function, "mmap", 0, 0, 0, 0                                                      \
	}

static inline void truth_take(struct truth *t, size_t bytes)
{
	__atomic_fetch_add(&t->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->bytes, bytes, __ATOMIC_RELAXED);
}

static inline void truth_drop(struct truth *t, size_t bytes)
{
	__atomic_fetch_add(&t->frees, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->freed_bytes, bytes, __ATOMIC_RELAXED);
}

/* Prints the line of one site; `more` is further words ("" for none), such as "temporary=3". */
static inline void truth_print(const struct truth *t, const char *more)
{
	say("EXPECT site=%s kind=%s calls=%lu bytes=%lu frees=%lu freed_bytes=%lu live_bytes=%lu live_blocks=%lu%s%s\n",
	    t->site, t->kind, (unsigned long)t->calls, (unsigned long)t->bytes,
	    (unsigned long)t->frees, (unsigned long)t->freed_bytes,
	    (unsigned long)(t->bytes - t->freed_bytes), (unsigned long)(t->calls - t->frees),
	    *more ? " " : "", more);
}

/* HEAPGAUGE_LONG=1 asks for the long form of a test. */
static inline long long_form(long usual, long longer)
{
	const char *value = getenv("HEAPGAUGE_LONG");
	return value && *value == '1' ? longer : usual;
}

static inline uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}
#endif

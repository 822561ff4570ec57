/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-watched format base */
/* lines MODE THREADS PAIRS: counts which cache lines the recorder writes from more than one thread while each of them keeps eight
 * blocks and replaces the oldest, from a random one of 32 stacks. What begins a thread (its first 2,000 pairs) is not counted.
 *
 * The recorder is compiled for ThreadSanitizer, and this file is its runtime: each write is a call of a function below. It says for
 * every structure how many of its lines several threads wrote, how often in 1,000 pairs, and which function did it last. Exits with 1
 * if they wrote them in more than one of ten pairs: then something is written for each block that should not be. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "hooked.h"
#include "recorder/memory.h"

enum { LINE = 64, LINES = 1 << 18, WARM = 2000, BLOCKS = 8, KINDS_MAX = 64 };

struct line {
	uintptr_t number; /* 0 = none */
	void *by;	  /* who wrote it when it was another thread's */
	uint64_t writes;
	int thread;
	bool several;
};

static struct line lines[LINES];
static _Thread_local int counting; /* the number of the thread; 0 = not now */

static void wrote(const volatile void *at, void *by)
{
	uintptr_t number = (uintptr_t)at / LINE;
	struct line *line;

	if (!counting)
		return;
	for (uintptr_t n = number * UINT64_C(0x9e3779b97f4a7c15) >> 40;; n++) {
		uintptr_t there = 0;

		line = &lines[n % LINES];
		if (__atomic_compare_exchange_n(&line->number, &there, number, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			line->thread = counting;
		if (there == 0 || there == number)
			break;
	}
	__atomic_fetch_add(&line->writes, 1, __ATOMIC_RELAXED);
	if (line->thread != counting) {
		line->several = true;
		line->by = by;
	}
}

/* ---- the runtime ---- */

#define IGNORED(name)                                                                              \
	void __tsan_##name(void *at);                                                              \
	void __tsan_##name(void *at)                                                               \
	{                                                                                          \
		(void)at;                                                                          \
	}
#define WRITTEN(name)                                                                              \
	void __tsan_##name(void *at);                                                              \
	void __tsan_##name(void *at)                                                               \
	{                                                                                          \
		wrote(at, __builtin_return_address(0));                                            \
	}
#define FETCH(bits, operation)                                                                     \
	uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t *at,        \
							       uint##bits##_t value, int order);   \
	uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t *at,        \
							       uint##bits##_t value, int order)    \
	{                                                                                          \
		(void)order;                                                                       \
		wrote(at, __builtin_return_address(0));                                            \
		return __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);                    \
	}
#define EXCHANGE(bits, strength)                                                                   \
	int __tsan_atomic##bits##_compare_exchange_##strength(                                     \
		volatile uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value,       \
		int order, int failed);                                                            \
	int __tsan_atomic##bits##_compare_exchange_##strength(                                     \
		volatile uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value,       \
		int order, int failed)                                                             \
	{                                                                                          \
		(void)order, (void)failed;                                                         \
		wrote(at, __builtin_return_address(0));                                            \
		return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,   \
						   __ATOMIC_SEQ_CST);                              \
	}
#define ATOMIC(bits)                                                                               \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);   \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)    \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                      \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value,        \
					 int order);                                               \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value,        \
					 int order)                                                \
	{                                                                                          \
		(void)order;                                                                       \
		wrote(at, __builtin_return_address(0));                                            \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                     \
	}                                                                                          \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at,                 \
						      uint##bits##_t value, int order);            \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at,                 \
						      uint##bits##_t value, int order)             \
	{                                                                                          \
		(void)order;                                                                       \
		wrote(at, __builtin_return_address(0));                                            \
		return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                           \
	}                                                                                          \
	FETCH(bits, add)                                                                           \
	FETCH(bits, sub)                                                                           \
	FETCH(bits, or)                                                                            \
	FETCH(bits, and)                                                                           \
	EXCHANGE(bits, strong)                                                                     \
	EXCHANGE(bits, weak)

IGNORED(read1)
IGNORED(read2)
IGNORED(read4)
IGNORED(read8)
IGNORED(read16)
IGNORED(acquire)
IGNORED(release)
IGNORED(func_entry)
WRITTEN(write1)
WRITTEN(write2)
WRITTEN(write4)
WRITTEN(write8)
WRITTEN(write16)
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes)
{
	(void)at, (void)bytes;
}

void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += LINE)
		wrote((char *)at + i, __builtin_return_address(0));
}

/* ---- the threads ---- */

static const struct hg_recorder_ *api;
static pthread_barrier_t begins;
static long pairs;

static NOINLINE void *take(size_t size, unsigned path)
{
	void *block;

	if (path > 1)
		block = path & 1 ? take(size, path / 2) : take(size + 1, path / 2);
	else
		block = hooked_malloc(size);
	__asm__ volatile("" : "+r"(block) : : "memory");
	return block;
}

static void *run(void *number)
{
	void *block[BLOCKS] = { 0 };
	uint32_t seed = 88172645u + (uint32_t)(uintptr_t)number;

	for (long i = -WARM; i < pairs; i++) {
		if (i == 0) {
			pthread_barrier_wait(&begins);
			counting = (int)(uintptr_t)number;
		}
		seed ^= seed << 13;
		seed ^= seed >> 17;
		seed ^= seed << 5;
		hooked_free(block[(unsigned long)i % BLOCKS]);
		block[(unsigned long)i % BLOCKS] = take(16 + (seed >> 8) % 497, 32 + (seed & 31));
	}
	counting = 0;
	for (int i = 0; i < BLOCKS; i++)
		hooked_free(block[i]);
	return NULL;
}

/* ---- what was written ---- */

struct kind {
	char name[96];
	uint64_t lines, writes;
};

static struct kind kinds[KINDS_MAX];

static const char *structure_of(uintptr_t at)
{
	static const char *const names[LIVE_REGIONS] = {
		"modules", "strings",	"frames", "nodes",  "sites", "site counters", "pool",
		"slots",   "threads",	"tags",	  "visits", "marks", "saved",	      "samples",
		"areas",   "block map", "eras",	  "eras",   "codes", "tables",
	};
	uintptr_t offset = at - (uintptr_t)memory.head;

	for (int i = 0; i < LIVE_REGIONS; i++) {
		const struct live_span *span = &memory.head->region[i];

		if (offset >= span->at && offset - span->at < span->bytes)
			return names[i];
	}
	return offset < sizeof *memory.head ? "header of the profile" : "static data";
}

/* The function at an address, by addr2line: most are static. */
static void name_of(const void *address, char *name, size_t bytes)
{
	char command[64];

	snprintf(command, sizeof command, "addr2line -f -e /proc/%d/exe %p", (int)getpid(),
		 address);
	FILE *pipe = popen(command, "r");

	if (pipe == NULL || fgets(name, (int)bytes, pipe) == NULL)
		snprintf(name, bytes, "?");
	if (pipe != NULL)
		pclose(pipe);
	name[strcspn(name, "\n")] = '\0';
}

static void count_line(const struct line *line)
{
	char function[48], name[96];

	name_of(line->by, function, sizeof function);
	snprintf(name, sizeof name, "%s, %s()", structure_of(line->number * LINE), function);
	for (int i = 0; i < KINDS_MAX; i++) {
		if (kinds[i].lines == 0)
			strcpy(kinds[i].name, name);
		if (strcmp(kinds[i].name, name) == 0) {
			kinds[i].lines++;
			kinds[i].writes += line->writes;
			return;
		}
	}
}

static int by_writes(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	return (x->writes < y->writes) - (x->writes > y->writes);
}

/* How often lines of several threads were written. */
static uint64_t print(double counted)
{
	uint64_t writes = 0, of_one = 0, of_several = 0;

	for (int i = 0; i < LINES; i++) {
		writes += lines[i].writes;
		of_one += lines[i].number != 0 && !lines[i].several;
		if (lines[i].several) {
			of_several += lines[i].writes;
			count_line(&lines[i]);
		}
	}
	printf("%.1f writes for each pair; %" PRIu64 " lines are written by one thread alone\n",
	       (double)writes / counted, of_one);
	qsort(kinds, KINDS_MAX, sizeof *kinds, by_writes);
	for (int i = 0; i < KINDS_MAX && kinds[i].lines > 0; i++)
		printf("%8" PRIu64 " lines by several, %9.3f writes in 1,000 pairs: %s\n",
		       kinds[i].lines, 1000 * (double)kinds[i].writes / counted, kinds[i].name);
	return of_several;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {
		[HG_DORMANT] = "dormant",
		[HG_TAGS] = "tags",
		[HG_SAMPLE] = "sample",
		[HG_EXACT] = "exact",
	};
	int mode = 0, threads = argc == 4 ? atoi(argv[2]) : 0;
	pthread_t thread[64];

	while (argc == 4 && mode < (int)ARRAY_SIZE(modes) && strcmp(modes[mode], argv[1]) != 0)
		mode++;
	if (argc != 4 || mode == (int)ARRAY_SIZE(modes) || threads < 1 || threads > 64) {
		fprintf(stderr, "usage: lines dormant|tags|sample|exact THREADS PAIRS\n");
		return 2;
	}
	pairs = atol(argv[3]);
	api = hooked_api();
	api->turn(mode);
	pthread_barrier_init(&begins, NULL, (unsigned)threads);
	for (uintptr_t i = 0; i < (uintptr_t)threads; i++)
		pthread_create(&thread[i], NULL, run, (void *)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return print((double)pairs * threads) >
	       (uint64_t)pairs * (uint64_t)threads /
		       4; /* one for each pair is what would be wrong */
}

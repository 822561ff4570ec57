/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out blocks on pages in a known way, says what it did, and waits for a word on stdin: `free` frees the blocks of
 * keep(), `trim` returns free pages, `end` ends. Its own notes are in mappings that it makes itself.
 *
 *   TRUTH site=FUNCTION pages=N waste=N blocks=N   of glibc's chunks: 8 bytes before the block up to its usable end
 */
#include "target.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <heapgauge/heapgauge.h>

enum { PAGE = 4096, BLOCKS_MAX = 1 << 17, SITES = 2 };

struct noted {
	char *block;
	int site;
};
static struct noted *noted;
static size_t noted_count;
static uint64_t seed = 42;

static void *mapped(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

static unsigned below(unsigned limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % limit;
}

NOINLINE static char *keep(size_t bytes)
{
	char *p = malloc(bytes);

	KEEP(p);
	CHECK(p && noted_count < BLOCKS_MAX);
	memset(p, 1, bytes);
	noted[noted_count++] = (struct noted){ p, 0 };
	return p;
}

NOINLINE static char *use(size_t bytes)
{
	char *p = malloc(bytes);

	KEEP(p);
	CHECK(p);
	memset(p, 2, bytes);
	return p;
}

static void note_use(char *p)
{
	CHECK(noted_count < BLOCKS_MAX);
	noted[noted_count++] = (struct noted){ p, 1 };
}

NOINLINE static char *fill(size_t bytes)
{
	char *p = malloc(bytes);

	KEEP(p);
	CHECK(p);
	memset(p, 3, bytes);
	return p;
}

/* What is on each page: counted from the addresses, not as heapgauge does it. */
static void say_truth(void)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	uint64_t pages[SITES] = { 0 }, sole[SITES] = { 0 }, waste[SITES] = { 0 },
		 blocks[SITES] = { 0 };

	for (size_t i = 0; i < noted_count; i++) {
		uintptr_t at = (uintptr_t)noted[i].block;

		low = at - 8 < low ? at - 8 : low;
		high = at + malloc_usable_size(noted[i].block) > high
			       ? at + malloc_usable_size(noted[i].block)
			       : high;
	}
	size_t count = noted_count ? high / PAGE - low / PAGE + 1 : 0;
	uint16_t(*bytes)[SITES] = mapped((count + 1) * sizeof *bytes);

	for (size_t i = 0; i < noted_count; i++) {
		uintptr_t at = (uintptr_t)noted[i].block - 8;
		uintptr_t end = at + 8 + malloc_usable_size(noted[i].block);

		blocks[noted[i].site]++;
		for (; at < end; at++)
			bytes[at / PAGE - low / PAGE][noted[i].site]++;
	}
	for (size_t i = 0; i < count; i++) {
		int first = bytes[i][0] ? 0 : 1;

		for (int k = 0; k < SITES; k++) {
			pages[k] += bytes[i][k] != 0;
			sole[k] += bytes[i][k] != 0 && bytes[i][1 - k] == 0;
		}
		if (bytes[i][0] || bytes[i][1])
			waste[first] +=
				PAGE - bytes[i][0] - bytes[i][1]; /* keep() outlives use() */
	}
	for (int k = 0; k < SITES; k++)
		if (blocks[k])
			say("TRUTH site=%s pages=%llu sole=%llu waste=%llu blocks=%llu\n",
			    k ? "use" : "keep", (unsigned long long)pages[k],
			    (unsigned long long)sole[k], (unsigned long long)waste[k],
			    (unsigned long long)blocks[k]);
	munmap(bytes, (count + 1) * sizeof *bytes);
}

/* Of each page, one block of 64 bytes remains. apart: in memory of its own instead, as an arena would have it. */
static void one_per_page(int apart)
{
	enum { COUNT = 8000 };
	char **filled = mapped(COUNT * sizeof *filled);
	char *arena = apart ? mapped(COUNT * 64) : NULL;

	for (int i = 0; i < COUNT; i++) {
		if (apart)
			memset(arena + (size_t)i * 64, 1, 56);
		else
			keep(56);
		filled[i] = fill(4032 - 8);
	}
	for (int i = 0; i < COUNT; i++)
		free(filled[i]);
}

/* One block in ten remains. */
static void fragmented(void)
{
	enum { COUNT = 100000 };
	char **filled = mapped(COUNT * sizeof *filled);

	for (int i = 0; i < COUNT; i++)
		filled[i] = below(10) == 0 ? (keep(248), NULL) : fill(248);
	for (int i = 0; i < COUNT; i++)
		free(filled[i]);
}

/* Blocks of keep() stay; those of use() are replaced all the time, so that they are not expected to live long. */
static void mixed(void)
{
	enum { COUNT = 20000 };
	char **used = mapped(COUNT * sizeof *used), **filled = mapped(COUNT * sizeof *filled);

	for (int i = 0; i < COUNT; i++) {
		if (below(8) == 0)
			keep(120);
		used[i] = use(120);
		filled[i] = fill(1000);
	}
	for (int i = 0; i < COUNT; i++)
		free(filled[i]);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < COUNT; i++) {
			free(used[i]);
			used[i] = use(120);
		}
	for (int i = 0; i < COUNT; i++)
		note_use(used[i]);
}

/* Blocks that are mappings of their own: one mostly untouched, one of zeros, one of something else. */
NOINLINE static char *untouched(size_t bytes)
{
	char *p = calloc(1, bytes);

	KEEP(p);
	CHECK(p);
	memset(p, 1, bytes / 16);
	return p;
}

NOINLINE static char *zeros(size_t bytes)
{
	char *p = malloc(bytes);

	KEEP(p);
	CHECK(p);
	memset(p, 0, bytes);
	return p;
}

NOINLINE static char *maps(size_t bytes)
{
	char *p = mapped(bytes);

	KEEP(p);
	memset(p, 1, bytes / 2);
	return p;
}

static void large(void)
{
	enum { BYTES = 32 << 20 };
	char *p[] = { untouched(BYTES), zeros(BYTES), use(BYTES), maps(BYTES) };

	KEEP(p[0]);
	say("TRUTH site=untouched untouched=%d zero=0\n", BYTES / 16 * 15);
	say("TRUTH site=zeros untouched=0 zero=%d\n", BYTES);
	say("TRUTH site=use untouched=0 zero=0\n");
	say("TRUTH site=maps untouched=%d zero=0\n", BYTES / 2);
}

/* Freed memory below one small block at the end of the heap. */
static void end_of_heap(void)
{
	enum { COUNT = 16000 };
	char **filled = mapped(COUNT * sizeof *filled), *last;
	int tries = 0;

	for (int i = 0; i < COUNT; i++)
		filled[i] = fill(1000);
	/* Blocks come from earlier gaps first; smaller ones would stay in a cache when they are freed. */
	do
		last = fill(2000);
	while (last < filled[COUNT - 1] && ++tries < COUNT);
	keep(2000);
	free(last);
	for (int i = 0; i < COUNT; i++)
		free(filled[i]);
	say("TRUTH site=keep held=%d\n", COUNT * 1008);
}

/* What is free for heapgauge is not for the child. */
static void forked(void)
{
	fragmented();
	if (fork() == 0) {
		keep(1000);
		return;
	}
	wait(NULL);
	exit(0);
}

static void paused(void)
{
	hg_stop(HG_PROCESS);
	fragmented();
	hg_start(HG_PROCESS);
	keep(1000);
}

static void sampled(void)
{
	keep(1000);
	hg_mode(HG_SAMPLE);
	for (int i = 0; i < 200; i++)
		keep(100000);
}

static void obey(void)
{
	char word[16];
	ssize_t got;

	while ((got = read(0, word, sizeof word - 1)) > 0) {
		word[got] = 0;
		if (strncmp(word, "end", 3) == 0)
			return;
		if (strncmp(word, "free", 4) == 0)
			for (size_t i = 0; i < noted_count; i++)
				if (noted[i].site == 0)
					free(noted[i].block);
		if (strncmp(word, "trim", 4) == 0)
			malloc_trim(0);
		say("DONE\n");
	}
}

int main(int argc, char **argv)
{
	const char *layout = argc > 1 ? argv[1] : "";

	noted = mapped(BLOCKS_MAX * sizeof *noted);
	if (strcmp(layout, "one-per-page") == 0)
		one_per_page(0);
	else if (strcmp(layout, "apart") == 0)
		one_per_page(1);
	else if (strcmp(layout, "fragmented") == 0)
		fragmented();
	else if (strcmp(layout, "mixed") == 0)
		mixed();
	else if (strcmp(layout, "large") == 0)
		large();
	else if (strcmp(layout, "end-of-heap") == 0)
		end_of_heap();
	else if (strcmp(layout, "forked") == 0)
		forked();
	else if (strcmp(layout, "paused") == 0)
		paused();
	else if (strcmp(layout, "sampled") == 0)
		sampled();
	else
		return 2;
	if (noted_count > 1)
		say_truth();
	say("READY\n");
	obey();
	return 0;
}

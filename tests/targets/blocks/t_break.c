/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that what the program takes by sbrk and brk is counted like a mapping, in whole pages (C5): growing in pieces that are no
 * pages, shrinking, failing, in very many pieces; and that what malloc takes there is not. */
#include "target.h"
#include <unistd.h>

enum { PAGE = 4096, PIECES = 500000 };
static struct truth heap_truth = TRUTH(take_heap);

static NOINLINE void take_heap(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&heap_truth, n);
}

static NOINLINE char *grow(long n)
{
	char *p = sbrk(n);
	KEEP(p);
	CHECK(p != (char *)-1);
	return p;
}

static NOINLINE void *take_piece(void)
{
	void *p = sbrk(PAGE);
	KEEP(p);
	return p;
}

static NOINLINE int set(char *to)
{
	int status = brk(to);
	KEEP(to);
	return status;
}

int main(void)
{
	for (int i = 0; i < 1000; i++)
		take_heap(1000);
	char *at = sbrk(0);
	CHECK((uintptr_t)at % PAGE == 0); /* malloc leaves it so */
	for (int i = 0; i < 100; i++) {
		memset(grow(1000), 1, 1000);
		errno = 0;
	}
	CHECK((char *)sbrk(0) == at + 100000 && errno == 0);
	grow(-50000);
	CHECK(set(at + 20 * PAGE) == 0);
	CHECK(sbrk(0) == (void *)(at + 20 * PAGE));
	CHECK(sbrk(1l << 60) == (void *)-1 && errno == ENOMEM);
	CHECK(set((char *)(1l << 60)) == -1 && errno == ENOMEM);
	/* As many pieces as there may be, given back by one call: each once, in time that is worth it. */
	for (int i = 0; i < PIECES; i++)
		CHECK(take_piece() != (void *)-1);
	CHECK(brk(at + 20 * PAGE) == 0);
	memset(at, 1, 20 * PAGE);
	for (int i = 0; i < 1000; i++)
		take_heap(1000);
	truth_print(&heap_truth, "");
	/* 100,000 bytes are 25 pages, of which 12 (the last 50,000 bytes) were given back again; brk made them 20 of its own. */
	say("EXPECT site=grow kind=mmap live_bytes=%d\n", 13 * PAGE);
	say("EXPECT site=set kind=mmap calls=1 bytes=%d live_bytes=%d\n", 7 * PAGE, 7 * PAGE);
	say("EXPECT site=take_piece kind=mmap calls=%d bytes=%ld live_bytes=0\n", PIECES,
	    (long)PIECES * PAGE);
	say("EXPECT site=take_heap kind=mmap calls=0 bytes=0\n");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that mremap grows, shrinks and moves what is counted, and that MAP_FIXED over a mapping replaces it. */
#include "target.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

static NOINLINE char *map_first(void *where, size_t n, int flags)
{
	char *p =
		mmap(where, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE char *map_over(void *where, size_t n)
{
	char *p = mmap(where, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0);
	KEEP(p);
	CHECK(p == where);
	return p;
}

static NOINLINE char *grow(char *p, size_t old, size_t n)
{
	char *q = mremap(p, old, n, MREMAP_MAYMOVE);
	KEEP(q);
	CHECK(q != MAP_FAILED);
	return q;
}

static NOINLINE char *move(char *p, size_t n, char *where)
{
	char *q = mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, where);
	KEEP(q);
	CHECK(q == where);
	return q;
}

/* The old range stays, and loses its contents. Kernels before 5.7 refuse. */
static NOINLINE char *copy_away(char *p, size_t n)
{
	char *q = mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	KEEP(q);
	return q;
}

int main(void)
{
	/* In place or moved, 4 pages become 4000 and then 3. */
	char *p = map_first(NULL, 4 * PAGE, 0);
	strcpy(p, "carried along");
	p = grow(p, 4 * PAGE, 4000 * PAGE);
	CHECK(strcmp(p, "carried along") == 0);
	p = grow(p, 4000 * PAGE, 3 * PAGE);

	/* Moved onto the middle of another one: that loses 3 pages. */
	char *q = map_over(map_first(NULL, 10 * PAGE, 0), 10 * PAGE);
	p = move(p, 3 * PAGE, q + 4 * PAGE);
	CHECK(strcmp(p, "carried along") == 0);

	/* MAP_FIXED in the middle of an older one. */
	char *r = map_over(map_first(NULL, 20 * PAGE, 0), 20 * PAGE);
	map_over(r + 5 * PAGE, 5 * PAGE);

	CHECK(mremap(r, 20 * PAGE, (size_t)1 << 46, 0) == MAP_FAILED);
	/* Each of these fails, and unmaps nothing. */
	CHECK(munmap(r, (size_t)1 << 60) != 0);
	CHECK(munmap(q, ~(size_t)PAGE) != 0);
	CHECK(munmap(r + 1, PAGE) != 0);
	CHECK(munmap(r, 0) != 0);

	char *s = map_first(NULL, 7 * PAGE, 0);
	char *t = copy_away(s, 7 * PAGE);
	int copied = t != MAP_FAILED;
	CHECK(!copied || munmap(s, 7 * PAGE) == 0); /* a range that is still mapped */
	char *u = map_first(NULL, 6 * PAGE, 0);
	copied += copy_away(u, 6 * PAGE) != MAP_FAILED;
	CHECK(copied == 0 || copied == 2);
	CHECK(munmap(q, 10 * PAGE) == 0);
	CHECK(munmap(r, 10 * PAGE) == 0);
	/* All functions together: who owns a part after a move is not what this is about. */
	say("EXPECT site=map_first+map_over+grow+move+copy_away kind=mmap live_bytes=%d\n",
	    (10 + 7 + 6 + (copied ? 6 : 0)) * PAGE);
	return 0;
}

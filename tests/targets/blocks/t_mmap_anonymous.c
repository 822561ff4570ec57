/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that anonymous memory that the program maps itself has numbers of its own: whole and partial unmapping, a hole in
 * the middle, one unmapping over several mappings, and nothing of it among the heap's. */
#include "target.h"
#include <sys/mman.h>

enum { PAGE = 4096 };
static struct truth whole_truth = TRUTH_MMAP(map_whole);
static struct truth heap_truth = TRUTH(take_heap);

static NOINLINE char *map_whole(size_t n)
{
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	truth_take(&whole_truth, n);
	p[0] = p[n - 1] = 1;
	return p;
}

static NOINLINE char *map_cut(size_t n)
{
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE char *map_shared(size_t n)
{
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE char *map_reserve(size_t n)
{
	char *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE void *take_heap(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&heap_truth, n);
	return p;
}

int main(void)
{
	static char *map[50];

	for (size_t i = 0; i < 50; i++)
		map[i] = map_whole((i + 1) * PAGE);
	for (size_t i = 0; i < 50; i += 2) {
		CHECK(munmap(map[i], (i + 1) * PAGE) == 0);
		truth_drop(&whole_truth, (i + 1) * PAGE);
	}
	/* 100 pages lose 10 at the front, 20 at the end, 30 in the middle; then the rest of the front part. */
	char *cut = map_cut(100 * PAGE);
	CHECK(munmap(cut, 10 * PAGE) == 0);
	CHECK(munmap(cut + 80 * PAGE, 20 * PAGE) == 0);
	CHECK(munmap(cut + 30 * PAGE, 30 * PAGE) == 0);
	CHECK(munmap(cut + 10 * PAGE, 20 * PAGE) == 0);
	cut[60 * PAGE] = 1;
	/* Unmapping what is not mapped is no error and no free. */
	CHECK(munmap(cut, 10 * PAGE) == 0);
	CHECK(munmap(cut + 1, PAGE) == -1 && errno == EINVAL);

	char *shared = map_shared(16 * PAGE);
	shared[0] = 1;
	CHECK(munmap(shared, 16 * PAGE) == 0);
	map_reserve((size_t)1 << 30);

	/* Larger than malloc's mmap threshold: what the allocator maps for itself is not the program's. */
	for (int i = 0; i < 10; i++) {
		free(take_heap(4 << 20));
		truth_drop(&heap_truth, 4 << 20);
	}
	truth_print(&whole_truth, "");
	truth_print(&heap_truth, "");
	say("EXPECT site=map_cut kind=mmap calls=1 bytes=%d live_bytes=%d\n", 100 * PAGE,
	    20 * PAGE);
	say("EXPECT site=map_shared kind=mmap calls=1 bytes=%d live_bytes=0\n", 16 * PAGE);
	say("EXPECT site=map_reserve kind=mmap calls=1 bytes=%lu live_bytes=%lu\n", 1ul << 30,
	    1ul << 30);
	say("EXPECT site=take_heap kind=mmap calls=0 bytes=0\n");
	return 0;
}

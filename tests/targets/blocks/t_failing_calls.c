/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a call that fails counts nothing, sets errno as it does bare, and that a failed realloc keeps its block. */
#include "target.h"
#include <malloc.h>
#include <sys/mman.h>

static struct truth never_truth = TRUTH(must_fail);
static struct truth kept_truth = TRUTH(take_kept);

static volatile size_t huge = SIZE_MAX / 2;
static volatile size_t half = (size_t)1 << 33;

static NOINLINE void *take_kept(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&kept_truth, n);
	return p;
}

static NOINLINE void *must_fail(int which, void *p)
{
	void *q = p;
	errno = 0;
	switch (which) {
	case 0:
		q = malloc(huge);
		break;
	case 1:
		q = calloc(half, half);
		break;
	case 2:
		q = calloc(1, huge);
		break;
	case 3:
		q = reallocarray(NULL, half, half);
		break;
	case 4:
		q = reallocarray(p, half, half);
		break;
	case 5:
		q = realloc(p, huge);
		break;
	case 6:
		q = realloc(NULL, huge);
		break;
	case 7:
		q = aligned_alloc(64, huge);
		break;
	case 8:
		q = memalign(64, huge);
		break;
	case 9:
		q = valloc(huge);
		break;
	case 10:
		q = pvalloc(huge);
		break;
	default:
		q = pvalloc((size_t)-100);
		break;
	}
	KEEP(q);
	CHECK(q == NULL);
	CHECK(errno == ENOMEM);
	return q;
}

static NOINLINE void must_refuse(void)
{
	void *p = (void *)7;

	errno = 77;
	CHECK(posix_memalign(&p, 64, huge) == ENOMEM);
	CHECK(posix_memalign(&p, 3, 100) == EINVAL);
	CHECK(posix_memalign(&p, 0, 100) == EINVAL);
	CHECK(p == (void *)7);
	say("errno after a refused posix_memalign: %d\n", errno);
}

int main(void)
{
	for (int round = 0; round < 200; round++) {
		char *p = take_kept(100);
		memset(p, 'k', 100);
		for (int which = 0; which <= 11; which++)
			must_fail(which, p);
		must_refuse();
		for (int i = 0; i < 100; i++)
			CHECK(p[i] == 'k');
		if (round % 2) {
			free(p);
			truth_drop(&kept_truth, 100);
		}
	}
	void *map = mmap(NULL, huge & ~4095ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map == MAP_FAILED && errno == ENOMEM);
	truth_print(&kept_truth, "");
	truth_print(&never_truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* live: 2,000,000 blocks of 16-128 B from 1,000 distinct stacks are built up, then every other thousand is freed. */
#include "workload.h"
typedef void *(*step)(size_t size, unsigned path);

static NOINLINE void *leaf(size_t size, unsigned path)
{
	(void)path;
	void *p = malloc(size);
	KEEP(p);
	return p;
}

#define STEP(level, i, next)                                                                       \
	static NOINLINE void *level##_##i(size_t size, unsigned path)                              \
	{                                                                                          \
		void *p = next(size, path);                                                        \
		KEEP(p);                                                                           \
		DISTINCT(i);                                                                       \
		return p;                                                                          \
	}
/* clang-format off */
#define TEN(level, next) \
	STEP(level, 0, next) \
	STEP(level, 1, next) \
	STEP(level, 2, next) \
	STEP(level, 3, next) \
	STEP(level, 4, next) \
	STEP(level, 5, next) \
	STEP(level, 6, next) \
	STEP(level, 7, next) \
	STEP(level, 8, next) \
	STEP(level, 9, next) \
	static const step level[10] = { level##_0, level##_1, level##_2, level##_3, level##_4, \
					level##_5, level##_6, level##_7, level##_8, level##_9 };
/* clang-format on */
TEN(third, leaf)
#define TO_THIRD third[path % 10]
TEN(second, TO_THIRD)
#define TO_SECOND second[path / 10 % 10]
TEN(first, TO_SECOND)
#define TO_FIRST first[path / 100 % 10]

COMMON(common7, TO_FIRST)
COMMON(common6, common7)
COMMON(common5, common6)
COMMON(common4, common5)
COMMON(common3, common4)
COMMON(common2, common3)
COMMON(common1, common2)
COMMON(path_enter, common1)

enum { MAX_BLOCKS = 20000000 };

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 2000000;
	static void *block[MAX_BLOCKS];
	static uint16_t size[MAX_BLOCKS];
	struct truth t = { 0 };
	uint32_t seed = 0x12345678u;

	if (n < 1 || n > MAX_BLOCKS)
		return 2;
	for (long i = 0; i < n; i++) {
		size[i] = (uint16_t)(16 + (next_random(&seed) >> 8) % 113);
		block[i] = path_enter(size[i], (unsigned)(i % 1000));
		*(volatile char *)block[i] = 1;
		truth_add(&t, size[i]);
	}
	for (long i = 0; i < n; i++) {
		if (i / 1000 & 1) {
			free(block[i]);
			block[i] = NULL;
			truth_sub(&t, size[i]);
		}
	}
	truth_print("live", &t);
	return 0;
}

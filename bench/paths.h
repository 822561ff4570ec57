/* SPDX-License-Identifier: Apache-2.0 */
/* 64 call paths of 21 frames: 12 common frames, 6 levels of a binary choice, a leaf. The caller defines
 * LEAF(size, path) before including this file and enters through path_enter(size, path). */
#ifndef PATHS_H
#define PATHS_H
#include "workload.h"

#define LEVEL(name, bit, left, right)                                                              \
	static NOINLINE void *name##_a(size_t size, unsigned path)                                 \
	{                                                                                          \
		void *p = (path >> bit) & 1 ? left(size, path) : right(size, path);                \
		KEEP(p);                                                                           \
		return p;                                                                          \
	}                                                                                          \
	static NOINLINE void *name##_b(size_t size, unsigned path)                                 \
	{                                                                                          \
		void *p = (path >> bit) & 1 ? right(size, path) : left(size, path);                \
		KEEP(p);                                                                           \
		DISTINCT(1);                                                                       \
		return p;                                                                          \
	}

static NOINLINE void *level5_a(size_t size, unsigned path)
{
	void *p = LEAF(size, path);
	KEEP(p);
	return p;
}
static NOINLINE void *level5_b(size_t size, unsigned path)
{
	void *p = LEAF(size, path);
	KEEP(p);
	DISTINCT(1);
	return p;
}
LEVEL(level4, 4, level5_a, level5_b)
LEVEL(level3, 3, level4_a, level4_b)
LEVEL(level2, 2, level3_a, level3_b)
LEVEL(level1, 1, level2_a, level2_b)
LEVEL(level0, 0, level1_a, level1_b)

static NOINLINE void *fan_out(size_t size, unsigned path)
{
	void *p = (path >> 5) & 1 ? level0_a(size, path) : level0_b(size, path);
	KEEP(p);
	return p;
}

COMMON(common11, fan_out)
COMMON(common10, common11)
COMMON(common9, common10)
COMMON(common8, common9)
COMMON(common7, common8)
COMMON(common6, common7)
COMMON(common5, common6)
COMMON(common4, common5)
COMMON(common3, common4)
COMMON(common2, common3)
COMMON(path_enter, common2)
#endif

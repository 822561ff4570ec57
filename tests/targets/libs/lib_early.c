/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared -Wl,-soname,lib_early.so */
/* Linked into t_constructors: allocates in constructors that run before any preloaded library's, and in the very last
 * destructor. */
#include "lib_early.h"

struct truth early_truth = TRUTH(take_early);
void *early_block[EARLY_BLOCKS];
void (*early_library_end)(void);

static NOINLINE void *take_early(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&early_truth, n);
	return p;
}

__attribute__((constructor(101))) static void first(void)
{
	for (size_t i = 0; i < EARLY_BLOCKS; i++)
		early_block[i] = take_early(i * 10 + 1);
	for (size_t i = 0; i < 30; i++) {
		free(take_early(77));
		truth_drop(&early_truth, 77);
	}
	void *p = calloc(3, 5);
	KEEP(p);
	p = realloc(p, 5000);
	KEEP(p);
	free(p);
}

__attribute__((destructor(101))) static void last(void)
{
	void *p = take_early(123);
	free(p);
	truth_drop(&early_truth, 123);
	take_early(321);
	if (early_library_end)
		early_library_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: lib_c23_sized_frees */
/* Proves that free_sized, free_aligned_sized and the old cfree count as frees. */
#include "target.h"
#include <malloc.h>

/* Headers before glibc 2.43 do not declare them. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

/* As a program from before glibc 2.26 would be linked. */
void old_cfree(void *block);
#ifdef __aarch64__
__asm__(".symver old_cfree, cfree@GLIBC_2.17");
#else
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");
#endif

static struct truth sized_truth = TRUTH(for_free_sized);
static struct truth aligned_truth = TRUTH(for_free_aligned_sized);
static struct truth cfree_truth = TRUTH(for_cfree);

static NOINLINE void *for_free_sized(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&sized_truth, n);
	return p;
}

static NOINLINE void *for_free_aligned_sized(size_t n)
{
	void *p = aligned_alloc(64, n);
	KEEP(p);
	truth_take(&aligned_truth, n);
	return p;
}

static NOINLINE void *for_cfree(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&cfree_truth, n);
	return p;
}

int main(void)
{
	for (size_t i = 1; i <= 100; i++) {
		void *p = for_free_sized(i * 8);
		void *q = for_free_aligned_sized(i * 64);
		void *r = for_cfree(i * 24);
		free_sized(p, i * 8);
		truth_drop(&sized_truth, i * 8);
		free_aligned_sized(q, 64, i * 64);
		truth_drop(&aligned_truth, i * 64);
		old_cfree(r);
		truth_drop(&cfree_truth, i * 24);
	}
	free_sized(NULL, 0);
	free_aligned_sized(NULL, 0, 0);
	truth_print(&sized_truth, "");
	truth_print(&aligned_truth, "");
	truth_print(&cfree_truth, "");
	return 0;
}

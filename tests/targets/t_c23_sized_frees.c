/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that free_sized, free_aligned_sized and the old cfree count as frees, where this libc or the recorder has them. */
#include "target.h"
#include <dlfcn.h>
#include <malloc.h>

/* As a program from before glibc 2.26 would be linked. */
void old_cfree(void *block);
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");

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
	void (*sized)(void *, size_t);
	void (*aligned)(void *, size_t, size_t);
	*(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&aligned = dlsym(RTLD_DEFAULT, "free_aligned_sized");

	for (size_t i = 1; i <= 100; i++) {
		void *p = for_free_sized(i * 8);
		void *q = for_free_aligned_sized(i * 64);
		void *r = for_cfree(i * 24);
		if (sized) {
			sized(p, i * 8);
			truth_drop(&sized_truth, i * 8);
		}
		if (aligned) {
			aligned(q, 64, i * 64);
			truth_drop(&aligned_truth, i * 64);
		}
		old_cfree(r);
		truth_drop(&cfree_truth, i * 24);
	}
	if (sized)
		sized(NULL, 0);
	if (aligned)
		aligned(NULL, 0, 0);
	truth_print(&sized_truth, "");
	truth_print(&aligned_truth, "");
	truth_print(&cfree_truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* needs: lib_early */
/* Proves that allocations before and after everything else are recorded: .preinit_array, first constructors of a library
 * and of the program, atexit, destructors; and that blocks from then are known for ever. */
#include "lib_early.h"

static struct truth preinit_truth = TRUTH(take_before_all);
static struct truth constructor_truth = TRUTH(take_in_constructor);
static struct truth exit_truth = TRUTH(take_at_exit);
static struct truth destructor_truth = TRUTH(take_in_destructor);
static struct truth regrown_truth = TRUTH(regrow_early);
static void *before_main[3], *in_main;

#define TAKE(name, truth)                                                                          \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		truth_take(&truth, n);                                                             \
		return p;                                                                          \
	}
TAKE(take_before_all, preinit_truth)
TAKE(take_in_constructor, constructor_truth)
TAKE(take_at_exit, exit_truth)
TAKE(take_in_destructor, destructor_truth)

static NOINLINE void *regrow_early(void *p, size_t n)
{
	void *q = realloc(p, n);
	KEEP(q);
	truth_take(&regrown_truth, n);
	return q;
}

/* Runs before the constructors of all libraries, the preloaded ones too. */
static void before_all(void)
{
	before_main[0] = take_before_all(1000);
	before_main[1] = take_before_all(2000);
	for (int i = 0; i < 10; i++) {
		free(take_before_all(64));
		truth_drop(&preinit_truth, 64);
	}
}
__attribute__((used, section(".preinit_array"))) static void (*const preinit)(void) = before_all;

__attribute__((constructor(101))) static void first_constructor(void)
{
	before_main[2] = take_in_constructor(3000);
	free(before_main[0]);
	truth_drop(&preinit_truth, 1000);
}

static void print_all(void)
{
	truth_print(&early_truth, "");
	truth_print(&preinit_truth, "");
	truth_print(&constructor_truth, "");
	truth_print(&exit_truth, "");
	truth_print(&destructor_truth, "");
	truth_print(&regrown_truth, "");
}

static void at_exit(void)
{
	free(take_at_exit(400));
	truth_drop(&exit_truth, 400);
	take_at_exit(500);
	free(in_main);
	truth_drop(&constructor_truth, 600);
}

__attribute__((destructor(101))) static void last_destructor(void)
{
	free(take_in_destructor(700));
	truth_drop(&destructor_truth, 700);
	take_in_destructor(800);
	free(before_main[2]);
	truth_drop(&constructor_truth, 3000);
}

int main(void)
{
	in_main = take_in_constructor(600);
	early_library_end = print_all;
	atexit(at_exit);
	free(before_main[1]);
	truth_drop(&preinit_truth, 2000);
	for (size_t i = 0; i < EARLY_BLOCKS; i++) {
		if (i % 3 == 0)
			continue;
		truth_drop(&early_truth, i * 10 + 1);
		if (i % 3 == 1)
			free(early_block[i]);
		else
			early_block[i] = regrow_early(early_block[i], 6000 + i);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves what a temporary block is: one that its thread frees before it allocates again. */
#include "target.h"
#include <pthread.h>

static struct truth brief_truth = TRUTH(take_brief);
static struct truth nested_truth = TRUTH(take_nested);
static struct truth given_truth = TRUTH(take_and_give);

#define TAKE(name, truth)                                                                          \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		truth_take(&truth, n);                                                             \
		return p;                                                                          \
	}
TAKE(take_brief, brief_truth)
TAKE(take_nested, nested_truth)
TAKE(take_and_give, given_truth)

static void *free_what_another_took(void *p)
{
	free(p);
	truth_drop(&given_truth, 48);
	return NULL;
}

int main(void)
{
	for (int i = 0; i < 1000; i++) {
		free(take_brief(32));
		truth_drop(&brief_truth, 32);
	}
	/* Of each pair the outer is no temporary, the inner is. */
	for (int i = 0; i < 500; i++) {
		void *outer = take_nested(64);
		void *inner = take_nested(128);
		free(inner);
		free(outer);
		truth_drop(&nested_truth, 64);
		truth_drop(&nested_truth, 128);
	}
	/* Freed by another thread: never temporary. */
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *p = take_and_give(48);
		CHECK(pthread_create(&thread, NULL, free_what_another_took, p) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	truth_print(&brief_truth, "temporary=1000");
	truth_print(&nested_truth, "temporary=500");
	truth_print(&given_truth, "temporary=0");
	return 0;
}

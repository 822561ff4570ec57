/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a thousand short threads one after the other, and two hundred at once, each with a name of its own, lose
 * nothing; half of them end with a block still alive. */
#include "target.h"
#include <pthread.h>

enum { AT_ONCE = 200 };
static struct truth short_truth = TRUTH(take_in_short);
static struct truth once_truth = TRUTH(take_at_once);
static pthread_barrier_t all_here;

static NOINLINE void *take_in_short(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&short_truth, n);
	return p;
}

static NOINLINE void *take_at_once(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&once_truth, n);
	return p;
}

static void set_name(const char *what, uintptr_t i)
{
	char name[16];
	snprintf(name, sizeof name, "%s-%u", what, (unsigned)i % 10000u);
	CHECK(pthread_setname_np(pthread_self(), name) == 0);
}

static void *short_life(void *arg)
{
	uintptr_t i = (uintptr_t)arg;
	set_name("short", i);
	for (size_t n = 1; n <= 10; n++) {
		void *p = take_in_short(n * 10);
		if (n == 10 && i % 2)
			break;
		free(p);
		truth_drop(&short_truth, n * 10);
	}
	return NULL;
}

static void *life_at_once(void *arg)
{
	set_name("once", (uintptr_t)arg);
	void *first = take_at_once(100);
	pthread_barrier_wait(&all_here);
	for (size_t n = 1; n <= 100; n++) {
		free(take_at_once(n));
		truth_drop(&once_truth, n);
	}
	pthread_barrier_wait(&all_here);
	free(first);
	truth_drop(&once_truth, 100);
	return NULL;
}

int main(void)
{
	long shorts = long_form(1000, 20000);
	static pthread_t thread[AT_ONCE];
	pthread_attr_t small;

	for (uintptr_t i = 0; i < (uintptr_t)shorts; i++) {
		CHECK(pthread_create(&thread[0], NULL, short_life, (void *)i) == 0);
		CHECK(pthread_join(thread[0], NULL) == 0);
	}
	pthread_barrier_init(&all_here, NULL, AT_ONCE);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 * 1024);
	for (uintptr_t i = 0; i < AT_ONCE; i++)
		CHECK(pthread_create(&thread[i], &small, life_at_once, (void *)i) == 0);
	for (int i = 0; i < AT_ONCE; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	truth_print(&short_truth, "");
	truth_print(&once_truth, "");
	say("EXPECT process threads=%ld\n", 1 + shorts + AT_ONCE);
	return 0;
}

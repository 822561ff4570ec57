/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that after lowering RLIMIT_AS by any of its calls, again and again, threads still start and large blocks still
 * come, down to what the program itself needs. */
#include "target.h"
#include <pthread.h>
#include <sys/resource.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	CHECK(p);
	truth_take(&truth, n);
	return p;
}

static void *in_thread(void *p)
{
	free(take(1000));
	truth_drop(&truth, 1000);
	return p;
}

static void lower(int way, rlim_t bytes)
{
	struct rlimit limit = { bytes, RLIM_INFINITY };
	struct rlimit64 limit64 = { bytes, RLIM64_INFINITY };

	switch (way) {
	case 0:
		CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
		break;
	case 1:
		CHECK(setrlimit64(RLIMIT_AS, &limit64) == 0);
		break;
	case 2:
		CHECK(prlimit(0, RLIMIT_AS, &limit, NULL) == 0);
		break;
	default:
		CHECK(prlimit64(getpid(), RLIMIT_AS, &limit64, NULL) == 0);
		break;
	}
}

int main(void)
{
	for (int way = 0; way < 4; way++) {
		pthread_t thread;
		size_t large = (size_t)(600 - way * 100) << 20;

		lower(way, (rlim_t)(2048 - way * 400) << 20);
		char *p = take(large);
		p[large - 1] = 1;
		CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		free(p);
		truth_drop(&truth, large);
		for (int i = 0; i < 5000; i++)
			take((size_t)i % 300);
		void *too_much = malloc((size_t)4 << 30);
		KEEP(too_much);
		CHECK(too_much == NULL);
	}
	truth_print(&truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a program may lower its own limit of address space (RLIMIT_AS) and still gets what fits below it: what the
 * recorder reserves must not eat the program's allowance. */
#include "target.h"
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

int main(void)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	limit.rlim_cur = (rlim_t)1 << 30;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (int i = 0; i < 4; i++) {
		char *p = take(100 << 20);
		p[0] = 1;
		free(p);
		truth_drop(&truth, 100 << 20);
	}
	for (size_t i = 0; i < 20000; i++)
		take(i % 500);
	truth_print(&truth, "");
	return 0;
}

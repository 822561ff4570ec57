/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -fno-pie -no-pie */
/* Proves that an executable at a fixed place which takes the address of malloc is not taken for one with a malloc of its
 * own: dlsym gives a jump in the executable there. What glibc's blocks hold beyond what was asked for is still known. */
#include "target.h"

static struct truth truth = TRUTH(take);
static void *(*volatile get)(size_t);

static NOINLINE void *take(size_t n)
{
	void *p = get(n);

	KEEP(p);
	truth_take(&truth, n);
	return p;
}

int main(void)
{
	get = malloc;
	for (int i = 0; i < 100; i++)
		CHECK(take(20) != NULL);
	truth_print(&truth, "fragmentation_bytes=400");
	return 0;
}

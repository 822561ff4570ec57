/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that what is left at the end has its age: some of it is there from the start, some came half a second later. */
#include "target.h"
#include <time.h>

static struct truth early_truth = TRUTH(take_early);
static struct truth late_truth = TRUTH(take_late);

static NOINLINE void *take_early(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&early_truth, n);
	return p;
}

static NOINLINE void *take_late(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&late_truth, n);
	return p;
}

int main(void)
{
	struct timespec t = { 0, 550000000 };

	for (size_t i = 1; i <= 40; i++) {
		void *p = take_early(i * 10);

		if (i % 4 == 0) {
			free(p);
			truth_drop(&early_truth, i * 10);
		}
	}
	while (nanosleep(&t, &t) != 0)
		;
	for (size_t i = 0; i < 25; i++)
		take_late(100);
	truth_print(&early_truth, "");
	truth_print(&late_truth, "");
	return 0;
}

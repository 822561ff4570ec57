/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes without an allocation in them: scopes N enters and leaves N, two deep. */
#include <heapgauge/heapgauge.h>
#include <stdlib.h>

static volatile unsigned long work;

static void __attribute__((noinline)) inner(void)
{
	HG_SCOPE("inner");
	work++;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) / 2 : 0;

	for (long i = 0; i < rounds; i++) {
		HG_SCOPE("outer");
		inner();
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of <heapgauge/heapgauge.h> cost: `scopes N` enters and leaves N scopes, two deep; `scopes N snapshots` takes
 * N snapshots of a program with 64 stacks; `scopes N pools` takes N blocks from a pool and gives them back; `scopes N churn EVERY` makes and frees N blocks from 1024 stacks, with a snapshot after
 * every so many. */
#include <heapgauge/heapgauge.h>
#include <stdlib.h>

static volatile unsigned long work;
static void *volatile block;

static void __attribute__((noinline)) inner(void)
{
	HG_SCOPE("inner");
	work++;
}

/* Each path is another stack. */
static void __attribute__((noinline)) even(unsigned path, unsigned depth);
static void __attribute__((noinline)) odd(unsigned path, unsigned depth)
{
	if (depth == 0)
		block = malloc(16);
	else if (path & 1)
		even(path / 2, depth - 1);
	else
		odd(path / 2, depth - 1);
	work++;
}
static void __attribute__((noinline)) even(unsigned path, unsigned depth)
{
	odd(path, depth);
	work++;
}

static void churn(long rounds, long every)
{
	for (long i = 1; i <= rounds; i++) {
		odd((unsigned)i % 1024, 10);
		free(block);
		if (every != 0 && i % every == 0)
			hg_snapshot("again");
	}
}

static void __attribute__((noinline)) pairs(long rounds)
{
	hg_pool pool = hg_pool_new("pairs");
	static char room[64 * 16];

	for (long i = 0; i < rounds; i++) {
		hg_pool_alloc(pool, &room[i % 64 * 16], 16);
		hg_pool_free(pool, &room[i % 64 * 16]);
	}
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 0;

	if (argc > 3) {
		churn(rounds, atol(argv[3]));
		return 0;
	}
	if (argc > 2 && argv[2][0] == 'p') {
		pairs(rounds);
		return 0;
	}
	if (argc > 2) {
		for (unsigned i = 0; i < 64; i++)
			odd(i, 6);
		for (long i = 0; i < rounds; i++)
			hg_snapshot("again");
		return 0;
	}
	for (long i = 0; i < rounds / 2; i++) {
		HG_SCOPE("outer");
		inner();
	}
	return 0;
}

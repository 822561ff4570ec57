/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that with one thread the peak, every site's part of it, and every site's own maximum are exact. */
#include "target.h"

enum { SITES = 6, BLOCKS = 400, STEPS = 60000 };

#define TAKE(i)                                                                                    \
	static NOINLINE void *take_##i(size_t n)                                                   \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		return p;                                                                          \
	}
TAKE(0)
TAKE(1)
TAKE(2)
TAKE(3)
TAKE(4)
TAKE(5)

static void *(*const take[SITES])(size_t) = { take_0, take_1, take_2, take_3, take_4, take_5 };
static struct truth truth[SITES] = { TRUTH(take_0), TRUTH(take_1), TRUTH(take_2),
				     TRUTH(take_3), TRUTH(take_4), TRUTH(take_5) };

static uint64_t live[SITES], blocks[SITES], most[SITES], peak_live[SITES], peak_blocks[SITES];
static uint64_t total, peak;

static void note_take(int site, size_t n)
{
	truth_take(&truth[site], n);
	live[site] += n;
	blocks[site]++;
	total += n;
	if (live[site] > most[site])
		most[site] = live[site];
	if (total > peak) { /* strictly: of two equal maxima the first is the peak */
		peak = total;
		memcpy(peak_live, live, sizeof live);
		memcpy(peak_blocks, blocks, sizeof blocks);
	}
}

static void note_drop(int site, size_t n)
{
	truth_drop(&truth[site], n);
	live[site] -= n;
	blocks[site]--;
	total -= n;
}

/* The fill level wanders: up for a while, down for a while, so that there are many local maxima. */
static NOINLINE void history(uint32_t seed)
{
	static void *block[BLOCKS];
	static size_t size[BLOCKS];
	static int owner[BLOCKS];

	for (int step = 0; step < STEPS; step++) {
		unsigned wanted = next_random(&seed) % 100 < (step / 900 % 2 ? 35u : 65u);
		unsigned slot = next_random(&seed) % BLOCKS;
		if (block[slot] && !wanted) {
			free(block[slot]);
			note_drop(owner[slot], size[slot]);
			block[slot] = NULL;
		} else if (!block[slot] && wanted) {
			owner[slot] = (int)(next_random(&seed) % SITES);
			size[slot] = next_random(&seed) % 5000 + 1;
			block[slot] = take[owner[slot]](size[slot]);
			note_take(owner[slot], size[slot]);
		}
	}
}

int main(void)
{
	uint64_t all_blocks = 0;
	char more[160];

	history(0x2545f491u);
	for (int i = 0; i < SITES; i++) {
		snprintf(more, sizeof more, "peak_bytes=%lu peak_blocks=%lu max_bytes=%lu",
			 (unsigned long)peak_live[i], (unsigned long)peak_blocks[i],
			 (unsigned long)most[i]);
		truth_print(&truth[i], more);
		all_blocks += peak_blocks[i];
	}
	say("EXPECT process peak_bytes=%lu peak_blocks=%lu peak_bound_bytes=0 threads=1\n",
	    (unsigned long)peak, (unsigned long)all_blocks);
	return 0;
}

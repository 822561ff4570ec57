/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that mmap and malloc reached by one and the same call instruction are kept apart. */
#include "target.h"
#include <sys/mman.h>

typedef void *six_arguments(size_t, size_t, long, long, long, long);

#define SITE(name)                                                                                 \
	static NOINLINE void *name(six_arguments *function, size_t first, size_t second)           \
	{                                                                                          \
		void *p = function(first, second, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  \
		KEEP(p);                                                                           \
		return p;                                                                          \
	}
SITE(site_a)
SITE(site_b)
SITE(site_c)
SITE(site_d)

int main(void)
{
	static void *(*const sites[])(six_arguments *, size_t, size_t) = { site_a, site_b, site_c,
									   site_d };
	six_arguments *map = (six_arguments *)(void *)mmap, *take = (six_arguments *)(void *)malloc;
	enum { ROUNDS = 32 };

	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 4; k++) {
			int map_first = (k ^ i) & 1;
			for (int step = 0; step < 2; step++) {
				void *p = (step ^ map_first) ? sites[k](map, 0, 8192)
							     : sites[k](take, 100, 8192);
				CHECK(p && p != MAP_FAILED);
			}
		}
	}
	static const char *const names[] = { "site_a", "site_b", "site_c", "site_d" };
	for (int k = 0; k < 4; k++) {
		say("EXPECT site=%s kind=heap calls=%d bytes=%d live_blocks=%d frees=0\n", names[k],
		    ROUNDS, ROUNDS * 100, ROUNDS);
		say("EXPECT site=%s kind=mmap calls=%d bytes=%d live_bytes=%d\n", names[k], ROUNDS,
		    ROUNDS * 8192, ROUNDS * 8192);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Joint distributions of two numbers, in the pool. Included by format/live/live.h. */
#ifndef FORMAT_LIVE_LIVE_PAIRS_H
#define FORMAT_LIVE_LIVE_PAIRS_H

#include <stdint.h>

enum live_pairs_kind {
	LIVE_PAIRS_REALLOC = 0, /* requested bytes before and after a realloc */
	LIVE_PAIRS_LIFETIME =
		1, /* requested bytes and lifetime in ms of a block that was freed after at least 1 ms */
	LIVE_PAIRS_KINDS,
};

/* doc: live_pairs: counted by one slot, or by several with atomic operations. Class 0 is 0, class i is [2^(i-1), 2^i), the last is
 * open. */
enum { LIVE_PAIR_CLASSES = 40 };
struct live_pairs {
	uint32_t next; /* pool: the one made before it; 0 = none */
	uint32_t kind; /* enum live_pairs_kind */
	uint64_t pad[7];
	uint64_t count[LIVE_PAIR_CLASSES][LIVE_PAIR_CLASSES];
};
_Static_assert(sizeof(struct live_pairs) == 201 * 64, "pool units");

static inline unsigned live_pair_class(uint64_t number)
{
	unsigned class = number ? 64u - (unsigned)__builtin_clzll(number) : 0;

	return class < LIVE_PAIR_CLASSES ? class : LIVE_PAIR_CLASSES - 1;
}
#endif

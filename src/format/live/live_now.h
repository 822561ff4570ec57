/* SPDX-License-Identifier: Apache-2.0 */
/* Live numbers of a running process: allocations minus frees, summed over entries (slots or site counters).
 *
 * Entries are read one after another while threads change them, so a sum mixes moments. A reader reads all entries three times and uses
 * the second reading. An entry moved by at most the difference between its first and third reading. At the moment when one entry was
 * read, the sum is off by at most what all others moved. Choosing the entry that moved most gives the smallest bound: 0 while only
 * one thread allocates. */
#ifndef FORMAT_LIVE_LIVE_NOW_H
#define FORMAT_LIVE_LIVE_NOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"

/* An entry's numbers at one moment, as they are in live_slot and live_site_counters. */
struct live_counted {
	uint64_t calls, bytes, frees, freed_bytes;
};

/* An upper bound of how far live numbers moved. */
struct live_moved {
	uint64_t blocks, bytes;
};
static inline struct live_moved live_moved_between(const struct live_counted *before,
						   const struct live_counted *after)
{
	return (struct live_moved){
		MAX(saturating_sub(after->calls, before->calls),
		    saturating_sub(after->frees, before->frees)),
		MAX(saturating_sub(after->bytes, before->bytes),
		    saturating_sub(after->freed_bytes, before->freed_bytes)),
	};
}

/* The sum over entries, and the largest entry. */
struct live_moves {
	struct live_moved sum, most;
};
static inline void live_moves_add(struct live_moves *to, const struct live_moves *from)
{
	to->sum.blocks = saturating_add(to->sum.blocks, from->sum.blocks);
	to->sum.bytes = saturating_add(to->sum.bytes, from->sum.bytes);
	to->most.blocks = MAX(to->most.blocks, from->most.blocks);
	to->most.bytes = MAX(to->most.bytes, from->most.bytes);
}
static inline void live_moves_add_one(struct live_moves *to, struct live_moved one)
{
	live_moves_add(to, &(struct live_moves){ one, one });
}
/* Adds an entry that the live sum lacks. It was not read, so it cannot be the chosen one. */
static inline void live_moves_add_missing(struct live_moves *to, struct live_moved one)
{
	live_moves_add(to, &(struct live_moves){ .sum = one });
}
static inline struct live_moved live_moves_bound(const struct live_moves *moves)
{
	return (struct live_moved){ saturating_sub(moves->sum.blocks, moves->most.blocks),
				    saturating_sub(moves->sum.bytes, moves->most.bytes) };
}

/* The true numbers differed by at most the bounds at one moment during the reading. 0 = exact. */
struct live_now {
	uint64_t bytes, blocks, bytes_bound, blocks_bound;
};
/* bytes, blocks: sums modulo 2^64, negative if a free was read but not its allocation. */
static inline struct live_now live_now_of(uint64_t bytes, uint64_t blocks,
					  const struct live_moves *moves)
{
	struct live_moved bound = live_moves_bound(moves);

	return (struct live_now){ (int64_t)bytes > 0 ? bytes : 0, (int64_t)blocks > 0 ? blocks : 0,
				  bound.bytes, bound.blocks };
}

/* How far each entry moved while a profile was copied. Entries that the copy lacks come last. Empty if nothing wrote to the profile. */
struct live_table_moves {
	struct live_moved *at;
	size_t count;
};
struct live_copy_moves {
	struct live_table_moves site_counters, slots;
};
#endif

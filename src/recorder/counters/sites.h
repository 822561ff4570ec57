/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the hash of a walk to the calling slot's counters of that site; creates node, site and counters as needed. */
#ifndef RECORDER_COUNTERS_SITES_H
#define RECORDER_COUNTERS_SITES_H

#include "recorder/slot.h"
#include "recorder/unwind/walk.h"

/* Creates the sentinel nodes below the root, the [other] sites and the tables. False: no memory. */
bool sites_start(void);
void sites_reset(void);

/* After an abandoned hook. */
void sites_recover(struct slot *slot);

/* What a site's key is made of beside its stack and tag. */
struct origin {
	uint16_t kind;	/* enum live_kind */
	uint16_t entry; /* enum live_entry; only of LIVE_KIND_HEAP */
};

static ALWAYS_INLINE struct origin origin_of(enum live_kind kind)
{
	return (struct origin){ (uint16_t)kind, LIVE_ENTRY_UNKNOWN };
}

static ALWAYS_INLINE struct origin origin_heap(enum live_entry entry)
{
	return (struct origin){ LIVE_KIND_HEAP, (uint16_t)entry };
}

/* Creates what is missing for the stack in slot->walk; returns the slot's counters of the site, never 0. */
uint32_t sites_counters_slow(struct slot *slot, uint64_t key, struct origin origin);

/* Returns the slot's counters of a tag and the stack of `base`, which are untagged counters of the slot. Never 0. */
uint32_t sites_counters_of_tag(struct slot *slot, uint32_t base, uint32_t tag);

/* A stack whose frames differ from the walk's, root first. */
struct site_chain {
	uint32_t *frame, *node; /* node[i] is the node of frames 0 to i ... */
	uint32_t count, known;	/* ... for i < known */
	uint32_t mark;		/* enum live_frame_mark at the root; 0 = a complete stack */
};
/* Returns the slot's counters of a chain. Never 0. */
uint32_t sites_counters_of_chain(struct slot *slot, struct site_chain *chain, uint64_t key,
				 struct origin origin);

/* Returns the slot's counters of base's stack and tag for samples of an interval. 0: no memory. */
uint32_t sites_counters_of_interval(struct slot *slot, uint32_t base, uint64_t interval);

/* Returns the slot's counters of blocks without a stack, in modes that walk none. Never 0. */
uint32_t sites_counters_without_stack(struct slot *slot, struct origin origin);

/* Returns the slot's counters of timed calls for blocks of a site, each of which stands for `interval`. Without memory for them: [other]. */
uint32_t sites_counters_of_timed(struct slot *slot, uint32_t site, enum live_entry entry,
				 uint64_t interval);

/* Returns this slot's counters of a site that another slot allocated from. */
uint32_t sites_counters_of_site(struct slot *slot, uint32_t site);

static ALWAYS_INLINE uint64_t sites_key(uint64_t hash, struct origin origin)
{
	uint32_t by; /* both, as they are in a register */
	__builtin_memcpy(&by, &origin, sizeof by);
	uint64_t key = (hash + by * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);

	key ^= key >> 29;
	return key | 1; /* never 0 */
}

/* The slot's counters for the stack in slot->walk. */
static ALWAYS_INLINE uint32_t sites_counters(struct slot *slot, uint64_t hash, struct origin origin)
{
	struct walk *walk = slot->walk;
	struct walk_info *top = &walk->info[walk->count - 1];
	const bool is_kept = origin.kind == LIVE_KIND_HEAP && walk->count > 0;
	const uint32_t by = (uint32_t)origin.entry << LIVE_SMALL_COUNTERS_BITS;

	/* The same call may reach another function of the allocator, by a pointer. */
	if (LIKELY(is_kept && (top->counters ^ by) - 1 < (1u << LIVE_SMALL_COUNTERS_BITS) - 1))
		return top->counters ^ by;
	uint64_t key = sites_key(hash, origin);
	uint32_t counters = slot_find(slot, key);

	if (UNLIKELY(counters == 0))
		counters = sites_counters_slow(slot, key, origin);
	if (is_kept)
		top->counters = counters | by;
	return counters;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rule table: return address -> how to get from that frame to its caller, and the frame's id, in one word.
 *
 *   bits  0..23  frame id           bits 28..45  what is saved where: rule_fp and rule_return
 *   bits 24..26  enum rule_kind     bits 46..63  CFA offset / 8
 *   bit  27      used by the walk
 *
 * Readers take no lock: an entry's word is stored before its pc, a larger table is published by one pointer, and a rule is
 * invalidated by setting its kind to RULE_DEAD. Writers hold rules_lock. */
#ifndef RECORDER_UNWIND_RULES_H
#define RECORDER_UNWIND_RULES_H

#include "base/hash.h"
#include "recorder/arch/arch.h"
#include "recorder/lock.h"
#include "recorder/slot.h"

enum rule_kind {
	RULE_SP,    /* CFA = sp + offset, offset > 0 */
	RULE_FP,    /* CFA = fp + offset */
	RULE_DEREF, /* CFA = *(fp + offset), fp saved at *fp: a realigned frame */
	RULE_END,   /* the outermost frame */
	RULE_STOP,  /* no unwind information */
	RULE_SLOW,  /* anything else: needs the full interpreter */
	RULE_DEAD,  /* its object was unloaded; the frame id may still be valid */
};

static ALWAYS_INLINE uint32_t rule_frame(uint64_t rule)
{
	return (uint32_t)rule & 0xffffff;
}
static ALWAYS_INLINE enum rule_kind rule_kind(uint64_t rule)
{
	return (enum rule_kind)(rule >> 24 & 7);
}
static ALWAYS_INLINE int64_t rule_cfa(uint64_t rule)
{
	return ((int64_t)rule >> 46) * 8;
}
/* Where fp is saved, from the CFA; 0 = not saved. */
static ALWAYS_INLINE int64_t rule_fp(uint64_t rule)
{
	int64_t saved = (int64_t)(rule << 18) >> 46;

	if (ARCH_RETURN_VARIES) /* below the return address, if the lowest bit is set */
		return saved & 1 ? (saved >> 1) * 8 - 8 : 0;
	return saved * 8;
}
/* Where the return address is saved, from the CFA. */
static ALWAYS_INLINE int64_t rule_return(uint64_t rule)
{
	return ARCH_RETURN_VARIES ? ((int64_t)(rule << 18) >> 47) * 8 : ARCH_RETURN_AT;
}

struct rule_entry {
	uint64_t key; /* pc; for an exact pc (below a signal frame) its complement. 0 = empty */
	uint64_t rule;
};
struct rule_table {
	uint32_t shift; /* 64 - log2(entries) */
	uint32_t used;
	struct rule_entry entry[];
};
extern HIDDEN struct rule_table *rule_table;
extern HIDDEN struct lock rules_lock;

/* Creates the first table and the frames of the sentinels. False: no memory. */
bool rules_start(void);
void rules_reset(void);

/* Computes and stores the rule for a pc that is not in the table. */
uint64_t rules_make(struct slot *slot, uintptr_t pc, bool exact);

/* Adds a frame that has no return address; returns its id. LIVE_FRAME_OTHER: no memory, or no id left. Under rules_lock; memory is
 * opened before it is taken. */
uint32_t rules_add_frame(uint64_t frame);

extern HIDDEN uint32_t
	rules_orphans; /* number of rules outside any object; changed under rules_lock */

/* True if there are rules of addresses outside any object. */
static inline bool rules_have_orphans(void)
{
	return __atomic_load_n(&rules_orphans, __ATOMIC_RELAXED) != 0;
}

/* Invalidates the rules of [start, end); with orphans_only just those of addresses outside any object. Under rules_lock. */
void rules_invalidate(uintptr_t start, uintptr_t end, bool orphans_only);

static ALWAYS_INLINE uint64_t rules_key(uintptr_t pc, bool exact)
{
	return exact ? ~(uint64_t)pc : pc;
}

static ALWAYS_INLINE uint64_t rules_hash(uint64_t key, const struct rule_table *table)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) >> table->shift;
}

/* Returns the rule for a return address; creates it if needed. */
static ALWAYS_INLINE uint64_t rules_get(struct slot *slot, uintptr_t pc)
{
	const struct rule_table *table = __atomic_load_n(&rule_table, __ATOMIC_ACQUIRE);
	uint64_t mask = ((uint64_t)1 << (64 - table->shift)) - 1;

	for (uint64_t i = rules_hash(pc, table);; i = (i + 1) & mask) {
		const struct rule_entry *entry = &table->entry[i];
		uint64_t key = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);

		if (LIKELY(key == pc)) {
			uint64_t rule = __atomic_load_n(&entry->rule, __ATOMIC_RELAXED);

			if (LIKELY(rule_kind(rule) != RULE_DEAD))
				return rule;
			break;
		}
		if (key == 0)
			break;
	}
	return rules_make(slot, pc, false);
}
#endif

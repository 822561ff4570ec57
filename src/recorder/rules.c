/* SPDX-License-Identifier: Apache-2.0 */
/* Making rules: the slow side of rules.h. Every return address comes here once, and again when its object is replaced.
 *
 * Owns: the rule table (scratch memory; an outgrown table stays for its readers, together less than the living one)
 * and the frames region. Invariant: a frame id names one (module, offset, exactness) for ever. Any thread. */
#include "recorder/rules.h"

#include "recorder/cfi.h"
#include "recorder/modules.h"

enum { TABLE_BITS_FIRST = 12, FRAME_IDS = 1 << 24 };

struct rule_table *rule_table;
struct lock rules_lock;
static uint32_t orphan_rules; /* how many rules belong to no object; under rules_lock */

static struct rule_table *rules_table(unsigned bits)
{
	struct rule_table *table = memory_scratch(
		sizeof(struct rule_table) + sizeof(struct rule_entry) * ((uint64_t)1 << bits));

	if (table)
		table->shift = 64 - bits;
	return table;
}

bool rules_start(void)
{
	uint64_t first = memory_append(LIVE_FRAMES, LIVE_FRAME_UNASKED + 1, sizeof(uint64_t));

	if (first != 0)
		return false;
	for (uint32_t mark = LIVE_FRAME_CUT; mark <= LIVE_FRAME_UNASKED; mark++)
		*memory_frame(mark) = live_frame_pack(0, mark, 0);
	rule_table = rules_table(TABLE_BITS_FIRST);
	return rule_table != NULL;
}

void rules_reset(void)
{
	rule_table = NULL;
	rules_lock = (struct lock){ 0 };
	orphan_rules = 0;
}

static struct rule_entry *rules_entry(struct rule_table *table, uint64_t key)
{
	uint64_t mask = ((uint64_t)1 << (64 - table->shift)) - 1;
	uint64_t i = rules_hash(key, table);

	while (table->entry[i].key != 0 && table->entry[i].key != key)
		i = (i + 1) & mask;
	return &table->entry[i];
}

/* Doubles a table that is half full. The memory is had before the lock is taken. */
static void grow(struct slot *slot)
{
	struct rule_table *old = __atomic_load_n(&rule_table, __ATOMIC_ACQUIRE);
	unsigned bits = 64 - old->shift;

	if (old->used < (uint32_t)1 << (bits - 1))
		return;
	struct rule_table *table = rules_table(bits + 1);

	if (table == NULL || !lock_take(&rules_lock, slot->id))
		return;
	if (rule_table == old) {
		for (uint64_t i = 0; i < (uint64_t)1 << bits; i++) {
			if (old->entry[i].key != 0)
				*rules_entry(table, old->entry[i].key) = old->entry[i];
		}
		table->used = old->used;
		__atomic_store_n(&rule_table, table, __ATOMIC_RELEASE);
	}
	lock_give(&rules_lock);
}

/* DW_OP_breg6 offset, and DW_OP_deref when wanted: how compilers write a realigned frame. */
static bool is_rbp_expression(const uint8_t *expression, bool deref, int64_t *ret_offset)
{
	enum { DW_OP_BREG6 = 0x76, DW_OP_DEREF = 0x06 };
	const uint8_t *at = expression;
	uint64_t bytes = cfi_uleb(&at, at + CFI_LENGTH_BYTES);
	const uint8_t *end = at + bytes;

	if (bytes < 2 || *at++ != DW_OP_BREG6)
		return false;
	*ret_offset = cfi_sleb(&at, end);
	if (deref && (at >= end || *at++ != DW_OP_DEREF))
		return false;
	return at == end;
}

/* What the fast walk can do; everything else is RULE_SLOW. */
static enum rule_kind classify(const struct cfi_entry *entry, const struct cfi_state *state,
			       int64_t *ret_cfa, int64_t *ret_rbp)
{
	enum rule_kind kind;
	int64_t saved_at;

	if (entry->signal || entry->return_register != DW_RIP || state->kind[DW_RSP] != CFI_SAME)
		return RULE_SLOW;
	if (state->kind[DW_RIP] == CFI_UNDEFINED)
		return RULE_END;
	if (state->kind[DW_RIP] != CFI_OFFSET || state->value[DW_RIP] != -8)
		return RULE_SLOW;

	if (state->cfa_by_expression) {
		if (!is_rbp_expression(state->cfa_expression, true, ret_cfa))
			return RULE_SLOW;
		kind = RULE_DEREF;
	} else if (state->cfa_register == DW_RSP || state->cfa_register == DW_RBP) {
		kind = state->cfa_register == DW_RSP ? RULE_RSP : RULE_RBP;
		*ret_cfa = state->cfa_offset;
	} else {
		return RULE_SLOW;
	}

	*ret_rbp = 0;
	if (state->kind[DW_RBP] == CFI_OFFSET && state->value[DW_RBP] != 0 && kind != RULE_DEREF)
		*ret_rbp = state->value[DW_RBP];
	else if (kind == RULE_DEREF && state->kind[DW_RBP] == CFI_EXPRESSION &&
		 is_rbp_expression((const uint8_t *)(uintptr_t)state->value[DW_RBP], false,
				   &saved_at) &&
		 saved_at == 0)
		*ret_rbp = 8; /* any value but 0: saved, at *rbp */
	else if (state->kind[DW_RBP] != CFI_SAME || kind == RULE_DEREF)
		return RULE_SLOW;
	return kind;
}

static uint64_t pack(enum rule_kind kind, uint32_t frame, int64_t cfa, int64_t rbp)
{
	enum { LIMIT = (1 << 17) * 8 };

	if (cfa % 8 != 0 || rbp % 8 != 0 || (kind == RULE_RSP && cfa <= 0) || cfa >= LIMIT ||
	    cfa < -LIMIT || rbp >= LIMIT || rbp < -LIMIT)
		return pack(RULE_SLOW, frame, 0, 0);
	return (uint64_t)(cfa / 8) << 46 | ((uint64_t)(rbp / 8) & 0x3ffff) << 28 |
	       (uint64_t)kind << 24 | frame;
}

/* The id of a frame: the one the withdrawn rule had if it still fits, else a new one. 0: no memory. */
static uint32_t frame_of(uint32_t previous, uint64_t frame)
{
	if (previous != 0 && *memory_frame(previous) == frame)
		return previous;
	uint64_t *used = &memory.head->used[LIVE_FRAMES];
	uint64_t id = *used;

	/* opened by rules_make before the lock was taken */
	if (id >= FRAME_IDS || (id + 1) * sizeof(uint64_t) > memory.head->opened[LIVE_FRAMES])
		return LIVE_FRAME_OTHER;
	*memory_frame((uint32_t)id) = frame;
	__atomic_store_n(used, id + 1, __ATOMIC_RELEASE);
	return (uint32_t)id;
}

static uint64_t compute(struct slot *slot, uintptr_t pc, bool exact, uint32_t previous)
{
	uintptr_t lookup = exact ? pc : pc - 1;
	struct module_found module;
	struct cfi_entry entry;
	enum rule_kind kind = RULE_STOP;
	int64_t cfa = 0, rbp = 0;

	modules_find(lookup, &module);
	if (module.id == 0)
		orphan_rules++;
	else if (cfi_find(&module.unwind, lookup, &entry) && cfi_run(&entry, lookup, slot->cfi))
		kind = classify(&entry, &slot->cfi->state, &cfa, &rbp);
	return pack(kind, frame_of(previous, live_frame_pack(module.id, pc - module.bias, exact)),
		    cfa, rbp);
}

COLD uint64_t rules_make(struct slot *slot, uintptr_t pc, bool exact)
{
	uint64_t key = rules_key(pc, exact);
	uint64_t rule = pack(RULE_STOP, LIVE_FRAME_OTHER, 0, 0);

	grow(slot);
	memory_open(LIVE_FRAMES, (memory.head->used[LIVE_FRAMES] + 64) * sizeof(uint64_t));
	memory_open(LIVE_MODULES,
		    (memory.head->used[LIVE_MODULES] + 8) * sizeof(struct live_module));
	memory_open(LIVE_STRINGS, memory.head->used[LIVE_STRINGS] + 8 * LIVE_PAGE);
	if (!lock_take(&rules_lock, slot->id))
		return rule;
	struct rule_table *table = rule_table;
	struct rule_entry *entry = rules_entry(table, key);

	if (entry->key == key && rule_kind(entry->rule) != RULE_DEAD) {
		rule = entry->rule; /* another thread was faster */
	} else if (entry->key == key) {
		rule = compute(slot, pc, exact, rule_frame(entry->rule));
		__atomic_store_n(&entry->rule, rule, __ATOMIC_RELAXED);
	} else {
		rule = compute(slot, pc, exact, 0);
		if (table->used < ((uint32_t)1 << (64 - table->shift)) / 8 * 7) {
			entry->rule = rule;
			__atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
			table->used++;
		}
	}
	lock_give(&rules_lock);
	return rule;
}

void rules_withdraw(uintptr_t start, uintptr_t end, bool orphans_only)
{
	struct rule_table *table = rule_table;

	if (orphans_only && orphan_rules == 0)
		return;
	for (uint64_t i = 0; i < (uint64_t)1 << (64 - table->shift); i++) {
		struct rule_entry *entry = &table->entry[i];
		uintptr_t pc = (int64_t)entry->key < 0 ? ~entry->key : entry->key;
		bool orphan = live_frame_module(*memory_frame(rule_frame(entry->rule))) == 0;

		if (entry->key == 0 || pc < start || pc > end || (orphans_only && !orphan))
			continue;
		uint64_t dead = (entry->rule & ~(7ull << 24)) | (uint64_t)RULE_DEAD << 24;

		__atomic_store_n(&entry->rule, dead, __ATOMIC_RELAXED);
	}
	if (orphans_only)
		orphan_rules = 0;
	__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELAXED);
}

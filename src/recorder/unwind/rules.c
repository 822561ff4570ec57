/* SPDX-License-Identifier: Apache-2.0 */
/* Creates rules: the slow path of rules.h. Every return address gets here once, and again when its object is replaced.
 *
 * Owns: the rule table (scratch memory; an outgrown table stays for its readers, and all of them are smaller than the
 * current one) and the frames region. Invariant: a frame id denotes the same (module, offset, exactness) for ever. Any
 * thread. */
#include "recorder/unwind/rules.h"

#include "recorder/unwind/cfi.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/walk.h"

enum { TABLE_BITS_FIRST = 8, FRAME_IDS = 1 << 24, TRIES = 3 };

PROCESS_STATE struct rule_table *rule_table;
PROCESS_STATE struct lock rules_lock;
PROCESS_STATE uint32_t rules_orphans;

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
	uint64_t first = memory_append(LIVE_FRAMES, LIVE_FRAME_STACK_OFF + 1, sizeof(uint64_t));

	if (first != 0)
		return false;
	for (uint32_t mark = LIVE_FRAME_CUT; mark <= LIVE_FRAME_STACK_OFF; mark++)
		*memory_frame(mark) = live_frame_pack(0, mark, 0);
	rule_table = rules_table(TABLE_BITS_FIRST);
	return rule_table != NULL;
}

void rules_reset(void)
{
	rule_table = NULL;
	rules_lock = (struct lock){ 0 };
	rules_orphans = 0;
}

static struct rule_entry *rules_entry(struct rule_table *table, uint64_t key)
{
	uint64_t mask = ((uint64_t)1 << (64 - table->shift)) - 1;
	uint64_t i = rules_hash(key, table);

	while (table->entry[i].key != 0 && table->entry[i].key != key)
		i = (i + 1) & mask;
	return &table->entry[i];
}

/* Doubles a table that is half full. The memory is allocated before the lock is taken. */
static void grow(struct slot *slot)
{
	struct rule_table *old = __atomic_load_n(&rule_table, __ATOMIC_ACQUIRE);
	unsigned bits = 64 - old->shift;

	if (__atomic_load_n(&old->used, __ATOMIC_RELAXED) < (uint32_t)1 << (bits - 1))
		return;
	struct rule_table *table = rules_table(bits + 1);

	if (table == NULL || !lock_acquire(&rules_lock, slot->id))
		return;
	if (rule_table == old) {
		for (uint64_t i = 0; i < (uint64_t)1 << bits; i++) {
			if (old->entry[i].key != 0)
				*rules_entry(table, old->entry[i].key) = old->entry[i];
		}
		table->used = old->used;
		__atomic_store_n(&rule_table, table, __ATOMIC_RELEASE);
	}
	lock_release(&rules_lock);
}

/* Matches DW_OP_breg of the frame pointer, offset, and DW_OP_deref if `deref`: what compilers emit for a realigned frame. */
static bool is_fp_expression(const uint8_t *expression, bool deref, int64_t *ret_offset)
{
	enum { DW_OP_BREG_FP = 0x70 + DW_FP, DW_OP_DEREF = 0x06 };
	const uint8_t *at = expression;
	uint64_t bytes = cfi_uleb(&at, at + CFI_LENGTH_BYTES);
	const uint8_t *end = at + bytes;

	if (bytes < 2 || *at++ != DW_OP_BREG_FP)
		return false;
	*ret_offset = cfi_sleb(&at, end);
	if (deref && (at >= end || *at++ != DW_OP_DEREF))
		return false;
	return at == end;
}

/* True if the return address is saved where the fast walk can find it: in the function's own frame, so that those of callers are
 * above. */
static bool is_return_saved(const struct cfi_state *state)
{
	int64_t at = state->value[DW_RETURN];

	if (state->kind[DW_RETURN] != CFI_OFFSET)
		return false;
	if (!ARCH_RETURN_VARIES)
		return at == ARCH_RETURN_AT;
	return !state->cfa_by_expression && at < 0 && at % 8 == 0 &&
	       (state->cfa_register != DW_SP || at >= -state->cfa_offset);
}

/* Determines what the fast walk can handle; everything else is RULE_SLOW. */
static enum rule_kind classify(const struct cfi_entry *entry, const struct cfi_state *state,
			       int64_t *ret_cfa, int64_t *ret_fp)
{
	enum rule_kind kind;
	int64_t saved_at;

	if (entry->signal || entry->return_register != DW_RETURN || state->kind[DW_SP] != CFI_SAME)
		return RULE_SLOW;
	if (state->kind[DW_RETURN] == CFI_UNDEFINED)
		return RULE_END;
	if (!is_return_saved(state))
		return RULE_SLOW;

	if (state->cfa_by_expression) {
		if (!is_fp_expression(state->cfa_expression, true, ret_cfa))
			return RULE_SLOW;
		kind = RULE_DEREF;
	} else if (state->cfa_register == DW_SP || state->cfa_register == DW_FP) {
		kind = state->cfa_register == DW_SP ? RULE_SP : RULE_FP;
		*ret_cfa = state->cfa_offset;
	} else {
		return RULE_SLOW;
	}

	*ret_fp = 0;
	if (state->kind[DW_FP] == CFI_OFFSET && state->value[DW_FP] != 0 && kind != RULE_DEREF)
		*ret_fp = state->value[DW_FP];
	else if (kind == RULE_DEREF && state->kind[DW_FP] == CFI_EXPRESSION &&
		 is_fp_expression((const uint8_t *)(uintptr_t)state->value[DW_FP], false,
				  &saved_at) &&
		 saved_at == 0)
		*ret_fp = 8; /* any nonzero value: saved, at *fp */
	else if (state->kind[DW_FP] != CFI_SAME || kind == RULE_DEREF)
		return RULE_SLOW;
	if (ARCH_RETURN_VARIES && *ret_fp != 0 && *ret_fp != state->value[DW_RETURN] - 8)
		return RULE_SLOW;
	return kind;
}

/* saved: in units of 8 bytes, as rule_fp and rule_return expect it, but times 8. */
static uint64_t pack(enum rule_kind kind, uint32_t frame, int64_t cfa, int64_t saved)
{
	enum { LIMIT = (1 << 17) * 8 };

	if (cfa % 8 != 0 || saved % 8 != 0 || (kind == RULE_SP && cfa <= 0) || cfa >= LIMIT ||
	    cfa < -LIMIT || saved >= LIMIT || saved < -LIMIT)
		return pack(RULE_SLOW, frame, 0, 0);
	return (uint64_t)(cfa / 8) << 46 | ((uint64_t)(saved / 8) & 0x3ffff) << 28 |
	       (uint64_t)kind << 24 | frame;
}

/* Returns the id of a frame: that of the invalidated rule if it still matches, else a new one. LIVE_FRAME_OTHER: no
 * memory, or no id left. */
static uint32_t frame_of(uint32_t previous, uint64_t frame)
{
	if (previous != 0 && *memory_frame(previous) == frame)
		return previous;
	uint64_t *used = &memory.head->used[LIVE_FRAMES];
	uint64_t id = *used;

	/* opened by rules_make before the lock was taken */
	if (id >= FRAME_IDS || (id + 1) * sizeof(uint64_t) > memory_opened(LIVE_FRAMES))
		return LIVE_FRAME_OTHER;
	*memory_frame((uint32_t)id) = frame;
	__atomic_store_n(used, id + 1, __ATOMIC_RELEASE);
	return (uint32_t)id;
}

uint32_t rules_add_frame(uint64_t frame)
{
	return frame_of(0, frame);
}

/* How to get from a pc to its caller. */
struct rule_choice {
	enum rule_kind kind;
	int64_t cfa, saved; /* as pack takes them */
};

static struct rule_choice choose_rule(struct slot *slot, const struct module_found *module,
				      uintptr_t pc, bool exact)
{
	struct rule_choice choice = { .kind = RULE_STOP };
	struct cfi_entry entry;

	if (module->id != 0 && cfi_state_at(&module->unwind, pc, exact, &entry, slot->cfi)) {
		const struct cfi_state *state = &slot->cfi->state;
		int64_t fp = 0;

		choice.kind = classify(&entry, state, &choice.cfa, &fp);
		choice.saved =
			ARCH_RETURN_VARIES ? 2 * state->value[DW_RETURN] + (fp != 0 ? 8 : 0) : fp;
	} else if (walk_is_signal_code(pc)) {
		choice.kind = RULE_SLOW;
	}
	return choice;
}

static bool is_orphan(uint64_t rule)
{
	return live_frame_module(*memory_frame(rule_frame(rule))) == 0;
}

/* Stores the rule, unless another thread was faster. Under the lock. */
static uint64_t store_rule(uint64_t key, const struct rule_choice *choice, uint64_t frame)
{
	struct rule_table *table = rule_table;
	struct rule_entry *entry = rules_entry(table, key);
	bool had = entry->key == key;

	if (had && rule_kind(entry->rule) != RULE_DEAD)
		return entry->rule;
	uint64_t rule = pack(choice->kind, frame_of(had ? rule_frame(entry->rule) : 0, frame),
			     choice->cfa, choice->saved);

	bool stored = had;

	if (had) {
		__atomic_store_n(&entry->rule, rule, __ATOMIC_RELEASE); /* after its frame */
	} else if (table->used < ((uint32_t)1 << (64 - table->shift)) / 8 * 7) {
		/* count first, as in table_put */
		__atomic_store_n(&table->used, table->used + 1, __ATOMIC_RELAXED);
		entry->rule = rule;
		__atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
		stored = true;
	}
	if (stored && is_orphan(rule))
		__atomic_store_n(&rules_orphans, rules_orphans + 1, __ATOMIC_RELAXED);
	return rule;
}

/* Checks that every rule is found by its key and has an existing frame. Under the lock. */
static void check_rules(void)
{
	static struct check_pace pace;
	uint64_t places = (uint64_t)1 << (64 - rule_table->shift), filled = 0;

	if (!check_is_due(&pace))
		return;
	for (uint64_t i = 0; i < places; i++) {
		const struct rule_entry *entry = &rule_table->entry[i];

		if (entry->key == 0)
			continue;
		filled++;
		RECORDER_CHECK(rules_entry(rule_table, entry->key) == entry);
		RECORDER_CHECK(rule_kind(entry->rule) <= RULE_DEAD);
		RECORDER_CHECK(rule_frame(entry->rule) != 0 &&
			       rule_frame(entry->rule) < memory_used(LIVE_FRAMES));
	}
	RECORDER_CHECK(filled == rule_table->used && filled <= places / 8 * 7);
	check_done(&pace, places);
}

/* Does all lookups before the lock is taken; retries if the object has changed by then. */
COLD uint64_t rules_make(struct slot *slot, uintptr_t pc, bool exact)
{
	uintptr_t lookup = exact ? pc : pc - 1;
	uint64_t rule = 0;

	grow(slot);
	memory_open(LIVE_FRAMES, (memory_used(LIVE_FRAMES) + 64) * sizeof(uint64_t));
	for (int i = 0; i < TRIES && rule == 0; i++) {
		struct module_found module;

		modules_find(slot, lookup, &module);
		struct rule_choice choice = choose_rule(slot, &module, pc, exact);

		if (!lock_acquire(&rules_lock, slot->id))
			break;
		if (modules_is_of(lookup, module.id))
			rule = store_rule(rules_key(pc, exact), &choice,
					  live_frame_pack(module.id, pc - module.bias, exact));
		if (CHECKED)
			check_rules();
		lock_release(&rules_lock);
	}
	return rule != 0 ? rule : pack(RULE_STOP, LIVE_FRAME_OTHER, 0, 0);
}

void rules_invalidate(uintptr_t start, uintptr_t end, bool orphans_only)
{
	struct rule_table *table = rule_table;
	uint32_t orphans = rules_orphans;

	if (orphans_only && orphans == 0)
		return;
	for (uint64_t i = 0; i < (uint64_t)1 << (64 - table->shift); i++) {
		struct rule_entry *entry = &table->entry[i];
		uintptr_t pc = (int64_t)entry->key < 0 ? ~entry->key : entry->key;

		if (entry->key == 0 || pc < start || pc > end ||
		    rule_kind(entry->rule) == RULE_DEAD ||
		    (orphans_only && !is_orphan(entry->rule)))
			continue;
		uint64_t dead = (entry->rule & ~(7ull << 24)) | (uint64_t)RULE_DEAD << 24;

		orphans -= is_orphan(entry->rule);
		__atomic_store_n(&entry->rule, dead, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&rules_orphans, orphans, __ATOMIC_RELAXED);
	__atomic_add_fetch(&modules_generation, 1, __ATOMIC_RELAXED);
}

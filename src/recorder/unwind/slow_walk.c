/* SPDX-License-Identifier: Apache-2.0 */
/* The full interpreter: all callee-saved registers, any rule, signal frames, several stacks in one walk.
 *
 * It starts in its own frame, whose registers it can read, and unwinds through the recorder's frames to the hook's
 * caller: so hooks need not save anything on entry. Every word is read only after its page was probed. Owns only the
 * scratch area it is given. */
#include "recorder/unwind/cfi.h"
#include "recorder/unwind/expression.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/rules.h"
#include "recorder/sys.h"
#include "recorder/unwind/walk.h"

enum { OWN_FRAMES_MAX = 32, RUNNING_FRAMES_MAX = 1 << 16 };

struct machine {
	struct cfi_scratch *scratch;
	uint64_t *reg, *next;
	bool exact;	      /* reg[DW_PC] is the current instruction, not a return address */
	uintptr_t known_page; /* the last readable page */
};

static bool read_word(void *context, uintptr_t address, uint64_t *ret_word)
{
	struct machine *m = context;

	if (address % 8 != 0)
		return false;
	if (address / ARCH_PAGE != m->known_page) {
		if (!sys_readable(address))
			return false;
		m->known_page = address / ARCH_PAGE;
	}
	*ret_word = *(const volatile uint64_t *)address;
	return true;
}

static bool evaluate(struct machine *m, const uint8_t *code, bool push_cfa, uint64_t cfa,
		     uint64_t *ret)
{
	struct expression expression = { m->reg, m->scratch->stack, read_word, m };

	return expression_evaluate(&expression, code, push_cfa, cfa, ret);
}

static bool compute_cfa(struct machine *m, uint64_t *ret)
{
	const struct cfi_state *state = &m->scratch->state;

	if (state->cfa_by_expression)
		return evaluate(m, state->cfa_expression, false, 0, ret);
	if (state->cfa_register >= DW_REGISTERS)
		return false;
	*ret = m->reg[state->cfa_register] + (uint64_t)state->cfa_offset;
	return true;
}

/* Computes the value of register `r` in the caller. */
static bool restore(struct machine *m, unsigned r, uint64_t cfa, uint64_t *ret)
{
	const struct cfi_state *state = &m->scratch->state;
	uint64_t address;

	switch ((enum cfi_kind)state->kind[r]) {
	case CFI_SAME:
	case CFI_UNDEFINED:
		*ret = r == DW_SP ? cfa : m->reg[r];
		return true;
	case CFI_OFFSET:
		return read_word(m, cfa + (uint64_t)state->value[r], ret);
	case CFI_VAL_OFFSET:
		*ret = cfa + (uint64_t)state->value[r];
		return true;
	case CFI_REGISTER:
		if ((uint64_t)state->value[r] >= DW_REGISTERS)
			return false;
		*ret = m->reg[state->value[r]];
		return true;
	case CFI_EXPRESSION:
		return evaluate(m, (const uint8_t *)(uintptr_t)state->value[r], true, cfa,
				&address) &&
		       read_word(m, address, ret);
	case CFI_VAL_EXPRESSION:
		return evaluate(m, (const uint8_t *)(uintptr_t)state->value[r], true, cfa, ret);
	default:
		return false;
	}
}

enum { OUT, AT_END, NO_RULE };

bool walk_is_signal_code(uintptr_t pc)
{
	uint64_t code;

	if (!ARCH_HAS_SIGNAL_CODE || !sys_readable(pc) || !sys_readable(pc + sizeof code - 1))
		return false;
	__builtin_memcpy(&code, (const void *)pc, sizeof code);
	return code == ARCH_SIGNAL_CODE;
}

/* The registers of the next frame become those of the current one. */
static int take_next(struct machine *m, bool exact)
{
	uint64_t *reg = m->reg;

	if (m->next[DW_SP] == m->reg[DW_SP] && m->next[DW_PC] == m->reg[DW_PC])
		return NO_RULE; /* no progress: a broken table */
	m->reg = m->next;
	m->next = reg;
	m->exact = exact;
	return m->reg[DW_PC] == 0 ? AT_END : OUT;
}

/* Unwinds the code that returns from a signal handler: to what the signal interrupted. */
static int step_out_of_signal(struct machine *m, uint64_t *ret_cfa)
{
	uintptr_t stored = m->reg[DW_SP] + ARCH_SIGNAL_REGISTERS;

	for (int r = 0; r < ARCH_SIGNAL_STORED; r++) {
		if (!read_word(m, stored + (unsigned)r * sizeof(uint64_t), &m->next[r]))
			return NO_RULE;
	}
	*ret_cfa = m->next[DW_SP];
	return take_next(m, true);
}

/* Unwinds the frame that the registers describe. ret_cfa is the frame's. */
static int step_out(struct machine *m, uint64_t *ret_cfa)
{
	uintptr_t pc = m->reg[DW_PC];
	struct cfi_table table = modules_unwind_table(pc - (m->exact ? 0 : 1));
	struct cfi_entry entry;

	bool found = cfi_state_at(&table, pc, m->exact, &entry, m->scratch) &&
		     entry.return_register == DW_RETURN;

	if ((!found || entry.signal) && walk_is_signal_code(pc))
		return step_out_of_signal(m, ret_cfa);
	if (!found)
		return NO_RULE;
	if (m->scratch->state.kind[DW_RETURN] == CFI_UNDEFINED)
		return AT_END;
	if (!compute_cfa(m, ret_cfa))
		return NO_RULE;
	for (unsigned r = 0; r < DW_REGISTERS; r++) {
		if (!restore(m, r, *ret_cfa, &m->next[r]))
			return NO_RULE;
	}
	m->next[DW_PC] = arch_strip(m->next[DW_RETURN]);
	return take_next(m, entry.signal);
}

/* Reads the registers of the function that this is inlined into. */
static ALWAYS_INLINE void here(struct machine *m, struct cfi_scratch *scratch)
{
	*m = (struct machine){ .scratch = scratch,
			       .reg = scratch->registers[0],
			       .next = scratch->registers[1],
			       .exact = true };
	__builtin_memset(scratch->registers, 0, sizeof scratch->registers);
	arch_registers(m->reg);
}

static uint64_t rule_of(struct slot *slot, const struct machine *m)
{
	if (!m->exact)
		return rules_get(slot, m->reg[DW_PC]);
	return rules_make(slot, m->reg[DW_PC], true);
}

COLD uint64_t walk_slowly(struct slot *slot, const uintptr_t *frame)
{
	struct walk *walk = slot->walk;
	struct machine m;
	uint64_t cfa = 0;
	uint32_t c = 0;
	int status = OUT;

	here(&m, slot->cfi);
	for (int i = 0; i < OWN_FRAMES_MAX && cfa != arch_cfa_of(frame); i++) {
		status = step_out(&m, &cfa);
		if (status != OUT)
			return walk_take(walk, 0, LIVE_FRAME_STOPPED);
	}
	while (status == OUT) {
		if (c == walk->limit)
			return walk_take(walk, c, LIVE_FRAME_CUT);
		walk->fresh[c] = (struct walk_fresh){ .at = cfa + (uintptr_t)ARCH_RETURN_AT,
						      .pc = m.reg[DW_PC],
						      .rule = rule_of(slot, &m) };
		WALK_SET_SP(&walk->fresh[c], cfa);
		c++;
		status = step_out(&m, &cfa);
	}
	return walk_take(walk, c,
			 status == AT_END || modules_is_loader(m.reg[DW_PC]) ? 0
									     : LIVE_FRAME_STOPPED);
}

COLD bool walk_is_running(struct slot *slot, uintptr_t inner, uintptr_t frame)
{
	const struct stack_range *range = &slot->ranges->range[0];
	struct machine m;
	uint64_t cfa = 0;
	int status = OUT;

	/* A running hook is further out than the inner one: on the same stack, above it. */
	if (frame <= inner && frame - range->low < range->high - range->low &&
	    inner - range->low < range->high - range->low)
		return false;
	if (slot->cfi_nested_busy)
		return true; /* nested signal handlers: unknown, and only one call is lost */
	slot->cfi_nested_busy = true;
	here(&m, slot->cfi_nested);
	/* Unwind the inner hook, then go on: a frame is a hook's only if its code is ours. */
	for (int i = 0;
	     i < OWN_FRAMES_MAX && status == OUT && cfa != arch_cfa_of((const uintptr_t *)inner);
	     i++)
		status = step_out(&m, &cfa);
	bool found = false;

	for (int i = 0; i < RUNNING_FRAMES_MAX && status == OUT && !found; i++) {
		bool ours = modules_is_recorder(m.reg[DW_PC]);
		uintptr_t sp = m.reg[DW_SP];

		status = step_out(&m, &cfa);
		found = ours && frame >= sp && frame < cfa; /* the record is in the hook's frame */
	}
	slot->cfi_nested_busy = false;
	return found || status == NO_RULE; /* if unknown, one call is not recorded */
}

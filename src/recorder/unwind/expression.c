/* SPDX-License-Identifier: Apache-2.0 */
/* A small stack machine. Cold: used for signal frames, PLT stubs, ld.so and hand-written assembly. Owns
 * nothing; steps are bounded, so that a loop in a broken table ends. */
#include "recorder/unwind/expression.h"

#include "base/compiler.h"

enum { STEPS_MAX = 512 };

struct evaluator {
	const struct expression *in;
	const uint8_t *at, *start, *end;
	unsigned depth;
	bool failed;
};

static void push(struct evaluator *e, uint64_t value)
{
	if (e->depth == EXPRESSION_DEPTH)
		e->failed = true;
	else
		e->in->stack[e->depth++] = value;
}

static uint64_t pop(struct evaluator *e)
{
	if (e->depth == 0) {
		e->failed = true;
		return 0;
	}
	return e->in->stack[--e->depth];
}

static uint64_t fixed(struct evaluator *e, unsigned bytes)
{
	uint64_t value = 0;

	if ((uint64_t)(e->end - e->at) < bytes) {
		e->failed = true;
		return 0;
	}
	__builtin_memcpy(&value, e->at, bytes);
	e->at += bytes;
	return value;
}

static void dereference(struct evaluator *e, unsigned bytes)
{
	uint64_t address = pop(e), word = 0;

	if (e->failed || !e->in->load(e->in->context, address, &word))
		e->failed = true;
	if (bytes < 8)
		word &= ((uint64_t)1 << bytes * 8) - 1;
	push(e, word);
}

static void register_plus(struct evaluator *e, uint64_t reg, int64_t offset)
{
	if (reg >= DW_REGISTERS)
		e->failed = true;
	else
		push(e, e->in->registers[reg] + (uint64_t)offset);
}

static void pick(struct evaluator *e, unsigned from_top)
{
	if (from_top >= e->depth)
		e->failed = true;
	else
		push(e, e->in->stack[e->depth - 1 - from_top]);
}

/* Moves the top element down by `n`. */
static void roll(struct evaluator *e, unsigned n)
{
	uint64_t *stack = e->in->stack;

	if (e->depth <= n) {
		e->failed = true;
		return;
	}
	uint64_t top = stack[e->depth - 1];

	for (unsigned i = 0; i < n; i++)
		stack[e->depth - 1 - i] = stack[e->depth - 2 - i];
	stack[e->depth - 1 - n] = top;
}

static void jump(struct evaluator *e, bool taken)
{
	int16_t distance = (int16_t)fixed(e, 2);

	if (!taken || e->failed)
		return;
	if (distance < e->start - e->at || distance > e->end - e->at)
		e->failed = true;
	else
		e->at += distance;
}

/* Binary operations; b is the top. */
static bool binary(struct evaluator *e, uint8_t op)
{
	uint64_t b = pop(e), a = pop(e);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case 0x1a:
		push(e, a & b);
		return true;
	case 0x1b:
		e->failed |= sb == 0;
		push(e, sb == 0 ? 0 : (uint64_t)(sb == -1 ? -a : (uint64_t)(sa / sb)));
		return true;
	case 0x1c:
		push(e, a - b);
		return true;
	case 0x1d:
		e->failed |= b == 0;
		push(e, b == 0 ? 0 : a % b);
		return true;
	case 0x1e:
		push(e, a * b);
		return true;
	case 0x21:
		push(e, a | b);
		return true;
	case 0x22:
		push(e, a + b);
		return true;
	case 0x24:
		push(e, b < 64 ? a << b : 0);
		return true;
	case 0x25:
		push(e, b < 64 ? a >> b : 0);
		return true;
	case 0x26:
		push(e, (uint64_t)(sa >> (b < 64 ? b : 63)));
		return true;
	case 0x27:
		push(e, a ^ b);
		return true;
	case 0x29:
		push(e, a == b);
		return true;
	case 0x2a:
		push(e, sa >= sb);
		return true;
	case 0x2b:
		push(e, sa > sb);
		return true;
	case 0x2c:
		push(e, sa <= sb);
		return true;
	case 0x2d:
		push(e, sa < sb);
		return true;
	case 0x2e:
		push(e, a != b);
		return true;
	default:
		return false;
	}
}

/* Constants: DW_OP_addr, const1u .. consts. */
static bool constant(struct evaluator *e, uint8_t op)
{
	switch (op) {
	case 0x03:
	case 0x0e:
	case 0x0f:
		push(e, fixed(e, 8));
		return true;
	case 0x08:
		push(e, fixed(e, 1));
		return true;
	case 0x09:
		push(e, (uint64_t)(int8_t)fixed(e, 1));
		return true;
	case 0x0a:
		push(e, fixed(e, 2));
		return true;
	case 0x0b:
		push(e, (uint64_t)(int16_t)fixed(e, 2));
		return true;
	case 0x0c:
		push(e, fixed(e, 4));
		return true;
	case 0x0d:
		push(e, (uint64_t)(int32_t)fixed(e, 4));
		return true;
	case 0x10:
		push(e, cfi_uleb(&e->at, e->end));
		return true;
	case 0x11:
		push(e, (uint64_t)cfi_sleb(&e->at, e->end));
		return true;
	default:
		return false;
	}
}

/* Unary operations, stack operations and jumps. */
static bool simple(struct evaluator *e, uint8_t op)
{
	uint64_t a;

	switch (op) {
	case 0x06:
		dereference(e, 8);
		return true;
	case 0x12:
		pick(e, 0);
		return true;
	case 0x13:
		pop(e);
		return true;
	case 0x14:
		pick(e, 1);
		return true;
	case 0x15:
		pick(e, (unsigned)fixed(e, 1));
		return true;
	case 0x16:
		roll(e, 1);
		return true;
	case 0x17:
		roll(e, 2);
		return true;
	case 0x19:
		a = pop(e);
		push(e, (int64_t)a < 0 ? -a : a);
		return true;
	case 0x1f:
		push(e, -pop(e));
		return true;
	case 0x20:
		push(e, ~pop(e));
		return true;
	case 0x23:
		a = pop(e);
		push(e, a + cfi_uleb(&e->at, e->end));
		return true;
	case 0x28:
		jump(e, pop(e) != 0);
		return true;
	case 0x2f:
		jump(e, true);
		return true;
	case 0x94:
		dereference(e, (unsigned)fixed(e, 1));
		return true;
	case 0x96: /* nop */
		return true;
	default:
		return false;
	}
}

static void run_one(struct evaluator *e)
{
	uint8_t op = *e->at++;
	uint64_t reg;

	if (op >= 0x30 && op <= 0x4f) {
		push(e, op - 0x30u); /* lit0.. */
	} else if (op >= 0x70 && op <= 0x8f) {
		register_plus(e, op - 0x70u, cfi_sleb(&e->at, e->end)); /* breg0.. */
	} else if (op == 0x92) {
		reg = cfi_uleb(&e->at, e->end);
		register_plus(e, reg, cfi_sleb(&e->at, e->end));
	} else if (!constant(e, op) && !simple(e, op) && !binary(e, op)) {
		e->failed = true;
	}
}

bool expression_evaluate(const struct expression *expression, const uint8_t *code, bool push_first,
			 uint64_t first, uint64_t *ret)
{
	const uint8_t *at = code;
	uint64_t bytes = cfi_uleb(&at, at + CFI_LENGTH_BYTES);
	struct evaluator e = { .in = expression, .at = at, .start = at, .end = at + bytes };

	if (push_first)
		push(&e, first);
	for (unsigned steps = 0; e.at < e.end && !e.failed; steps++) {
		if (steps == STEPS_MAX)
			return false;
		run_one(&e);
	}
	uint64_t value = pop(&e);

	if (e.failed)
		return false;
	*ret = value;
	return true;
}

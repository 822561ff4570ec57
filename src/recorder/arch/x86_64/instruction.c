/* SPDX-License-Identifier: Apache-2.0 */
/* See instruction.h. Lengths follow the opcode maps in volume 2 of Intel's manual. Pure. */
#include "recorder/arch/x86_64/instruction.h"

#include <stddef.h>

enum { BYTES_MAX = 15 };

struct decoder {
	const uint8_t *code;
	uint32_t at;
	bool rex_w, rex_r, rex_b, rex_x, short_operand;
	uint8_t opcode;
	unsigned map; /* 1: one byte, 2: 0F, 3: 0F 38, 4: 0F 3A */
	bool vex;
	/* of ModRM */
	uint8_t mod, reg, rm;
	int8_t base; /* register, -1: none, -2: the next instruction */
	bool has_index;
	int32_t displacement;
};

static int64_t read_signed(struct decoder *d, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)d->code[d->at + i] << 8 * i;
	d->at += bytes;
	unsigned unused = 64 - 8 * bytes;

	return bytes == 0 ? 0 : (int64_t)(value << unused) >> unused;
}

/* An immediate of the operand's size, but at most four bytes. */
static unsigned operand_bytes(const struct decoder *d)
{
	return d->short_operand && !d->rex_w ? 2 : 4;
}

static void read_vex(struct decoder *d, uint8_t first)
{
	uint8_t second = d->code[d->at];

	d->vex = true;
	d->rex_r = !(second & 0x80);
	d->map = 2;
	if (first != 0xc5) { /* C4: three bytes, 62: four */
		d->rex_b = !(second & 0x20);
		d->map = (second & 7) + 1u;
	}
	d->at += first == 0xc5 ? 1 : first == 0xc4 ? 2 : 3;
	d->opcode = d->code[d->at++];
}

static void read_rex(struct decoder *d)
{
	uint8_t byte = d->code[d->at];

	if ((byte & 0xf0) != 0x40)
		return;
	d->rex_w = byte & 8;
	d->rex_r = byte & 4;
	d->rex_x = byte & 2;
	d->rex_b = byte & 1;
	d->at++;
}

static void read_opcode(struct decoder *d)
{
	for (; d->at < 8; d->at++) {
		uint8_t byte = d->code[d->at];

		if (byte == 0x66)
			d->short_operand = true;
		else if (byte != 0x67 && byte != 0xf0 && byte != 0xf2 && byte != 0xf3 &&
			 (byte & 0xe7) != 0x26 && byte != 0x64 && byte != 0x65)
			break;
	}
	read_rex(d);
	uint8_t first = d->code[d->at++];

	d->map = 1;
	d->opcode = first;
	if (first == 0xc4 || first == 0xc5 || first == 0x62) {
		read_vex(d, first);
		return;
	}
	if (first != 0x0f)
		return;
	d->map = 2;
	d->opcode = d->code[d->at++];
	if (d->opcode == 0x38 || d->opcode == 0x3a) {
		d->map = d->opcode == 0x38 ? 3 : 4;
		d->opcode = d->code[d->at++];
	}
}

static bool has_modrm_in_first_map(uint8_t op)
{
	if (op < 0x40)
		return (op & 7) < 4;
	switch (op) {
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xc7:
	case 0xf6:
	case 0xf7:
	case 0xfe:
	case 0xff:
		return true;
	default:
		return (op >= 0x80 && op <= 0x8f) || (op >= 0xd0 && op <= 0xd3) ||
		       (op >= 0xd8 && op <= 0xdf);
	}
}

static bool has_modrm(const struct decoder *d)
{
	uint8_t op = d->opcode;

	if (d->map == 1)
		return has_modrm_in_first_map(op);
	if (d->map != 2)
		return true;
	if (d->vex)
		return op != 0x77;
	return !((op >= 0x05 && op <= 0x0b) || op == 0x0e || (op >= 0x30 && op <= 0x37) ||
		 op == 0x77 || (op >= 0x80 && op <= 0x8f) || (op >= 0xa0 && op <= 0xa2) ||
		 (op >= 0xa8 && op <= 0xaa) || (op >= 0xc8 && op <= 0xcf));
}

static void read_modrm(struct decoder *d)
{
	uint8_t byte = d->code[d->at++];
	unsigned displacement = 0;

	d->mod = byte >> 6;
	d->reg = (byte >> 3 & 7) | (d->rex_r ? 8 : 0);
	d->rm = byte & 7;
	d->base = (int8_t)(d->rm | (d->rex_b ? 8 : 0));
	if (d->mod == 3) {
		d->rm |= d->rex_b ? 8 : 0;
		return;
	}
	if (d->mod == 1)
		displacement = 1;
	else if (d->mod == 2 || d->rm == 5)
		displacement = 4;
	if (d->mod == 0 && d->rm == 5)
		d->base = -2;
	if (d->rm == 4) {
		uint8_t sib = d->code[d->at++];

		d->base = (int8_t)((sib & 7) | (d->rex_b ? 8 : 0));
		d->has_index = (sib >> 3 & 7) != 4 || d->rex_x;
		if (d->mod == 0 && (sib & 7) == 5) {
			d->base = -1;
			displacement = 4;
		}
	}
	d->displacement = (int32_t)read_signed(d, displacement);
}

/* Size of the immediate in the first map. */
static unsigned immediate_in_first_map(const struct decoder *d)
{
	uint8_t op = d->opcode;
	unsigned subcode = d->reg & 7;

	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? operand_bytes(d) : 0;
	if ((op >= 0x70 && op <= 0x7f) || (op >= 0xb0 && op <= 0xb7) || (op >= 0xe0 && op <= 0xe7))
		return 1;
	if (op >= 0xb8 && op <= 0xbf)
		return d->rex_w ? 8 : operand_bytes(d);
	if (op >= 0xa0 && op <= 0xa3)
		return 8;
	switch (op) {
	case 0x6a:
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xa8:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xcd:
	case 0xeb:
		return 1;
	case 0xc2:
		return 2;
	case 0x68:
	case 0x69:
	case 0x81:
	case 0xa9:
	case 0xc7:
		return operand_bytes(d);
	case 0xe8:
	case 0xe9:
		return 4;
	case 0xf6:
		return subcode < 2 ? 1 : 0;
	case 0xf7:
		return subcode < 2 ? operand_bytes(d) : 0;
	default:
		return 0;
	}
}

static unsigned immediate_bytes(const struct decoder *d)
{
	uint8_t op = d->opcode;

	if (d->map == 1)
		return immediate_in_first_map(d);
	if (d->map == 4)
		return 1;
	if (d->map != 2)
		return 0;
	if (op >= 0x80 && op <= 0x8f && !d->vex)
		return 4;
	return (op >= 0x70 && op <= 0x73) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
			       (op >= 0xc4 && op <= 0xc6)
		       ? 1
		       : 0;
}

static bool is_invalid_in_first_map(uint8_t op)
{
	return op == 0x06 || op == 0x07 || op == 0x0e || (op >= 0x16 && op <= 0x17) ||
	       (op >= 0x1e && op <= 0x1f) || op == 0x27 || op == 0x2f || op == 0x37 || op == 0x3f ||
	       op == 0x60 || op == 0x61 || op == 0x82 || op == 0x9a || op == 0xce || op == 0xd4 ||
	       op == 0xd5 || op == 0xd6 || op == 0xea;
}

/* An operation with a register as its destination: sp is lost if it is the one. */
static enum instruction_kind writes(unsigned reg)
{
	return reg == REG_SP ? INSTRUCTION_LOST_SP : INSTRUCTION_OTHER;
}

static struct instruction group_of_immediates(const struct decoder *d, int64_t immediate)
{
	enum { ADD = 0, SUBTRACT = 5, COMPARE = 7 };
	unsigned what = d->reg & 7;

	if (d->mod != 3 || d->rm != REG_SP || what == COMPARE)
		return (struct instruction){ .kind = INSTRUCTION_OTHER };
	if (!d->rex_w || (what != ADD && what != SUBTRACT))
		return (struct instruction){ .kind = INSTRUCTION_LOST_SP };
	return (struct instruction){ .kind = INSTRUCTION_ADD_SP,
				     .value = what == ADD ? immediate : -immediate };
}

/* mov or lea to a register, from a register or memory. */
static struct instruction move_to_register(const struct decoder *d, bool is_address)
{
	bool plain = !d->has_index && (d->base == REG_SP || d->base == REG_FP);

	if (d->mod == 3)
		return (struct instruction){
			.kind = d->reg != REG_SP  ? INSTRUCTION_OTHER
				: d->rm == REG_FP ? INSTRUCTION_SP_IS
						  : INSTRUCTION_LOST_SP,
			.base_is_fp = true,
		};
	if (d->reg == REG_SP)
		return (struct instruction){
			.kind = is_address && plain ? INSTRUCTION_SP_IS : INSTRUCTION_LOST_SP,
			.base_is_fp = d->base == REG_FP,
			.value = d->displacement,
		};
	if (!is_address && plain && d->base == REG_SP && d->rex_w)
		return (struct instruction){ .kind = INSTRUCTION_LOAD,
					     .reg = (int8_t)d->reg,
					     .value = d->displacement };
	return (struct instruction){ .kind = INSTRUCTION_OTHER };
}

static struct instruction group_ff(const struct decoder *d, uintptr_t next)
{
	enum { CALL = 2, CALL_FAR, JUMP, JUMP_FAR, PUSH };
	bool fixed = d->mod == 0 && d->base == -2;
	int64_t pointer = fixed ? (int64_t)(next + (uintptr_t)d->displacement) : 0;

	switch (d->reg & 7) {
	case JUMP:
		return (struct instruction){ .kind = fixed ? INSTRUCTION_TAIL_CALL
							   : INSTRUCTION_LOST_JUMP,
					     .by_pointer = true,
					     .value = pointer };
	case PUSH:
		return (struct instruction){ .kind = INSTRUCTION_PUSH, .reg = -1 };
	case CALL:
		return (struct instruction){ .kind = INSTRUCTION_CALL,
					     .by_pointer = true,
					     .value = pointer };
	case CALL_FAR:
	case JUMP_FAR:
		return (struct instruction){ .kind = INSTRUCTION_END };
	default:
		return (struct instruction){ .kind = d->mod == 3 ? writes(d->rm)
								 : INSTRUCTION_OTHER };
	}
}

static struct instruction control_flow(uint8_t op, uintptr_t target)
{
	switch (op) {
	case 0xe8:
		return (struct instruction){ .kind = INSTRUCTION_CALL, .value = (int64_t)target };
	case 0xe9:
	case 0xeb:
		return (struct instruction){ .kind = INSTRUCTION_JUMP, .value = (int64_t)target };
	case 0xc3:
		return (struct instruction){ .kind = INSTRUCTION_RETURN };
	case 0xcc:
	case 0xcf:
	case 0xf4:
		return (struct instruction){ .kind = INSTRUCTION_END };
	case 0xc9:
		return (struct instruction){ .kind = INSTRUCTION_LEAVE };
	case 0xc2: /* ret n, enter, far return: not in compiled code */
	case 0xc8:
	case 0xca:
	case 0xcb:
		return (struct instruction){ .kind = INSTRUCTION_UNKNOWN };
	default:
		return (struct instruction){ .kind = INSTRUCTION_OTHER };
	}
}

/* The destination is rm, reg or the accumulator. */
static struct instruction arithmetic(const struct decoder *d)
{
	unsigned form = d->opcode & 7;

	if (form < 2 && d->mod == 3)
		return (struct instruction){ .kind = writes(d->rm) };
	return (struct instruction){ .kind = form == 2 || form == 3 ? writes(d->reg)
								    : INSTRUCTION_OTHER };
}

static struct instruction move_from_register(const struct decoder *d)
{
	if (d->mod == 3 && d->rm == REG_FP && d->reg == REG_SP)
		return (struct instruction){ .kind = INSTRUCTION_FP_IS_SP };
	if (d->mod != 3 || d->rm != REG_SP)
		return (struct instruction){ .kind = INSTRUCTION_OTHER };
	return (struct instruction){ .kind = d->reg == REG_FP ? INSTRUCTION_SP_IS
							      : INSTRUCTION_LOST_SP,
				     .base_is_fp = true };
}

static struct instruction exchange(const struct decoder *d)
{
	bool with_sp = d->reg == REG_SP || (d->mod == 3 && d->rm == REG_SP);

	return (struct instruction){ .kind = with_sp ? INSTRUCTION_LOST_SP : INSTRUCTION_OTHER };
}

static struct instruction in_first_map(const struct decoder *d, uintptr_t next, int64_t immediate)
{
	uint8_t op = d->opcode;

	if (is_invalid_in_first_map(op))
		return (struct instruction){ .kind = INSTRUCTION_UNKNOWN };
	if (op < 0x38)
		return arithmetic(d);
	if (op >= 0x50 && op <= 0x57)
		return (struct instruction){ .kind = INSTRUCTION_PUSH,
					     .reg = (int8_t)((op & 7) | (d->rex_b ? 8 : 0)) };
	if (op >= 0x58 && op <= 0x5f)
		return (struct instruction){ .kind = INSTRUCTION_POP,
					     .reg = (int8_t)((op & 7) | (d->rex_b ? 8 : 0)) };
	if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
		return (struct instruction){ .kind = INSTRUCTION_BRANCH,
					     .value = (int64_t)(next + (uintptr_t)immediate) };
	switch (op) {
	case 0x68:
	case 0x6a:
	case 0x9c: /* pushf */
		return (struct instruction){ .kind = INSTRUCTION_PUSH, .reg = -1 };
	case 0x8f:
	case 0x9d: /* popf */
		return (struct instruction){ .kind = INSTRUCTION_POP, .reg = -1 };
	case 0x81:
	case 0x83:
		return group_of_immediates(d, immediate);
	case 0x89:
		return move_from_register(d);
	case 0x8b:
	case 0x8d:
		return move_to_register(d, op == 0x8d);
	case 0x87: /* xchg */
		return exchange(d);
	case 0xff:
		return group_ff(d, next);
	default:
		return control_flow(op, next + (uintptr_t)immediate);
	}
}

struct instruction instruction_decode(const uint8_t *code, uintptr_t pc)
{
	struct decoder d = { .code = code };
	struct instruction instruction = { .kind = INSTRUCTION_OTHER };
	int64_t immediate;

	read_opcode(&d);
	if (d.map == 0 || d.map > 4)
		return (struct instruction){ .kind = INSTRUCTION_UNKNOWN };
	if (has_modrm(&d))
		read_modrm(&d);
	immediate = read_signed(&d, immediate_bytes(&d));
	if (d.at > BYTES_MAX)
		return (struct instruction){ .kind = INSTRUCTION_UNKNOWN };
	if (d.map == 1)
		instruction = in_first_map(&d, pc + d.at, immediate);
	else if (d.map == 2 && !d.vex && d.opcode >= 0x80 && d.opcode <= 0x8f)
		instruction = (struct instruction){ .kind = INSTRUCTION_BRANCH,
						    .value = (int64_t)(pc + d.at +
								       (uintptr_t)immediate) };
	else if (d.map == 2 && !d.vex && d.opcode == 0x0b)
		instruction.kind = INSTRUCTION_END; /* ud2 */
	instruction.bytes = d.at;
	return instruction;
}

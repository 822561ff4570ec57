/* SPDX-License-Identifier: Apache-2.0 */
/* .eh_frame: finds an entry and runs its instructions. Hand-written, because every library for this takes loader
 * locks, allocates, or keeps state that a fork or a signal can corrupt.
 *
 * Owns nothing. Any thread, each with its own scratch area. Cold: the result is cached in the rule table. */
#include "recorder/unwind/cfi.h"

#include "base/compiler.h"
#include "recorder/arch/scan.h"
#include "recorder/libc/libc.h"

uint64_t cfi_uleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < end; shift += 7) {
		uint8_t byte = *(*at)++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

int64_t cfi_sleb(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte = 0;

	while (*at < end) {
		byte = *(*at)++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80))
			break;
	}
	if (shift < 64 && (byte & 0x40))
		value |= ~0ull << shift;
	return (int64_t)value;
}

static uint64_t read_unsigned(const uint8_t **at, const uint8_t *end, unsigned bytes)
{
	uint64_t value = 0;

	if ((size_t)(end - *at) < bytes) {
		*at = end;
		return 0;
	}
	__builtin_memcpy(&value, *at, bytes);
	*at += bytes;
	return value;
}

/* DW_EH_PE_*: the low nibble is the form, the next three bits say what it is relative to. */
enum {
	PE_OMIT = 0xff,
	PE_FORM = 0x0f,
	PE_RELATIVE = 0x70,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_INDIRECT = 0x80
};

static uint64_t read_encoded(const uint8_t **at, const uint8_t *end, uint8_t encoding,
			     const uint8_t *data)
{
	const uint8_t *here = *at;
	uint64_t value;

	switch (encoding & PE_FORM) {
	case 0x01:
		value = cfi_uleb(at, end);
		break;
	case 0x02:
		value = read_unsigned(at, end, 2);
		break;
	case 0x03:
		value = read_unsigned(at, end, 4);
		break;
	case 0x09:
		value = (uint64_t)cfi_sleb(at, end);
		break;
	case 0x0a:
		value = (uint64_t)(int16_t)read_unsigned(at, end, 2);
		break;
	case 0x0b:
		value = (uint64_t)(int32_t)read_unsigned(at, end, 4);
		break;
	default: /* absptr, udata8, sdata8 */
		value = read_unsigned(at, end, 8);
		break;
	}
	if (value == 0)
		return 0;
	if ((encoding & PE_RELATIVE) == PE_PCREL)
		value += (uint64_t)(uintptr_t)here;
	else if ((encoding & PE_RELATIVE) == PE_DATAREL)
		value += (uint64_t)(uintptr_t)data;
	return value;
}

static bool read_cie_augmentation(const uint8_t **at, const uint8_t *end, const char *augmentation,
				  struct cfi_entry *ret)
{
	uint64_t bytes = cfi_uleb(at, end);

	if (bytes > (uint64_t)(end - *at))
		return false;
	const uint8_t *after = *at + bytes;

	for (; *augmentation; augmentation++) {
		if (*augmentation == 'R') {
			ret->encoding = (uint8_t)read_unsigned(at, after, 1);
		} else if (*augmentation == 'P') {
			uint8_t encoding = (uint8_t)read_unsigned(at, after, 1);

			read_encoded(at, after, encoding & PE_FORM, NULL);
		} else if (*augmentation == 'L') {
			read_unsigned(at, after, 1);
		} else if (*augmentation == 'S') {
			ret->signal = true;
		} else if (*augmentation != 'B' && *augmentation != 'G') { /* which have no data */
			break; /* unknown: skip it by the length */
		}
	}
	*at = after;
	return true;
}

/* Returns at + distance if `bytes` from there lie inside the object; else NULL. */
static const uint8_t *place(const struct cfi_table *table, const uint8_t *at, int64_t distance,
			    uint64_t bytes)
{
	uint64_t offset = (uint64_t)(at - table->start) + (uint64_t)distance;
	uint64_t size = (uint64_t)(table->end - table->start);

	return offset <= size && bytes <= size - offset ? table->start + offset : NULL;
}

/* The end of a CIE or FDE; NULL: invalid. */
static const uint8_t *entry_end(const struct cfi_table *table, const uint8_t *entry)
{
	enum { ENTRY_MIN = 8 };
	uint32_t length;

	if (entry == NULL)
		return NULL;
	__builtin_memcpy(&length, entry, sizeof length);
	if (length < ENTRY_MIN || place(table, entry, sizeof length, length) == NULL)
		return NULL;
	return entry + sizeof length + length;
}

/* ret_augmented: FDEs of this CIE carry a length of augmentation data. */
static bool read_cie(const struct cfi_table *table, const uint8_t *cie, struct cfi_entry *ret,
		     bool *ret_augmented)
{
	const uint8_t *end = entry_end(table, cie);

	if (end == NULL)
		return false;
	const uint8_t *at = cie + 8; /* skip the length and the zero that marks a CIE */
	uint8_t version = (uint8_t)read_unsigned(&at, end, 1);
	const char *augmentation = (const char *)at;

	while (at < end && *at)
		at++;
	at++;
	if (at >= end || (augmentation[0] != 0 && augmentation[0] != 'z'))
		return false;
	ret->code_factor = cfi_uleb(&at, end);
	ret->data_factor = cfi_sleb(&at, end);
	ret->return_register =
		version == 1 ? (unsigned)read_unsigned(&at, end, 1) : (unsigned)cfi_uleb(&at, end);
	ret->encoding = 0;
	ret->signal = false;
	*ret_augmented = augmentation[0] == 'z';
	if (*ret_augmented && !read_cie_augmentation(&at, end, augmentation + 1, ret))
		return false;
	ret->initial = at;
	ret->initial_end = end;
	return true;
}

static bool read_fde(const struct cfi_table *table, const uint8_t *fde, struct cfi_entry *ret)
{
	const uint8_t *end = entry_end(table, fde);
	int32_t to_cie;
	bool augmented;

	if (end == NULL)
		return false;
	__builtin_memcpy(&to_cie, fde + 4, sizeof to_cie);
	if (to_cie == 0 ||
	    !read_cie(table, place(table, fde + 4, -(int64_t)to_cie, 8), ret, &augmented))
		return false;
	const uint8_t *at = fde + 8;

	ret->start = read_encoded(&at, end, ret->encoding, NULL);
	ret->end = ret->start + read_encoded(&at, end, ret->encoding & PE_FORM, NULL);
	if (augmented) {
		uint64_t bytes = cfi_uleb(&at, end);

		if (bytes > (uint64_t)(end - at))
			return false;
		at += bytes;
	}
	ret->program = at;
	ret->program_end = end;
	return true;
}

bool cfi_find(const struct cfi_table *table, uintptr_t pc, struct cfi_entry *ret)
{
	enum {
		HEADER_MAX = 4 + 2 * 8,
		HEADER_VERSION = 1,
		TABLE_ENCODING = 0x3b /* datarel sdata4, which every linker writes */
	};
	struct row {
		int32_t pc, fde;
	};

	const uint8_t *header = table->header;

	if (header == NULL || place(table, header, 0, HEADER_MAX) == NULL ||
	    header[0] != HEADER_VERSION || header[3] != TABLE_ENCODING || header[2] == PE_OMIT)
		return false;
	const uint8_t *at = header + 4;

	read_encoded(&at, header + HEADER_MAX, header[1], header);
	uint64_t count = read_encoded(&at, header + HEADER_MAX, header[2], header);
	const struct row *rows = (const struct row *)(const void *)at;
	int64_t key = (int64_t)pc - (int64_t)(uintptr_t)header;
	uint64_t low = 0;

	if ((uintptr_t)at % _Alignof(struct row) != 0 || count == 0 || count > UINT32_MAX ||
	    place(table, at, 0, count * sizeof *rows) == NULL || key < rows[0].pc)
		return false;
	while (count - low > 1) {
		uint64_t middle = low + (count - low) / 2;

		if (rows[middle].pc <= key)
			low = middle;
		else
			count = middle;
	}
	return read_fde(table, place(table, header, rows[low].fde, 8), ret) && pc >= ret->start &&
	       pc < ret->end;
}

/* The instruction interpreter: position, the state it changes, and where to stop. */
struct machine {
	const struct cfi_entry *entry;
	struct cfi_scratch *scratch;
	const uint8_t *at, *end;
	uintptr_t location, stop;
	unsigned remembered;
};

/* Unsigned: a table may hold any number. */
static int64_t scaled(const struct machine *m, uint64_t number)
{
	return (int64_t)(number * (uint64_t)m->entry->data_factor);
}

static void set_rule(struct machine *m, uint64_t reg, enum cfi_kind kind, int64_t value)
{
	if (reg < DW_REGISTERS) {
		m->scratch->state.kind[reg] = (uint8_t)kind;
		m->scratch->state.value[reg] = value;
	}
}

static void restore_rule(struct machine *m, uint64_t reg)
{
	if (reg < DW_REGISTERS)
		set_rule(m, reg, m->scratch->initial.kind[reg], m->scratch->initial.value[reg]);
}

enum { GO_ON, REACHED, UNKNOWN };

/* Skips an expression: a length and that many bytes. */
static int skip_expression(struct machine *m)
{
	const uint8_t *start = m->at;
	uint64_t bytes = cfi_uleb(&m->at, m->end);

	if (m->at == start || m->at[-1] & 0x80 || m->at - start > CFI_LENGTH_BYTES ||
	    bytes > (uint64_t)(m->end - m->at))
		return UNKNOWN;
	m->at += bytes;
	return GO_ON;
}

static int set_expression(struct machine *m, enum cfi_kind kind)
{
	uint64_t reg = cfi_uleb(&m->at, m->end);

	set_rule(m, reg, kind, (int64_t)(uintptr_t)m->at);
	return skip_expression(m);
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	struct cfi_state *state = &m->scratch->state;

	state->cfa_register = (uint8_t)reg;
	state->cfa_offset = offset;
	state->cfa_by_expression = false;
}

static int set_cfa_expression(struct machine *m)
{
	struct cfi_state *state = &m->scratch->state;

	state->cfa_expression = m->at;
	state->cfa_by_expression = true;
	return skip_expression(m);
}

static int advance(struct machine *m, uint64_t delta)
{
	m->location += delta * m->entry->code_factor;
	return m->location > m->stop ? REACHED : GO_ON;
}

/* DW_CFA_* that set the rule of one register. */
static int run_register(struct machine *m, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x10:
		return set_expression(m, CFI_EXPRESSION);
	case 0x16:
		return set_expression(m, CFI_VAL_EXPRESSION);
	default:
		reg = cfi_uleb(&m->at, m->end);
	}
	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(m, reg, CFI_OFFSET, scaled(m, cfi_uleb(&m->at, m->end)));
		return GO_ON;
	case 0x06:
		restore_rule(m, reg);
		return GO_ON;
	case 0x07:
		set_rule(m, reg, CFI_UNDEFINED, 0);
		return GO_ON;
	case 0x08:
		set_rule(m, reg, CFI_SAME, 0);
		return GO_ON;
	case 0x09:
		set_rule(m, reg, CFI_REGISTER, (int64_t)cfi_uleb(&m->at, m->end));
		return GO_ON;
	case 0x11: /* offset_extended_sf */
		set_rule(m, reg, CFI_OFFSET, scaled(m, (uint64_t)cfi_sleb(&m->at, m->end)));
		return GO_ON;
	case 0x14:
		set_rule(m, reg, CFI_VAL_OFFSET, scaled(m, cfi_uleb(&m->at, m->end)));
		return GO_ON;
	case 0x15:
		set_rule(m, reg, CFI_VAL_OFFSET, scaled(m, (uint64_t)cfi_sleb(&m->at, m->end)));
		return GO_ON;
	case 0x2f: /* GNU_negative_offset_extended */
		set_rule(m, reg, CFI_OFFSET, scaled(m, -cfi_uleb(&m->at, m->end)));
		return GO_ON;
	default:
		return UNKNOWN;
	}
}

/* DW_CFA_* that set the CFA, advance, or save and restore the state. */
static int run_other(struct machine *m, uint8_t op)
{
	struct cfi_scratch *s = m->scratch;
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
		return GO_ON;
	case 0x01:
		m->location = read_encoded(&m->at, m->end, m->entry->encoding, NULL);
		return m->location > m->stop ? REACHED : GO_ON;
	case 0x02:
		return advance(m, read_unsigned(&m->at, m->end, 1));
	case 0x03:
		return advance(m, read_unsigned(&m->at, m->end, 2));
	case 0x04:
		return advance(m, read_unsigned(&m->at, m->end, 4));
	case 0x0a:
		if (m->remembered == CFI_REMEMBERED)
			return UNKNOWN;
		s->remembered[m->remembered++] = s->state;
		return GO_ON;
	case 0x0b:
		if (m->remembered == 0)
			return UNKNOWN;
		s->state = s->remembered[--m->remembered];
		return GO_ON;
	case 0x0c:
		reg = cfi_uleb(&m->at, m->end);
		set_cfa(m, reg, (int64_t)cfi_uleb(&m->at, m->end));
		return GO_ON;
	case 0x0d:
		set_cfa(m, cfi_uleb(&m->at, m->end), s->state.cfa_offset);
		return GO_ON;
	case 0x0e:
		s->state.cfa_offset = (int64_t)cfi_uleb(&m->at, m->end);
		return GO_ON;
	case 0x0f:
		return set_cfa_expression(m);
	case 0x12:
		reg = cfi_uleb(&m->at, m->end);
		set_cfa(m, reg, scaled(m, (uint64_t)cfi_sleb(&m->at, m->end)));
		return GO_ON;
	case 0x13:
		s->state.cfa_offset = scaled(m, (uint64_t)cfi_sleb(&m->at, m->end));
		return GO_ON;
	case 0x2e: /* GNU_args_size */
		cfi_uleb(&m->at, m->end);
		return GO_ON;
	default:
		return arch_is_cfa_no_op(op) ? GO_ON : run_register(m, op);
	}
}

static bool run(struct machine *m, const uint8_t *at, const uint8_t *end)
{
	enum { ADVANCE = 1, OFFSET = 2, RESTORE = 3 };
	int status = GO_ON;

	m->at = at;
	m->end = end;
	while (status == GO_ON && m->at < m->end) {
		uint8_t op = *m->at++;
		uint8_t low = op & 0x3f;

		if (op >> 6 == ADVANCE)
			status = advance(m, low);
		else if (op >> 6 == OFFSET)
			set_rule(m, low, CFI_OFFSET, scaled(m, cfi_uleb(&m->at, m->end)));
		else if (op >> 6 == RESTORE)
			restore_rule(m, low);
		else
			status = run_other(m, op);
	}
	return status != UNKNOWN;
}

bool cfi_run(const struct cfi_entry *entry, uintptr_t pc, struct cfi_scratch *scratch)
{
	struct machine m = {
		.entry = entry, .scratch = scratch, .location = 0, .stop = UINTPTR_MAX
	};

	__builtin_memset(&scratch->state, 0, sizeof scratch->state);
	scratch->initial = scratch->state;
	if (!run(&m, entry->initial, entry->initial_end))
		return false;
	scratch->initial = scratch->state;
	m.location = entry->start;
	m.stop = pc;
	return run(&m, entry->program, entry->program_end);
}

bool cfi_state_at(const struct cfi_table *table, uintptr_t pc, bool exact, struct cfi_entry *ret,
		  struct cfi_scratch *scratch)
{
	uintptr_t lookup = exact ? pc : pc - 1;

	if (cfi_find(table, lookup, ret))
		return cfi_run(ret, lookup, scratch);
	if (!libc_is_musl() || table->start == NULL)
		return false;
	enum scan_result result = arch_scan(pc, exact, scratch);

	*ret = (struct cfi_entry){ .return_register = DW_RETURN, .signal = result == SCAN_SIGNAL };
	return result != SCAN_UNKNOWN;
}

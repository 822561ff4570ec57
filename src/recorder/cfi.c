/* SPDX-License-Identifier: Apache-2.0 */
/* .eh_frame: finding an entry and running its instructions. Written by hand because every library that does it takes
 * loader locks, allocates, or keeps state that a fork or a signal can break.
 *
 * Owns nothing. Any thread; each brings its own scratch. Cold: the result is kept in the rule table. */
#include "recorder/cfi.h"

#include "base/compiler.h"

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

/* DW_EH_PE_*: the low nibble is the form, the next three bits what it is relative to. */
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
	const uint8_t *after = *at + bytes;

	if (bytes > (uint64_t)(end - *at))
		return false;
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
		} else {
			break; /* unknown: the length leads past it */
		}
	}
	*at = after;
	return true;
}

/* ret_augmented: FDEs of this CIE carry a length of augmentation data. */
static bool read_cie(const uint8_t *cie, struct cfi_entry *ret, bool *ret_augmented)
{
	const uint8_t *at = cie;
	uint32_t length;

	__builtin_memcpy(&length, at, sizeof length);
	if (length == 0 || length == UINT32_MAX)
		return false;
	at += 8; /* length and the zero that marks a CIE */
	const uint8_t *end = cie + 4 + length;
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

static bool read_fde(const uint8_t *fde, struct cfi_entry *ret)
{
	uint32_t length;
	int32_t to_cie;
	bool augmented;

	__builtin_memcpy(&length, fde, sizeof length);
	__builtin_memcpy(&to_cie, fde + 4, sizeof to_cie);
	if (length == 0 || length == UINT32_MAX || to_cie == 0)
		return false;
	if (!read_cie(fde + 4 - to_cie, ret, &augmented))
		return false;
	const uint8_t *at = fde + 8;
	const uint8_t *end = fde + 4 + length;

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

bool cfi_find(const uint8_t *header, uintptr_t pc, struct cfi_entry *ret)
{
	enum {
		HEADER_VERSION = 1,
		TABLE_ENCODING = 0x3b /* datarel sdata4, what every linker writes */
	};
	struct row {
		int32_t pc, fde;
	};

	if (header == NULL || header[0] != HEADER_VERSION || header[3] != TABLE_ENCODING ||
	    header[2] == PE_OMIT)
		return false;
	const uint8_t *at = header + 4;

	read_encoded(&at, at + 16, header[1], header);
	uint64_t count = read_encoded(&at, at + 16, header[2], header);
	const struct row *rows = (const struct row *)(const void *)at;
	int64_t key = (int64_t)pc - (int64_t)(uintptr_t)header;
	uint64_t low = 0;

	if (count == 0 || key < rows[0].pc)
		return false;
	while (count - low > 1) {
		uint64_t middle = low + (count - low) / 2;

		if (rows[middle].pc <= key)
			low = middle;
		else
			count = middle;
	}
	return read_fde(header + rows[low].fde, ret) && pc >= ret->start && pc < ret->end;
}

/* The instructions. A position, what they change, and where to stop. */
struct machine {
	const struct cfi_entry *entry;
	struct cfi_scratch *scratch;
	const uint8_t *at, *end;
	uintptr_t location, stop;
	unsigned remembered;
};

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

static void set_expression(struct machine *m, enum cfi_kind kind)
{
	uint64_t reg = cfi_uleb(&m->at, m->end);
	const uint8_t *expression = m->at;
	uint64_t bytes = cfi_uleb(&m->at, m->end);

	set_rule(m, reg, kind, (int64_t)(uintptr_t)expression);
	m->at = bytes > (uint64_t)(m->end - m->at) ? m->end : m->at + bytes;
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	struct cfi_state *state = &m->scratch->state;

	state->cfa_register = (uint8_t)reg;
	state->cfa_offset = offset;
	state->cfa_by_expression = false;
}

static void set_cfa_expression(struct machine *m)
{
	struct cfi_state *state = &m->scratch->state;

	state->cfa_expression = m->at;
	state->cfa_by_expression = true;
	uint64_t bytes = cfi_uleb(&m->at, m->end);

	m->at = bytes > (uint64_t)(m->end - m->at) ? m->end : m->at + bytes;
}

enum { GO_ON, REACHED, UNKNOWN };

static int advance(struct machine *m, uint64_t delta)
{
	m->location += delta * m->entry->code_factor;
	return m->location > m->stop ? REACHED : GO_ON;
}

/* DW_CFA_* that set the rule of one register. */
static int run_register(struct machine *m, uint8_t op)
{
	int64_t factor = m->entry->data_factor;
	uint64_t reg;

	switch (op) {
	case 0x10:
		set_expression(m, CFI_EXPRESSION);
		return GO_ON;
	case 0x16:
		set_expression(m, CFI_VAL_EXPRESSION);
		return GO_ON;
	default:
		reg = cfi_uleb(&m->at, m->end);
	}
	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(m, reg, CFI_OFFSET, (int64_t)cfi_uleb(&m->at, m->end) * factor);
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
		set_rule(m, reg, CFI_OFFSET, cfi_sleb(&m->at, m->end) * factor);
		return GO_ON;
	case 0x14:
		set_rule(m, reg, CFI_VAL_OFFSET, (int64_t)cfi_uleb(&m->at, m->end) * factor);
		return GO_ON;
	case 0x15:
		set_rule(m, reg, CFI_VAL_OFFSET, cfi_sleb(&m->at, m->end) * factor);
		return GO_ON;
	case 0x2f: /* GNU_negative_offset_extended */
		set_rule(m, reg, CFI_OFFSET, -(int64_t)cfi_uleb(&m->at, m->end) * factor);
		return GO_ON;
	default:
		return UNKNOWN;
	}
}

/* DW_CFA_* that set the CFA, move on, or keep and bring back the state. */
static int run_other(struct machine *m, uint8_t op)
{
	struct cfi_scratch *s = m->scratch;
	int64_t factor = m->entry->data_factor;
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
		set_cfa_expression(m);
		return GO_ON;
	case 0x12:
		reg = cfi_uleb(&m->at, m->end);
		set_cfa(m, reg, cfi_sleb(&m->at, m->end) * factor);
		return GO_ON;
	case 0x13:
		s->state.cfa_offset = cfi_sleb(&m->at, m->end) * factor;
		return GO_ON;
	case 0x2e: /* GNU_args_size */
		cfi_uleb(&m->at, m->end);
		return GO_ON;
	default:
		return run_register(m, op);
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
			set_rule(m, low, CFI_OFFSET,
				 (int64_t)cfi_uleb(&m->at, m->end) * m->entry->data_factor);
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

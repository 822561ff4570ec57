/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two patterns: the number of mmap is moved to eax, followed by the syscall instruction; or to edi, as the first argument,
 * followed by a call through the slot of syscall(), via the PLT or directly. A few instructions may be in between. No state;
 * the bytes are untrusted input.
 */
#include "collect/binaries/raw_mmap.h"

#include <string.h>

#include "base/compiler.h"

enum { NEAR = 64, MOV_BYTES = 5, CALL_BYTES = 5, CALL_SLOT_BYTES = 6, JUMP_SLOT_BYTES = 6 };
static const uint8_t mov_eax_9[MOV_BYTES] = { 0xb8, 9 }, mov_edi_9[MOV_BYTES] = { 0xbf, 9 };
static const uint8_t system_call[] = { 0x0f, 0x05 }, call_slot[] = { 0xff, 0x15 };
static const uint8_t jump_slot[] = { 0xff, 0x25 };

static uint64_t relative(const uint8_t *at, uint64_t next)
{
	int32_t distance;

	memcpy(&distance, at, sizeof distance);
	return next + (uint64_t)(int64_t)distance;
}

/* Whether the address is a PLT entry for a slot: possibly a landing pad, then a jump. */
static bool leads_to_slot(const struct code *code, const struct elf_slots *slots, uint64_t address)
{
	enum { ENTRY_BYTES = 16 };

	for (size_t i = 0; i < code->count; i++) {
		const struct code_section *s = &code->sections[i];
		struct span entry;
		const uint8_t *jump;

		if (address < s->address ||
		    !span_part(s->bytes, address - s->address, ENTRY_BYTES, &entry))
			continue;
		jump = memmem(entry.data, entry.size, jump_slot, sizeof jump_slot);
		if (jump && jump + JUMP_SLOT_BYTES <= entry.data + entry.size) {
			uint64_t next = address + (uint64_t)(jump - entry.data) + JUMP_SLOT_BYTES;

			return elf_slots_has(slots, relative(jump + sizeof jump_slot, next));
		}
	}
	return false;
}

/* Whether one of the next instructions calls through a slot. */
static bool calls_slot(const struct code *code, const struct elf_slots *slots, struct span next,
		       uint64_t address)
{
	for (size_t i = 0; i + CALL_SLOT_BYTES <= next.size; i++) {
		const uint8_t *at = next.data + i;

		if (memcmp(at, call_slot, sizeof call_slot) == 0 &&
		    elf_slots_has(slots,
				  relative(at + sizeof call_slot, address + i + CALL_SLOT_BYTES)))
			return true;
		if (*at == 0xe8 &&
		    leads_to_slot(code, slots, relative(at + 1, address + i + CALL_BYTES)))
			return true;
	}
	return false;
}

/* Searches for its second byte with memchr: code is tens of megabytes. */
static bool has_instruction(struct span bytes)
{
	const uint8_t *begin = bytes.data, *at = begin, *end = at + bytes.size;

	while ((at = memchr(at, system_call[1], (size_t)(end - at))) != NULL) {
		const uint8_t *before = at++ - 1;

		if (before < begin || *before != system_call[0])
			continue;
		size_t back = MIN((size_t)(before - begin),
				  (size_t)MOV_BYTES + NEAR - sizeof system_call);

		if (memmem(before - back, back, mov_eax_9, MOV_BYTES))
			return true;
	}
	return false;
}

static bool has_call(const struct code *code, const struct elf_slots *slots,
		     const struct code_section *section)
{
	const uint8_t *begin = section->bytes.data, *at = begin, *end = at + section->bytes.size;

	while ((at = memchr(at, mov_edi_9[0], (size_t)(end - at))) != NULL) {
		if (end - at < MOV_BYTES || memcmp(at, mov_edi_9, MOV_BYTES) != 0) {
			at++;
			continue;
		}
		at += MOV_BYTES;
		if (calls_slot(code, slots, span_of(at, MIN((size_t)(end - at), (size_t)NEAR)),
			       section->address + (uint64_t)(at - begin)))
			return true;
	}
	return false;
}

bool raw_mmap_is_in_x86_64(const struct code *code, const struct elf_slots *syscalls)
{
	for (size_t i = 0; i < code->count; i++) {
		const struct code_section *section = &code->sections[i];

		if (section->bytes.size == 0)
			continue; /* its data may be NULL */
		if (has_instruction(section->bytes) ||
		    (syscalls->count > 0 && has_call(code, syscalls, section)))
			return true;
	}
	return false;
}

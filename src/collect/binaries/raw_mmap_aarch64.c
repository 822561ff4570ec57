/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of mmap is moved to x8, followed by svc; or to x0, as the first argument, followed by a call of syscall(): of an entry of the
 * PLT, or through the slot itself, whose address adrp and ldr make. A few instructions may be in between. No state; the bytes are untrusted
 * input.
 */
#include <string.h>

#include "base/compiler.h"
#include "collect/binaries/raw_mmap.h"

enum {
	NEAR = 16,     /* instructions */
	PLT_ENTRY = 5, /* with a landing pad; the last one may have 4 */
	NUMBER_OF_MMAP = 222,
	REGISTERS = 32,
	SVC = (int)0xd4000001,
};
#define WORD sizeof(uint32_t)
#define PAGE_BITS 12

/* Instructions of a section. */
struct words {
	const uint8_t *at;
	uint64_t address;
	size_t count;
};

static uint32_t word(const struct words *w, size_t index)
{
	uint32_t ret;

	memcpy(&ret, w->at + index * WORD, sizeof ret);
	return ret;
}

static struct words words_of(const struct code_section *section)
{
	return (struct words){ section->bytes.data, section->address, section->bytes.size / WORD };
}

static struct words part(const struct words *w, size_t first, size_t count)
{
	return (struct words){ w->at + first * WORD, w->address + first * WORD,
			       MIN(count, w->count - first) };
}

/* movz, of 32 or 64 bits. */
static bool moves_number(uint32_t instruction, unsigned to)
{
	return (instruction & 0x7fffffff) == (0x52800000 | NUMBER_OF_MMAP << 5 | to);
}

static int64_t extended(uint64_t value, unsigned bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* Whether one of the instructions loads what one of the slots has. */
static bool loads_slot(const struct words *w, const struct elf_slots *slots)
{
	uint64_t pages[REGISTERS] = { 0 };

	for (size_t i = 0; i < w->count; i++) {
		uint32_t one = word(w, i);
		uint64_t here = w->address + i * WORD;

		if ((one & 0x9f000000) == 0x90000000) { /* adrp */
			uint64_t distance = (one >> 5 & 0x7ffff) << 2 | (one >> 29 & 3);

			pages[one % REGISTERS] =
				((here >> PAGE_BITS) + (uint64_t)extended(distance, 21))
				<< PAGE_BITS;
		} else if ((one & 0xffc00000) ==
			   0xf9400000) { /* ldr, 64 bits, by a positive offset */
			uint64_t offset = (one >> 10 & 0xfff) * sizeof(uint64_t);

			if (elf_slots_has(slots, pages[one >> 5 & (REGISTERS - 1)] + offset))
				return true;
		}
	}
	return false;
}

static bool leads_to_slot(const struct code *code, const struct elf_slots *slots, uint64_t address)
{
	for (size_t i = 0; i < code->count; i++) {
		const struct words section = words_of(&code->sections[i]);

		if (address < section.address ||
		    (address - section.address) / WORD >= section.count)
			continue;
		struct words entry = part(&section, (address - section.address) / WORD, PLT_ENTRY);
		return loads_slot(&entry, slots);
	}
	return false;
}

/* Whether one of the instructions is bl, or b, to an entry of the PLT for a slot. */
static bool calls_entry(const struct code *code, const struct words *w,
			const struct elf_slots *slots)
{
	for (size_t i = 0; i < w->count; i++) {
		uint32_t one = word(w, i);
		uint64_t distance = (uint64_t)extended(one & 0x3ffffff, 26) * WORD;

		if ((one & 0x7c000000) == 0x14000000 &&
		    leads_to_slot(code, slots, w->address + i * WORD + distance))
			return true;
	}
	return false;
}

static bool has_svc(const struct words *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (word(w, i) == (uint32_t)SVC)
			return true;
	return false;
}

static bool is_in(const struct code *code, const struct elf_slots *slots,
		  const struct words *section)
{
	for (size_t i = 0; i < section->count; i++) {
		uint32_t one = word(section, i);
		size_t back = MIN(i, (size_t)NEAR);
		struct words next = part(section, i, NEAR),
			     around = part(section, i - back, back + NEAR);

		if (moves_number(one, 8) && has_svc(&next))
			return true;
		if (moves_number(one, 0) && slots->count > 0 &&
		    (calls_entry(code, &next, slots) || loads_slot(&around, slots)))
			return true;
	}
	return false;
}

bool raw_mmap_is_in_aarch64(const struct code *code, const struct elf_slots *syscalls)
{
	for (size_t i = 0; i < code->count; i++) {
		const struct words section = words_of(&code->sections[i]);

		if (is_in(code, syscalls, &section))
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The GOT slots in which a file has the addresses of imported functions. */
#ifndef COLLECT_BINARIES_ELF_SLOTS_H
#define COLLECT_BINARIES_ELF_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/binaries/elf_walk.h"

enum { ELF_SLOTS_MAX = 8 };

struct elf_slots {
	uint64_t at[ELF_SLOTS_MAX]; /* link-time addresses */
	size_t count;
};

/* If the section is a relocation table, adds its slots for the functions in the NULL-terminated list. */
void elf_slots_take(struct elf_walk *walk, const char *const *names, struct elf_slots *slots);

static inline bool elf_slots_has(const struct elf_slots *slots, uint64_t address)
{
	for (size_t i = 0; i < slots->count; i++)
		if (slots->at[i] == address)
			return true;
	return false;
}

#endif

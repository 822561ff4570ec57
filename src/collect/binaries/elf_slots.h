/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file has the addresses of functions that others define: slots of its global offset table. */
#ifndef COLLECT_BINARIES_ELF_SLOTS_H
#define COLLECT_BINARIES_ELF_SLOTS_H

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_SLOTS_MAX = 8 };

struct elf_slots {
	uint64_t at[ELF_SLOTS_MAX]; /* as it is linked */
	size_t count;
};

/* Adds those that a section of relocations has for the functions, whose list NULL ends. Other sections have none. */
void elf_slots_take(Elf *elf, Elf_Scn *section, const char *const *names, struct elf_slots *slots);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file has the addresses of functions that others define: slots of its global offset table. */
#ifndef COLLECT_BINARIES_ELF_SLOTS_H
#define COLLECT_BINARIES_ELF_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "collect/binaries/elf_walk.h"

enum { ELF_SLOTS_MAX = 8 };

struct elf_slots {
	uint64_t at[ELF_SLOTS_MAX]; /* as it is linked */
	size_t count;
};

/* Adds those that the section has for the functions, whose list NULL ends, if it is one of relocations. */
void elf_slots_take(struct elf_walk *walk, const char *const *names, struct elf_slots *slots);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterates over the sections of an untrusted file. Time and memory are bounded by the size of the file, which is limited to
 * ELF_WALK_MAX: sections of a linked file do not overlap, and its names are terminated.
 */
#ifndef COLLECT_BINARIES_ELF_WALK_H
#define COLLECT_BINARIES_ELF_WALK_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* More is not read: the code, constants and symbols of any program are smaller. */
#define ELF_WALK_MAX (1ull << 30)

struct elf_walk {
	Elf *elf;
	Elf_Scn *section; /* the current one, with its header */
	GElf_Shdr header;
	/* private */
	uint64_t bytes_left;
	size_t strtab; /* section index of the last string table used */
	bool strtab_terminated;
};

/* False: not a readable ELF file. Call elf_walk_end in either case. */
bool elf_walk_begin(struct elf_walk *walk, struct span bytes);
void elf_walk_end(struct elf_walk *walk);

/* Advances to the next section that is not SHT_PROGBITS, or has SHF_ALLOC: code, data, symbol and string tables, notes. Skips
 * SHT_PROGBITS without SHF_ALLOC, such as .debug_*, and sections larger than bytes_left. False: there is none. */
bool elf_walk_next(struct elf_walk *walk);

/* The string at an offset of the SHT_STRTAB section with this index; NULL: none, or the section is compressed or not terminated. */
const char *elf_walk_name(struct elf_walk *walk, size_t strtab, size_t offset);

#endif

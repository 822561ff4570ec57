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
	uint64_t left;
	size_t table; /* the last string table used */
	bool table_ends;
};

/* False: not a readable ELF file. Call elf_walk_end in either case. */
bool elf_walk_begin(struct elf_walk *walk, struct span bytes);
void elf_walk_end(struct elf_walk *walk);

/* The next section that is loaded or describes the program; sections for debuggers are skipped. False: there is none. */
bool elf_walk_next(struct elf_walk *walk);

/* The name at an offset of a string table; NULL: there is none. */
const char *elf_walk_name(struct elf_walk *walk, size_t table, size_t offset);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of a hostile file, one after the other. Time and memory are bounded by the size of the file, and that by ELF_WALK_MAX:
 * sections of a file that was linked do not overlap, and its names end.
 */
#ifndef COLLECT_BINARIES_ELF_WALK_H
#define COLLECT_BINARIES_ELF_WALK_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* More is not read: the code, constants and symbols of any program are less. */
#define ELF_WALK_MAX (1ull << 30)

struct elf_walk {
	Elf *elf;
	Elf_Scn *section; /* where it is, with its header */
	GElf_Shdr header;
	/* inner */
	uint64_t left;
	size_t table; /* of names, that was asked for last */
	bool table_ends;
};

/* False: no ELF file that can be read. End it in either case. */
bool elf_walk_begin(struct elf_walk *walk, struct span bytes);
void elf_walk_end(struct elf_walk *walk);

/* The next section that a running program has or that tells about it, so not what debuggers read. False: there is none. */
bool elf_walk_next(struct elf_walk *walk);

/* The name at an offset of a section of names; NULL: there is none. */
const char *elf_walk_name(struct elf_walk *walk, size_t table, size_t offset);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libelf reads the structure and checks every offset. It does not limit the number of sections, for each of which it allocates
 * a struct; how many sections contain the same bytes; or the length of names, for which it searches the whole table every time.
 * No state.
 */
#include "collect/binaries/elf_walk.h"

#include <libelf.h>
#include <string.h>

#include "base/compiler.h"

/* Whether the number of sections is in the header, as it is up to 65,279. No program has more, but a file could claim as many
 * as it has bytes. */
static bool has_few_sections(struct span bytes)
{
	Elf64_Ehdr head;
	Elf32_Ehdr small;

	if (bytes.size < sizeof head)
		return false;
	memcpy(&head, bytes.data, sizeof head);
	memcpy(&small, bytes.data, sizeof small);
	return head.e_ident[EI_CLASS] == ELFCLASS32 ? small.e_shnum != 0 || small.e_shoff == 0
						    : head.e_shnum != 0 || head.e_shoff == 0;
}

bool elf_walk_begin(struct elf_walk *walk, struct span bytes)
{
	*walk = (struct elf_walk){ .bytes_left = MIN(bytes.size, ELF_WALK_MAX) };
	if (!has_few_sections(bytes) || elf_version(EV_CURRENT) == EV_NONE)
		return false;
	/* Not written to: libelf copies what it converts. */
	walk->elf = elf_memory((char *)(uintptr_t)bytes.data, bytes.size);
	return walk->elf && elf_kind(walk->elf) == ELF_K_ELF;
}

void elf_walk_end(struct elf_walk *walk)
{
	elf_end(walk->elf);
}

static bool is_wanted(const GElf_Shdr *header)
{
	return header->sh_type != SHT_PROGBITS || header->sh_flags & SHF_ALLOC;
}

bool elf_walk_next(struct elf_walk *walk)
{
	while ((walk->section = elf_nextscn(walk->elf, walk->section)) != NULL) {
		if (!gelf_getshdr(walk->section, &walk->header) || !is_wanted(&walk->header))
			continue;
		uint64_t bytes = walk->header.sh_type != SHT_NOBITS ? walk->header.sh_size : 0;

		if (bytes > walk->bytes_left)
			continue;
		walk->bytes_left -= bytes;
		return true;
	}
	return false;
}

/* Whether a string table ends with a NUL. Compressed ones (SHF_COMPRESSED) are only for debuggers: not read. */
static bool is_terminated(Elf_Scn *table)
{
	GElf_Shdr header;
	Elf_Data *data =
		table && gelf_getshdr(table, &header) && !(header.sh_flags & SHF_COMPRESSED)
			? elf_getdata(table, NULL)
			: NULL;

	return data && data->d_buf && data->d_size > 0 &&
	       ((const char *)data->d_buf)[data->d_size - 1] == '\0';
}

const char *elf_walk_name(struct elf_walk *walk, size_t strtab, size_t offset)
{
	if (walk->strtab != strtab) {
		walk->strtab = strtab;
		walk->strtab_terminated = is_terminated(elf_getscn(walk->elf, strtab));
	}
	return walk->strtab_terminated ? elf_strptr(walk->elf, strtab, offset) : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds them by the names in the file's relocations. No state. */
#include "collect/binaries/elf_slots.h"

#include <libelf.h>
#include <stdbool.h>
#include <string.h>

static bool is_among(const char *const *names, const char *name)
{
	for (; name && *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

/* One symbol table, and the index of its string table. */
struct symbols {
	Elf_Data *data;
	size_t names;
};

static const char *name_of(struct elf_walk *walk, const struct symbols *symbols, size_t index)
{
	GElf_Sym symbol;

	if (index == 0 || index > INT32_MAX || !gelf_getsym(symbols->data, (int)index, &symbol) ||
	    symbol.st_shndx != SHN_UNDEF)
		return NULL;
	return elf_walk_name(walk, symbols->names, symbol.st_name);
}

void elf_slots_take(struct elf_walk *walk, const char *const *names, struct elf_slots *slots)
{
	GElf_Shdr table;
	GElf_Rela relocation;

	if (walk->header.sh_type != SHT_RELA)
		return;
	Elf_Data *data = elf_getdata(walk->section, NULL);
	Elf_Scn *linked = elf_getscn(walk->elf, walk->header.sh_link);
	struct symbols symbols = { linked ? elf_getdata(linked, NULL) : NULL, 0 };

	if (!data || !symbols.data || !gelf_getshdr(linked, &table))
		return;
	symbols.names = table.sh_link;
	for (int i = 0; gelf_getrela(data, i, &relocation); i++)
		if (slots->count < ELF_SLOTS_MAX &&
		    is_among(names, name_of(walk, &symbols, GELF_R_SYM(relocation.r_info))))
			slots->at[slots->count++] = relocation.r_offset;
}

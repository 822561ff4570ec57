/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table of a module's functions.
 *
 * libdwfl can answer the same query, but scans the whole symbol table for each address, which takes
 * minutes for a large binary with tens of thousands of frames.
 *
 * Aliases (malloc and __libc_malloc) share one range: a global name takes precedence over a weak
 * one, and that over a local one; fewer leading underscores are preferred.
 */
#include "symbols/debug/elf_symbols.h"

#include <string.h>

#include "util/vector.h"

static uint32_t name_rank(const char *name, unsigned binding)
{
	uint32_t underscores = (uint32_t)strspn(name, "_");
	uint32_t rank = binding == STB_GLOBAL ? 3u : binding == STB_WEAK ? 2u : 1u;

	return rank << 8 | (underscores < 255 ? 255 - underscores : 0);
}

static bool is_function(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_size > 0 &&
	       symbol->st_shndx != SHN_UNDEF;
}

int elf_symbols_load(struct elf_symbols *symbols, Dwfl_Module *module, uint64_t bias)
{
	int count = dwfl_module_getsymtab(module);

	*symbols = (struct elf_symbols){ 0 };
	/* Entry 0 of a symbol table is empty. */
	for (int i = 1; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		const char *name =
			dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (!name || !name[0] || !is_function(&symbol))
			continue;
		uint32_t item = (uint32_t)symbols->names.count;
		uint64_t low = address - bias;

		if (!vector_push(&symbols->names, name) ||
		    !ranges_add(&symbols->ranges, low, saturating_add(low, symbol.st_size), item,
				name_rank(name, GELF_ST_BIND(symbol.st_info)))) {
			elf_symbols_release(symbols);
			return -1;
		}
	}
	ranges_sort(&symbols->ranges);
	return 0;
}

void elf_symbols_release(struct elf_symbols *symbols)
{
	ranges_release(&symbols->ranges);
	vector_release(&symbols->names);
}

const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address)
{
	const struct range *found = ranges_find(&symbols->ranges, address);

	return found ? symbols->names.at[found->item] : NULL;
}

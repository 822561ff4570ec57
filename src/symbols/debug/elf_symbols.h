/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a module's ELF symbol tables (.symtab, .dynsym, .gnu_debugdata), by address. */
#ifndef SYMBOLS_DEBUG_ELF_SYMBOLS_H
#define SYMBOLS_DEBUG_ELF_SYMBOLS_H

#include <stdint.h>

#include <elfutils/libdwfl.h>

#include "symbols/ranges.h"

struct elf_symbols {
	struct ranges ranges; /* item = index into names */
	struct {
		const char **at; /* owned by libdwfl */
		size_t count, capacity;
	} names;
};

/* Addresses in the table are libdwfl's minus `bias`. An empty table is not an error; -1 if out of memory. */
int elf_symbols_load(struct elf_symbols *symbols, Dwfl_Module *module, uint64_t bias);
void elf_symbols_release(struct elf_symbols *symbols);
/* The function whose size covers the address, or NULL: the nearest preceding one would be a guess. */
const char *elf_symbols_find(const struct elf_symbols *symbols, uint64_t address);

#endif

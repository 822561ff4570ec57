/* SPDX-License-Identifier: Apache-2.0 */
/* The writable variables of a module: from its ELF symbols, and where they are defined, from its DWARF. Not thread-safe. */
#ifndef SYMBOLS_DEBUG_VARIABLES_H
#define SYMBOLS_DEBUG_VARIABLES_H

#include <stdint.h>

#include <elfutils/libdwfl.h>

enum variable_section {
	SECTION_DATA,
	SECTION_BSS,
	SECTION_RELRO, /* constant after relocation */
	SECTION_TLS,   /* one for each thread; its address is an offset in the thread's memory */
};

struct variable {
	uint64_t address, size;
	enum variable_section section;
	const char *linkage_name;
	const char *file;   /* NULL: unknown */
	const char *folder; /* base of a relative `file`; NULL: unknown */
	uint32_t line;	    /* 0: unknown */
};

struct variables {
	struct variable *at; /* TLS last; by address, not overlapping. Texts belong to libdwfl */
	size_t count, capacity;
};
/* Addresses are libdwfl's minus `bias`. -1 if out of memory. */
int variables_load(struct variables *variables, Dwfl_Module *module, uint64_t bias);
/* Adds where they are defined; addresses in the DWARF are theirs plus `bias`. */
void variables_locate(struct variables *variables, Dwarf *dwarf, uint64_t bias);
void variables_release(struct variables *variables);

#endif

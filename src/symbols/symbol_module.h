/* SPDX-License-Identifier: Apache-2.0 */
/* One file with symbols: opened, checked against the build-id, and queried through readers. */
#ifndef SYMBOLS_SYMBOL_MODULE_H
#define SYMBOLS_SYMBOL_MODULE_H

#include "base/span.h"
#include "symbols/debug/content_key.h"
#include "symbols/debug/debug_search.h"
#include "symbols/debug/dwarf_index.h"
#include "symbols/debug/variables.h"
#include "symbols/symbolizer.h"

struct symbol_module;

/*
 * Opens the file at `path`; if that is not the recorded one, opens what the folders of the search have
 * for the build-id. NULL if there is nothing; *ret_source says why, or what was found.
 */
struct symbol_module *symbol_module_open(const struct debug_search *search, const char *path,
					 struct span build_id, enum symbol_source *ret_source);
void symbol_module_free(struct symbol_module *module);

/*
 * Whether its names are of that content, and may be cached as such: they come only from the file at its path and the files that belong
 * to it, from no others (split units), and none is missing.
 */
bool symbol_module_is_of(const struct symbol_module *module, const struct content *content);
/* The index of the unit that covers the instruction; UINT32_MAX if none does. Any thread. */
uint32_t symbol_module_unit(const struct symbol_module *module, uint64_t address);

/*
 * A reader looks up addresses. Each thread has its own; libdw's caches are freed with the reader, so
 * callers that need all of a large module should split the work. Any thread may create and free it;
 * the module outlives it. NULL if out of memory.
 */
struct symbol_reader;
struct symbol_reader *symbol_reader_new(struct symbol_module *module);
void symbol_reader_free(struct symbol_reader *reader);

/*
 * The frames at the instruction, innermost first: fills at most DWARF_CHAIN_MAX and returns their
 * number, 0 if unknown. Strings live as long as the reader and the module.
 */
size_t symbol_reader_find(struct symbol_reader *reader, uint64_t address,
			  struct dwarf_frame *frames);

/* Its writable variables; texts live as long as the module. -1 if out of memory. */
int symbol_module_variables(struct symbol_module *module, struct variables *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One file that names come from: opened, checked against the build-id, and asked through readers. */
#ifndef SYMBOLS_SYMBOL_MODULE_H
#define SYMBOLS_SYMBOL_MODULE_H

#include "base/span.h"
#include "symbols/debug/content_key.h"
#include "symbols/debug/debug_search.h"
#include "symbols/debug/dwarf_index.h"
#include "symbols/symbolizer.h"

struct symbol_module;

/*
 * Opens the file at `path`, or else, if that is not the one that was recorded, what the folders of the
 * search have for the build-id. NULL if that gives nothing; *ret_source says why, or what there is.
 */
struct symbol_module *symbol_module_open(const struct debug_search *search, const char *path,
					 struct span build_id, enum symbol_source *ret_source);
void symbol_module_free(struct symbol_module *module);

/*
 * Whether its names are of that content, and may be kept as such: they come from the file at its path and what belongs to that, and from
 * no others (split units), and none are missing.
 */
bool symbol_module_is_of(const struct symbol_module *module, const struct content *content);
/* The number of the unit that covers the instruction; UINT32_MAX if none does. Any thread. */
uint32_t symbol_module_unit(const struct symbol_module *module, uint64_t address);

/*
 * What finds. Each thread has its own; what libdw remembers goes with the reader, so that whoever asks
 * about all of a large module does so in parts. Made and freed by any thread; the module outlives it.
 * NULL if out of memory.
 */
struct symbol_reader;
struct symbol_reader *symbol_reader_new(struct symbol_module *module);
void symbol_reader_free(struct symbol_reader *reader);

/*
 * The frames at the instruction, innermost first: fills at most DWARF_CHAIN_MAX and returns their
 * number, 0 if nothing is known. Strings live as long as the reader and the module.
 */
size_t symbol_reader_find(struct symbol_reader *reader, uint64_t address,
			  struct dwarf_frame *frames);

#endif

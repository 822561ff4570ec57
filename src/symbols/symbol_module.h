/* SPDX-License-Identifier: Apache-2.0 */
/* One file that names come from: opened, checked against the build-id, and asked. */
#ifndef SYMBOLS_SYMBOL_MODULE_H
#define SYMBOLS_SYMBOL_MODULE_H

#include "base/span.h"
#include "symbols/debug_search.h"
#include "symbols/dwarf_index.h"
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
 * The frames at the instruction, innermost first: fills at most DWARF_CHAIN_MAX and returns their
 * number, 0 if nothing is known. Strings live as long as the module.
 */
size_t symbol_module_find(struct symbol_module *module, uint64_t address,
			  struct dwarf_frame *frames);

#endif

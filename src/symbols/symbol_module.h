/* SPDX-License-Identifier: Apache-2.0 */
/* One file that names come from: opened, checked against the build-id, and asked. */
#ifndef SYMBOLS_SYMBOL_MODULE_H
#define SYMBOLS_SYMBOL_MODULE_H

#include "base/span.h"
#include "symbols/dwarf_index.h"
#include "symbols/symbolizer.h"

struct symbol_module;

/* Opens the file at `path`. NULL if it gives nothing; *ret_source says why, or what it has. */
struct symbol_module *symbol_module_open(const char *path, struct span build_id,
					 enum symbol_source *ret_source);
void symbol_module_free(struct symbol_module *module);

/*
 * The frames at the instruction, innermost first: fills at most DWARF_CHAIN_MAX and returns their
 * number, 0 if nothing is known. Strings live as long as the module.
 */
size_t symbol_module_find(struct symbol_module *module, uint64_t address,
			  struct dwarf_frame *frames);

#endif

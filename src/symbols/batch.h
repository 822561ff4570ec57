/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolizes many addresses of one module, on several threads. */
#ifndef SYMBOLS_BATCH_H
#define SYMBOLS_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/symbol_module.h"

/*
 * Called once for each address, from any thread, but never concurrently; with no frames if the address
 * is unknown. The frames' strings live until it returns.
 */
typedef void batch_keep(void *context, uint64_t address, const struct dwarf_frame *frames,
			size_t count);

/*
 * Looks up all addresses. `workers` is the maximum number of threads, including the caller; at
 * least 1. Addresses are dropped if out of memory.
 */
void batch_find(struct symbol_module *module, const uint64_t *addresses, size_t count,
		unsigned workers, batch_keep *keep, void *context);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Many addresses of one module at once, by several threads. */
#ifndef SYMBOLS_BATCH_H
#define SYMBOLS_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/symbol_module.h"

/*
 * Called once for each address, by any thread, but one at a time; without frames if nothing is known of
 * it. The frames' strings live until it returns.
 */
typedef void batch_keep(void *context, uint64_t address, const struct dwarf_frame *frames,
			size_t count);

/*
 * Finds all addresses. `workers` is how many threads may work, this one included; at
 * least 1. Out of memory leaves addresses out.
 */
void batch_find(struct symbol_module *module, const uint64_t *addresses, size_t count,
		unsigned workers, batch_keep *keep, void *context);

#endif

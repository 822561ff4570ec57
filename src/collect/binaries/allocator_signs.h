/* SPDX-License-Identifier: Apache-2.0 */
/* Signs in a file that it contains an allocator or a runtime, or that it bypasses the recorder. Results are bits of enum
 * unrecorded. Pure. */
#ifndef COLLECT_BINARIES_ALLOCATOR_SIGNS_H
#define COLLECT_BINARIES_ALLOCATOR_SIGNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* From a function that the file defines, or imports. */
uint64_t signs_of_function(const char *name);
uint64_t signs_of_import(const char *name);

/* From texts in its constants. `sure` gets those with no other explanation; the others may only mention an allocator. */
uint64_t signs_of_words(struct span constants, uint64_t *sure);

#endif

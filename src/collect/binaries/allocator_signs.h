/* SPDX-License-Identifier: Apache-2.0 */
/* By what a file shows that it holds an allocator or a runtime, or that it goes past the recorder. Results are bits of
 * enum unseen. Pure. */
#ifndef COLLECT_BINARIES_ALLOCATOR_SIGNS_H
#define COLLECT_BINARIES_ALLOCATOR_SIGNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* By a function that the file defines, or that it asks others for. */
uint64_t signs_of_function(const char *name);
uint64_t signs_of_import(const char *name);

/* By a text among its constants. `sure` gets those that nobody has for another reason; the others may be about somebody else. */
uint64_t signs_of_words(struct span constants, uint64_t *sure);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an allocator inside a program that calls hooks of its own, so that the recorder can use them. */
#ifndef COLLECT_BINARIES_ALLOCATOR_HOOKS_H
#define COLLECT_BINARIES_ALLOCATOR_HOOKS_H

#include <stdbool.h>

#include "base/span.h"
#include "format/live/live_hooks.h"

/* False: the program has none, or no symbols. `symbols` is the file that has them: the program's own, or its debug file. Both are
 * untrusted. */
bool allocator_hooks_of(struct span program, struct span symbols, struct live_hooks *ret);

#endif

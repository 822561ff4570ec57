/* SPDX-License-Identifier: Apache-2.0 */
/* A jemalloc inside the executable, whose calls do not pass through our hooks but through its own. docs/decisions/041. */
#ifndef RECORDER_HOOKS_JEMALLOC_H
#define RECORDER_HOOKS_JEMALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Its version, "5.3.0", once its calls are recorded; "": they are not. */
extern HIDDEN char jemalloc_version[8];

/* The code that maps memory for it: these mappings are not the program's. And its C++ operators. */
extern HIDDEN uintptr_t jemalloc_pages, jemalloc_pages_bytes;
extern HIDDEN uintptr_t jemalloc_operators, jemalloc_operators_bytes;

/* True if the collector found one in this very program. At start-up. */
bool jemalloc_is_expected(void);

/* Makes it call us. Once all objects are relocated, and outside of any hook, since jemalloc may initialize itself now. */
void jemalloc_install(void);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator inside the executable, whose calls do not pass through our hooks but through its own: jemalloc's or those of gperftools.
 * docs/decisions/041. */
#ifndef RECORDER_HOOKS_LINKED_IN_H
#define RECORDER_HOOKS_LINKED_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Its name, "jemalloc 5.3.0", once its calls are recorded; "": they are not. */
enum { LINKED_IN_NAME = 16 };
extern HIDDEN char linked_in_name[LINKED_IN_NAME];

/* The code that maps memory for it: these mappings are not the program's. And its functions that the program may have called, whose
 * frames are not the program's. */
extern HIDDEN uintptr_t linked_in_pages, linked_in_pages_bytes;
extern HIDDEN uintptr_t linked_in_entry, linked_in_entry_bytes;

/* True if the collector found one in this very program. At start-up. */
bool linked_in_is_expected(void);

/* Makes it call us. Once all objects are relocated, and outside of any hook, since it may initialize itself now. */
void linked_in_install(void);

/* NULL for 0. */
void *linked_in_function(uint64_t address);
#endif

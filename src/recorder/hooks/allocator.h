/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies the allocator that the program's blocks come from. */
#ifndef RECORDER_HOOKS_ALLOCATOR_H
#define RECORDER_HOOKS_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "recorder/hooks/linked_in.h"

/* Code range of the object that defines the malloc we forward to: its mappings are not the program's. */
extern HIDDEN uintptr_t allocator_start, allocator_bytes;
extern HIDDEN bool allocator_is_libc;
/* Code range of libc, which may call another malloc inside of that malloc. */
extern HIDDEN uintptr_t allocator_libc_start, allocator_libc_bytes;

static ALWAYS_INLINE bool is_in_allocator(uintptr_t pc)
{
	return pc - allocator_start < allocator_bytes ||
	       pc - linked_in_pages < linked_in_pages_bytes;
}

/* Sets these ranges, while `next` is being filled in. */
void allocator_look_up(void);

/* Writes the allocator's name to the profile header and detects how closely it
 * packs blocks. Called when a profile is created. */
void allocator_probe(void);

/* Writes the name again, now that a jemalloc inside the executable is recorded. */
void allocator_name(void);
#endif

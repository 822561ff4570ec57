/* SPDX-License-Identifier: Apache-2.0 */
/* Whose malloc the program's blocks come from. */
#ifndef RECORDER_HOOKS_ALLOCATOR_H
#define RECORDER_HOOKS_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* The code of whoever defines the malloc that we forward to: what it maps is not the program's. */
extern HIDDEN uintptr_t allocator_start, allocator_bytes;
extern HIDDEN bool allocator_is_libc;

static ALWAYS_INLINE bool is_in_allocator(uintptr_t pc)
{
	return pc - allocator_start < allocator_bytes;
}

/* Finds where that code is, while everything in `next` is looked up. */
void allocator_look_up(void);

/* Names it in the profile's head, and learns how close its blocks may lie. When a profile is made. */
void allocator_probe(void);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Malloc-like functions of the program or its libraries, recorded as pools without its cooperation: the GOT slots through
 * which other objects call them are redirected to us. docs/decisions/015. */
#ifndef RECORDER_API_WRAPS_H
#define RECORDER_API_WRAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/wraps.h"

struct wrapped_pool;

enum { WRAP_TARGETS = 64 };

/* A function whose calls were redirected; never changes once set. */
struct wrap_target {
	void *function;
	uint32_t item;
};
extern HIDDEN struct wrap_target wrap_targets[WRAP_TARGETS];

/* The handler that each target's thunk jumps to, and the thunks: ARCH_THUNK_BYTES each. */
extern HIDDEN const void *wrap_handlers[WRAP_TARGETS];
extern HIDDEN const char wrap_thunks[];
extern HIDDEN const void *const wrap_handler_of[WRAP_SHAPES];

struct wrapped_pool *wraps_pool(uint32_t target);

/* Reads which functions are requested, when the recorder has just started. */
void wraps_start(void);

/* Redirects the calls of all objects, once all are loaded; and those of the object that contains an address, before it
 * runs. Both under the loader's lock, or while there is one thread. */
void wraps_visit_all(void);
void wraps_visit(uintptr_t address);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Malloc-like functions that belong to the program or its libraries, recorded as pools without its knowing: the words
 * by which other objects call them are made to lead here. docs/decisions/015. */
#ifndef RECORDER_API_WRAPS_H
#define RECORDER_API_WRAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/wraps.h"

struct wrapped_pool;

enum { WRAP_TARGETS = 64 };

/* A function that calls were turned away from; never changes once it is there. */
struct wrap_target {
	void *function;
	uint32_t item;
};
extern HIDDEN struct wrap_target wrap_targets[WRAP_TARGETS];

/* Where the code for each target goes on, and that code: ARCH_THUNK_BYTES for each. */
extern HIDDEN const void *wrap_handlers[WRAP_TARGETS];
extern HIDDEN const char wrap_thunks[];
extern HIDDEN const void *const wrap_handler_of[WRAP_SHAPES];

struct wrapped_pool *wraps_pool(uint32_t target);

/* Reads which functions are requested; the recorder has just started. */
void wraps_start(void);

/* All objects, when they are all there; and the one that holds an address, before it runs. Both with the loader's lock, or
 * while there is one thread. */
void wraps_visit_all(void);
void wraps_visit(uintptr_t address);
#endif

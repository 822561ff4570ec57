/* SPDX-License-Identifier: Apache-2.0 */
/* The Python functions on a stack.
 *
 * A native stack and the interpreter's frames are merged into one stack: the functions that an interpreter loop runs are inserted
 * at the native frame of that loop. An address tells which one it is: each loop keeps a record in its native frame. This needs no
 * function names, so any build of the interpreter works.
 *
 * The site of such a stack is found by the hashes of its native part and of its Python frames. Since the whole chain of frames is
 * hashed at every allocation, no cached state can be stale. */
#ifndef RECORDER_PYTHON_STACK_H
#define RECORDER_PYTHON_STACK_H

#include "recorder/slot.h"

struct origin;

/* Returns the slot's counters of the stack on which the hook with the record `frame` was called; native: the hash of its native
 * part; interrupted: a signal handler may be on it. */
uint32_t python_counters(struct slot *slot, uint64_t native, struct origin origin, bool interrupted,
			 const uintptr_t *frame);

/* Call when another thread takes the slot, with other counters. */
void python_forget(struct slot *slot);
#endif

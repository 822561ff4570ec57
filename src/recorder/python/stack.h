/* SPDX-License-Identifier: Apache-2.0 */
/* The Python functions on a stack.
 *
 * A native stack and the frames of the interpreter together are one stack: the functions that an interpreter loop runs stand where
 * the native frame of that loop is. Which one that is, the interpreter tells by an address: each loop keeps a record in its native
 * frame. No name of a function is needed, so that any build of the interpreter will do.
 *
 * The site of such a stack is found by the hash of its native part and one of its Python frames. Since the whole chain of frames is hashed at every allocation, nothing is remembered that could be outdated. */
#ifndef RECORDER_PYTHON_STACK_H
#define RECORDER_PYTHON_STACK_H

#include "recorder/slot.h"

/* The slot's counters of the stack that the hook with the record `frame` was called on; native: the hash of its native part;
 * interrupted: a signal handler may be on it. */
uint32_t python_counters(struct slot *slot, uint64_t native, enum live_kind kind, bool interrupted,
			 const uintptr_t *frame);

/* Another thread goes on with the slot: its counters are other ones. */
void python_forget(struct slot *slot);
#endif

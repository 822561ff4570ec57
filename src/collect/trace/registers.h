/* SPDX-License-Identifier: Apache-2.0 */
/* What the registers of a thread say: where its stack and its thread-local storage are, and words that may be pointers. */
#ifndef COLLECT_TRACE_REGISTERS_H
#define COLLECT_TRACE_REGISTERS_H

#include <elf.h>
#include <sys/user.h>

#include "collect/trace/stop.h"

/* The note that has the vector registers. */
#ifdef __x86_64__
#define REGISTERS_VECTORS NT_X86_XSTATE
#else
#define REGISTERS_VECTORS NT_PRFPREG
#endif

/* Adds a thread. thread_pointer: where it is not among the registers. False: out of memory, and nothing was added. */
bool registers_add(struct stopped *stopped, pid_t tid, const struct user_regs_struct *registers,
		   uint64_t thread_pointer, const uint64_t *vectors, size_t vector_count);

#endif

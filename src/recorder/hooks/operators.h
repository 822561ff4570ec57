/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators that our hooks forward to. */
#ifndef RECORDER_HOOKS_OPERATORS_H
#define RECORDER_HOOKS_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

/* Every operator takes at most three arguments, all in registers; passing more than it takes is harmless. */
typedef void *operator_fn(uintptr_t a, uintptr_t b, uintptr_t c);

/* X(number, symbol). Those of arrays have odd numbers. */
#define NEW_OPERATORS(X)                                                                           \
	X(0, "_Znwm")                                                                              \
	X(1, "_Znam")                                                                              \
	X(2, "_ZnwmRKSt9nothrow_t")                                                                \
	X(3, "_ZnamRKSt9nothrow_t")                                                                \
	X(4, "_ZnwmSt11align_val_t")                                                               \
	X(5, "_ZnamSt11align_val_t")                                                               \
	X(6, "_ZnwmSt11align_val_tRKSt9nothrow_t")                                                 \
	X(7, "_ZnamSt11align_val_tRKSt9nothrow_t")
#define DELETE_OPERATORS(X)                                                                        \
	X(8, "_ZdlPv")                                                                             \
	X(9, "_ZdaPv")                                                                             \
	X(10, "_ZdlPvm")                                                                           \
	X(11, "_ZdaPvm")                                                                           \
	X(12, "_ZdlPvRKSt9nothrow_t")                                                              \
	X(13, "_ZdaPvRKSt9nothrow_t")                                                              \
	X(14, "_ZdlPvSt11align_val_t")                                                             \
	X(15, "_ZdaPvSt11align_val_t")                                                             \
	X(16, "_ZdlPvmSt11align_val_t")                                                            \
	X(17, "_ZdaPvmSt11align_val_t")                                                            \
	X(18, "_ZdlPvSt11align_val_tRKSt9nothrow_t")                                               \
	X(19, "_ZdaPvSt11align_val_tRKSt9nothrow_t")
enum { FIRST_ALIGNED_NEW = 4, FIRST_DELETE = 8, OPERATORS = 20 };

/* The next definition of each operator; NULL: none, or not looked up yet. */
extern operator_fn *next_operator[OPERATORS];
/* True if the operator is defined in the same object as malloc, so that its blocks come from that allocator. */
extern bool operator_of_allocator[OPERATORS];

/* Looks them up, while `next` is being filled in. */
void operators_look_up(void);
/* Unexports each of our operators that has no next definition; see unexport.h. */
void operators_unexport(void);

/* Calls of operators are recorded as the calls of malloc that they make. */
void operators_leave_to_malloc(void);

/* Fallback for an operator whose next_operator is NULL. */
operator_fn *operators_instead(int number);

/* True if pc is inside an operator: a call from there is the operator's, not the program's. */
bool operators_call(uintptr_t pc);

/* Section of our operators new: if the next operator tail-calls malloc, the return address is in ours. */
#define OPERATOR_SECTION "heapgauge_new"
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_OPERATORS_H
#define RECORDER_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the next C++ operators. At start-up, under a hook's guard. */
void operators_start(void);

/* Whether pc is in the body of one of them: a call from there is the operator's, not the program's. */
bool operators_call(uintptr_t pc);
#endif

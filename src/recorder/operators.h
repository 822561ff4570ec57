/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_OPERATORS_H
#define RECORDER_OPERATORS_H

/* Finds the next C++ operators and tries out whether they reach malloc. At start-up, under a hook's guard. */
void operators_start(void);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime of a language keeps until the end by design: the buffers of stdio, the dynamic linker's tables, libstdc++'s
 * emergency pool, what an interpreter sets up once. A program that prints a line has some of it, and it is none of the program's.
 */
#ifndef ANALYSIS_QUERY_BUILTIN_H
#define ANALYSIS_QUERY_BUILTIN_H

#include <stdbool.h>

#include "analysis/result/result.h"

/* Whether a stack with this frame is one of those. */
bool builtin_suppresses(const struct result_frame *frame);
/* Whether the frame is in a library of the runtime: stacks of nothing else are those libraries' own. */
bool builtin_is_runtime(const struct result_frame *frame);

#endif

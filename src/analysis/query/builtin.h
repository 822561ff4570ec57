/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built-in suppressions: memory that language runtimes keep until exit by design, such as stdio buffers, the dynamic linker's
 * tables, libstdc++'s emergency pool, and what an interpreter sets up once. Even a program that prints one line has some; it is
 * not a leak.
 */
#ifndef ANALYSIS_QUERY_BUILTIN_H
#define ANALYSIS_QUERY_BUILTIN_H

#include <stdbool.h>

#include "analysis/result/result.h"

/* Whether a frame on the stack makes it such memory. */
bool builtin_suppresses(const struct result_frame *frame);
/* Whether the frame is in a runtime library: stacks with no other frames belong to those libraries. */
bool builtin_is_runtime(const struct result_frame *frame);

#endif

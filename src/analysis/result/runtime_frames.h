/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes frames that are common to all programs, by their names. */
#ifndef ANALYSIS_RESULT_RUNTIME_FRAMES_H
#define ANALYSIS_RESULT_RUNTIME_FRAMES_H

#include <stdbool.h>

#include "analysis/result/result.h"

/* Frames between the program and its memory (libc, allocators, containers), and start-up code. */
bool is_runtime_frame(const struct result_frame *frame);
/* Of a module of the C or C++ runtime, or the recorder. */
bool is_in_runtime(const struct result_frame *frame);
/* An allocation wrapper, by what programs call theirs; also a runtime frame. */
bool is_wrapper_name(const struct result_frame *frame);
/* In a source file that is named for the allocator it holds: xmalloc.c, tclThreadAlloc.c, mem-pool.c. */
bool is_allocator_source(const struct result_frame *frame);
/* A sentinel frame in brackets, or a location without a name. */
bool is_nameless(const struct result_frame *frame);

#endif

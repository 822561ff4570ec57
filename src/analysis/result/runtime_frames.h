/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames every program has in common, known by how their names begin. */
#ifndef ANALYSIS_RESULT_RUNTIME_FRAMES_H
#define ANALYSIS_RESULT_RUNTIME_FRAMES_H

#include <stdbool.h>

#include "analysis/result/result.h"

/* What lies between a program and its memory in every program, and what starts them all. */
bool is_runtime_frame(const struct result_frame *frame);
/* A mark in brackets, or a location without a name. */
bool is_nameless(const struct result_frame *frame);

#endif

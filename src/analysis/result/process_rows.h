/* SPDX-License-Identifier: Apache-2.0 */
/* A process as a row: the same columns in every view that lists processes. */
#ifndef ANALYSIS_RESULT_PROCESS_ROWS_H
#define ANALYSIS_RESULT_PROCESS_ROWS_H

#include "analysis/result/build.h"

enum { PROCESS_COLUMNS = 35 };

extern const struct source_column process_columns[PROCESS_COLUMNS];

/* Fills the row's PROCESS_COLUMNS values. False if out of memory. */
bool process_row(struct result *result, const struct profile_process *process,
		 struct result_value *row);

/* All allocations of a process on the heap, and their bytes: by counting, where that is known. */
struct result_value value_all_calls(const struct profile_process *p);
struct result_value value_all_bytes(const struct profile_process *p);
#endif

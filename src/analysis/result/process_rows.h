/* SPDX-License-Identifier: Apache-2.0 */
/* A process as a row, with the same columns in every view that lists processes. */
#ifndef ANALYSIS_RESULT_PROCESS_ROWS_H
#define ANALYSIS_RESULT_PROCESS_ROWS_H

#include "analysis/result/build.h"

enum { PROCESS_COLUMNS = 42 };

extern const struct source_column process_columns[PROCESS_COLUMNS];

/* Fills the row's PROCESS_COLUMNS values. False if out of memory. */
bool process_row(struct result *result, const struct profile_process *process,
		 struct result_value *row);

/* The number of heap allocations of a process and their bytes: exact counts where available, else estimates. */
struct result_value value_all_calls(const struct profile_process *p);
struct result_value value_all_bytes(const struct profile_process *p);
/* Their mean size; unknown if there were none. */
struct result_value value_mean_bytes(const struct profile_process *p);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A process as a row: the same columns in every view that lists processes. */
#ifndef ANALYSIS_RESULT_PROCESS_ROWS_H
#define ANALYSIS_RESULT_PROCESS_ROWS_H

#include "analysis/result/build.h"

enum process_column {
	PROCESS_PID,
	PROCESS_PPID,
	PROCESS_RANK,
	PROCESS_PEAK_BYTES,
	PROCESS_LEAKED_BYTES,
	PROCESS_CALLS,
	PROCESS_BYTES,
	PROCESS_FREES,
	PROCESS_PEAK_BLOCKS,
	PROCESS_PEAK_BOUND_BYTES,
	PROCESS_PEAK_BIAS_BYTES,
	PROCESS_PEAK_AT_NS,
	PROCESS_LEAKED_BLOCKS,
	PROCESS_TEMPORARY_CALLS,
	PROCESS_MMAP_BYTES,
	PROCESS_MMAP_CALLS,
	PROCESS_MMAP_PEAK_BYTES,
	PROCESS_PEAK_RSS_BYTES,
	PROCESS_THREADS,
	PROCESS_STACKS,
	PROCESS_DEPTH_LIMIT,
	PROCESS_STARTED_OFFSET_NS,
	PROCESS_DURATION_NS,
	PROCESS_MODE,
	PROCESS_INTERVAL,
	PROCESS_SAMPLES,
	PROCESS_END_SHORT,
	PROCESS_END,
	PROCESS_EXIT_CODE,
	PROCESS_ALLOCATOR,
	PROCESS_OWN_BYTES,
	PROCESS_MEMORY,
	PROCESS_HEALTH,
	PROCESS_COMMAND_SHORT,
	PROCESS_COMMAND,
	PROCESS_COLUMNS,
};

extern const struct source_column process_columns[PROCESS_COLUMNS];

/* Fills the row's PROCESS_COLUMNS values. False if out of memory. */
bool process_row(struct result *result, const struct profile_process *process,
		 struct result_value *row);

/* All allocations of a process on the heap, and their bytes: by counting, where that is known. */
struct result_value value_all_calls(const struct profile_process *p);
struct result_value value_all_bytes(const struct profile_process *p);
#endif

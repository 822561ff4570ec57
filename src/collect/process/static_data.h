/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of global variables: the writable data of each loaded file, and which pages of it are resident. */
#ifndef COLLECT_PROCESS_STATIC_DATA_H
#define COLLECT_PROCESS_STATIC_DATA_H

#include <stdbool.h>
#include <sys/types.h>

#include "collect/kernel/smaps.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* As last read. */
struct static_data {
	uint64_t at_ns, threads;
	VECTOR(struct static_file_row) files;
	VECTOR(struct static_range_row) ranges;
};
void static_data_release(struct static_data *data);
/* False if out of memory. */
bool static_data_copy(struct static_data *to, const struct static_data *from);
/* Moves it to the rows. */
void static_data_give(struct static_data *data, struct process_rows *rows);

/* Reads a running process without stopping it, and replaces what was read before. */
void static_data_read(struct static_data *data, pid_t pid, const struct smaps *smaps,
		      uint64_t at_ns);

#endif

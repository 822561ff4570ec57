/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a process is read from: the process, or a core file of it. */
#ifndef COLLECT_KERNEL_MEMORY_SOURCE_H
#define COLLECT_KERNEL_MEMORY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/kernel/core_file.h"

struct memory_source {
	pid_t pid;   /* 0: a core file */
	int pagemap; /* of the process (collect/kernel/pagemap.h), for memory_source_next */
	const struct core_file *core; /* NULL: a process */
};

/* Returns how much was read, from the beginning of the range; less if the rest cannot be. -1 with errno set: nothing. */
ssize_t memory_source_read(const struct memory_source *source, uint64_t at, void *to, size_t bytes);
/* Finds the first run of memory in [from, end) that exists; both are multiples of LIVE_PAGE. What a core file does not have does not
 * exist. False: there is none, or it cannot be read. */
bool memory_source_next(const struct memory_source *source, uint64_t from, uint64_t end,
			uint64_t *ret_at, uint64_t *ret_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a recorder may take. */
#ifndef COLLECT_PROCESS_BUDGET_H
#define COLLECT_PROCESS_BUDGET_H

#include <stdint.h>

#include "collect/kernel/cgroup.h"

struct budget {
	uint64_t bytes;	      /* whatever the heap is */
	uint64_t limit_bytes; /* with a share of the heap */
};

/*
 * By default a tenth of the memory that is free, from 64 MiB to 1 GiB, and a share of the heap where that is more; but at
 * most a tenth of the room that the limit of the process' control group leaves, since the recorder's pages are charged to
 * it. own_bytes: what it has already is part of that room.
 */
struct budget budget_default(const struct cgroup_memory *cgroup, uint64_t own_bytes,
			     uint64_t free_bytes);

/* What the machine could give without swapping; 0 = not known. */
uint64_t budget_free_memory(void);

#endif

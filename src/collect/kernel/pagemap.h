/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which pages of another process' memory exist: reading one that does not would allocate it, there and here. Uses
 * /proc/PID/pagemap, which needs the same permission as reading the memory. In shared memory, swapped pages look as if they did
 * not exist.
 */
#ifndef COLLECT_KERNEL_PAGEMAP_H
#define COLLECT_KERNEL_PAGEMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/vector.h"

/* -1 with errno set. */
int pagemap_open(pid_t pid);

/* Finds the first run of existing pages in [from, end), both multiples of LIVE_PAGE. False: there is none, or it cannot be
 * read. */
bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes);

/* Sets a bit for each LIVE_PAGE of [from, end) that is in memory; `bits` must be large enough and zero. Bits of pages that cannot be
 * queried stay clear. */
void pagemap_bits(int fd, uint64_t from, uint64_t end, uint64_t *bits);

enum page_state {
	PAGE_RESIDENT = 1,
	PAGE_SWAPPED = 2,
	PAGE_ZERO = 4, /* of the kernel: read and never written */
	PAGE_HUGE = 8,
	PAGE_GUARD = 16, /* alone: installed by madvise(2), Linux 6.16 */
};
struct page_run {
	uint64_t start, end;
	uint64_t state; /* bits of enum page_state; never 0 */
};
typedef VECTOR(struct page_run) page_runs;

/* Appends the runs of [from, end), by address. scans: by PAGEMAP_SCAN (Linux 6.7), which skips what is not there and knows huge pages and
 * zero pages; otherwise zero pages count as resident. False with errno set: out of memory, or not readable; ENOTTY: the kernel has no
 * PAGEMAP_SCAN. */
bool pagemap_runs(int fd, bool scans, uint64_t from, uint64_t end, page_runs *runs);

/* Whether any page of the range is a guard. False before Linux 6.16. */
bool pagemap_has_guard(int fd, uint64_t from, uint64_t end);

/* Whether any swap is in use on this machine. */
bool pagemap_is_swap_used(void);

#endif

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

/* -1 with errno set. */
int pagemap_open(pid_t pid);

/* Finds the first run of existing pages in [from, end), both multiples of LIVE_PAGE. False: there is none, or it cannot be
 * read. */
bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes);

/* Sets a bit for each LIVE_PAGE of [from, end) that is in memory; `bits` must be large enough and zero. Bits of pages that cannot be
 * queried stay clear. */
void pagemap_bits(int fd, uint64_t from, uint64_t end, uint64_t *bits);

/* Whether any swap is in use on this machine. */
bool pagemap_is_swap_used(void);

#endif

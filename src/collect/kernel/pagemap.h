/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of another process' memory are there: reading one that is not would make it, there and here. Asks /proc/PID/pagemap, which whoever
 * may read the memory may read. Of memory that is shared, pages that were swapped out look as if they were not there.
 */
#ifndef COLLECT_KERNEL_PAGEMAP_H
#define COLLECT_KERNEL_PAGEMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* -1 with errno set. */
int pagemap_open(pid_t pid);

/* The first run of pages in [from, end) that are there, both multiples of the page's size. False: there is none, or it cannot be read. */
bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes);

/* Sets a bit for each page of [from, end) that is in memory; `bits` has room for them and is zero. Of pages behind what can be read,
 * none is set. */
void pagemap_bits(int fd, uint64_t from, uint64_t end, uint64_t *bits);

/* Whether anything on this machine is swapped out. */
bool pagemap_is_swap_used(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A live profile made by hand in a file, as the collector and the agent get it. */
#ifndef UNIT_LIVE_MADE_FILE_H
#define UNIT_LIVE_MADE_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "live_made.h"
#include "unit.h"

/* Maps `total` bytes of the empty file and starts a profile in them. The caller unmaps the head. */
static inline struct live_header *made_in_file(struct made *made, int fd, uint64_t total)
{
	assert_int_equal(ftruncate(fd, (off_t)(total + LIVE_PAGE)), 0);
	struct live_header *head =
		mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	assert_true(head != MAP_FAILED);
	assert_int_equal(live_header_init(head, total), 0);
	made_start(made, head);
	return head;
}

#endif

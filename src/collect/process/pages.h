/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sites the resident memory of a process belongs to: its live blocks by address, and the state of its pages. Neither stops the
 * process nor writes to it: blocks and pages are read twice, and what has changed in between is left out and counted. Needs a process
 * that is recorded exactly: a sample says nothing about the other blocks of its page.
 */
#ifndef COLLECT_PROCESS_PAGES_H
#define COLLECT_PROCESS_PAGES_H

#include "collect/kernel/pagemap.h"
#include "collect/kernel/smaps.h"
#include "collect/profile/block_map.h"
#include "collect/profile/blocks.h"
#include "collect/process/usable_sizes.h"
#include "format/recording/pages_rows.h"

/* Reads the pages of the process of a profile, which is not changed. Takes memory for a list of its blocks (blocks.h), a copy of the
 * profile, and 24 bytes for each run of pages in one state. -1 with the error set: it is not recorded exactly, or cannot be
 * read. Release *ret in either case. */
int pages_read(const struct live_profile *profile, pid_t pid, uint64_t at_ns,
	       struct pages_rows *ret, struct error *error);
/* Why the pages of a process in this mode (enum live_mode) are not known; NULL: they are. One sentence. */
const char *pages_refusal(uint32_t mode);

/* The computation alone. All lists are by address and free of overlaps. */
struct pages_input {
	const struct live_blocks *blocks;
	const page_runs *runs;		   /* none of files, nor of the recorder's memory */
	const struct smaps *smaps;	   /* their mappings, and the numbers of the others */
	const struct recorded_range *maps; /* of the program itself; the weight is its site */
	size_t map_count;
	const uint64_t *life_ms; /* by site: how much longer its blocks will live on average */
	bool is_glibc;
	usable_size *usable; /* NULL: blocks take what was requested */
	uint64_t page_bytes; /* of the kernel */
	/* Whether the page at this address has only zeros; addresses ascend. NULL: unknown. */
	bool (*is_zero)(void *context, uint64_t page);
	void *context;
};
/* Fills in everything but at_ns, changed_* and knows_huge. False: out of memory. */
bool pages_measure(const struct pages_input *input, struct pages_rows *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc 2.42 maps a stack and installs the guard inside of it (MADV_GUARD_INSTALL, Linux 6.13). Nothing lies between two such stacks, so that
 * the kernel merges their mappings: only the page tables show where each begins. A guard alone proves no stack, nor does memory without
 * huge pages: together they do, since the kernel gives MAP_STACK no huge pages (Linux 6.7), and a heap that asked for none has no guards.
 * No state. Any thread.
 */
#include "collect/kernel/stack_guards.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/cleanup.h"

enum { GUARD_INSTALL = 102 }; /* MADV_GUARD_INSTALL, which older headers do not have */

static void runs_release(page_runs *runs)
{
	vector_release(runs);
}

bool stack_guards_find(int pagemap, struct smaps *smaps)
{
	AUTO(runs_release) page_runs runs = { 0 };

	for (size_t i = 0; pagemap >= 0 && i < smaps->list.count; i++) {
		const struct mapping *m = &smaps->list.at[i];

		/* The runs of a large heap, which has no guards, would take memory. */
		if (m->may_have_guards && pagemap_has_guard(pagemap, m->start, m->end) &&
		    !pagemap_runs(pagemap, true, m->start, m->end, &runs))
			return errno != ENOMEM; /* or the process has ended */
	}
	return runs.count == 0 || smaps_split_at_guards(smaps, &runs);
}

bool stack_guards_are_hidden(void)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uintptr_t)page;
	AUTO_CLOSE int pagemap = pagemap_open(getpid());
	bool hidden;

	if (page == MAP_FAILED)
		return false;
	hidden = madvise(page, bytes, GUARD_INSTALL) == 0 &&
		 !pagemap_has_guard(pagemap, at, at + bytes);
	munmap(page, bytes);
	return hidden;
}

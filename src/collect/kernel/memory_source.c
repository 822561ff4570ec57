/* SPDX-License-Identifier: Apache-2.0 */
/* No state. Any thread: of a core file, one at a time. */
#include "collect/kernel/memory_source.h"

#include <errno.h>
#include <sys/uio.h>

#include "collect/kernel/pagemap.h"

ssize_t memory_source_read(const struct memory_source *source, uint64_t at, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)at, bytes };

	if (!source->core)
		return process_vm_readv(source->pid, &local, 1, &remote, 1, 0);
	size_t got = core_file_read(source->core, at, to, bytes);

	if (got == 0 && bytes > 0) {
		errno = EFAULT;
		return -1;
	}
	return (ssize_t)got;
}

bool memory_source_next(const struct memory_source *source, uint64_t from, uint64_t end,
			uint64_t *ret_at, uint64_t *ret_bytes)
{
	return source->core ? core_file_next(source->core, from, end, ret_at, ret_bytes)
			    : pagemap_next(source->pagemap, from, end, ret_at, ret_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One word for each page; its two highest bits mean present and swapped. Each read covers some megabytes. No state. Any thread.
 */
#include "collect/kernel/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "format/live/live.h"

#define IS_THERE (3ull << 62)
#define IS_IN_MEMORY (1ull << 63)
enum { ENTRIES = 2048 };

int pagemap_open(pid_t pid)
{
	if (sysconf(_SC_PAGESIZE) != LIVE_PAGE) {
		errno = ENOTSUP;
		return -1;
	}
	return open(procfs_path(pid, "pagemap").text, O_RDONLY | O_CLOEXEC);
}

/* Reads the entries of [at, end), or of its first part. Returns how many; 0: none can be read. */
static size_t read_entries(int fd, uint64_t at, uint64_t end, uint64_t entries[static ENTRIES])
{
	size_t count = MIN((end - at) / LIVE_PAGE, (uint64_t)ENTRIES);
	ssize_t got = pread(fd, entries, count * sizeof *entries,
			    (off_t)(at / LIVE_PAGE * sizeof *entries));

	return got > 0 ? (size_t)got / sizeof *entries : 0;
}

bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes)
{
	uint64_t entries[ENTRIES];

	*ret_bytes = 0;
	for (uint64_t at = from; at < end;) {
		size_t count = read_entries(fd, at, end, entries);

		if (count == 0)
			break;
		for (size_t i = 0; i < count; i++, at += LIVE_PAGE) {
			bool is_there = entries[i] & IS_THERE;

			if (!is_there && *ret_bytes)
				return true;
			if (is_there && *ret_bytes == 0)
				*ret_at = at;
			*ret_bytes += is_there ? LIVE_PAGE : 0;
		}
	}
	return *ret_bytes != 0;
}

void pagemap_bits(int fd, uint64_t from, uint64_t end, uint64_t *bits)
{
	uint64_t entries[ENTRIES];

	for (uint64_t at = from; at < end;) {
		size_t count = read_entries(fd, at, end, entries);

		if (count == 0)
			return;
		for (size_t i = 0; i < count; i++, at += LIVE_PAGE) {
			uint64_t page = (at - from) / LIVE_PAGE;

			bits[page / 64] |= (uint64_t) !!(entries[i] & IS_IN_MEMORY) << page % 64;
		}
	}
}

bool pagemap_is_swap_used(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 || info.totalswap != info.freeswap;
}

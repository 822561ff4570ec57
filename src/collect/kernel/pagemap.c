/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One word for each page of the kernel, of 4, 16 or 64 KiB; its two highest bits mean present and swapped. Callers count in LIVE_PAGE,
 * several of which one word may cover. Each read covers some megabytes. No state. Any thread.
 */
#include "collect/kernel/pagemap.h"

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
	return open(procfs_path(pid, "pagemap").text, O_RDONLY | O_CLOEXEC);
}

static uint64_t kernel_page(void)
{
	return MAX((uint64_t)sysconf(_SC_PAGESIZE), (uint64_t)LIVE_PAGE);
}

/* Reads the entries of the kernel's pages in [at, end), or of its first part. Returns how many; 0: none can be read. */
static size_t read_entries(int fd, uint64_t at, uint64_t end, uint64_t entries[static ENTRIES])
{
	uint64_t first = at / kernel_page(), last = (end - 1) / kernel_page();
	size_t count = MIN(last - first + 1, (uint64_t)ENTRIES);
	ssize_t got = pread(fd, entries, count * sizeof *entries, (off_t)(first * sizeof *entries));

	return got > 0 ? (size_t)got / sizeof *entries : 0;
}

/* Where the kernel's page that contains the address ends, or the range. */
static uint64_t page_end(uint64_t at, uint64_t end)
{
	return MIN((at / kernel_page() + 1) * kernel_page(), end);
}

bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes)
{
	uint64_t entries[ENTRIES];

	*ret_bytes = 0;
	for (uint64_t at = from; at < end;) {
		size_t count = read_entries(fd, at, end, entries);

		if (count == 0)
			break;
		for (size_t i = 0; i < count; i++, at = page_end(at, end)) {
			bool is_there = entries[i] & IS_THERE;

			if (!is_there && *ret_bytes)
				return true;
			if (is_there && *ret_bytes == 0)
				*ret_at = at;
			*ret_bytes += is_there ? page_end(at, end) - at : 0;
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
		for (size_t i = 0; i < count; i++)
			for (uint64_t stop = page_end(at, end); at < stop; at += LIVE_PAGE) {
				uint64_t page = (at - from) / LIVE_PAGE;

				bits[page / 64] |= (uint64_t) !!(entries[i] & IS_IN_MEMORY)
						   << page % 64;
			}
	}
}

bool pagemap_is_swap_used(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 || info.totalswap != info.freeswap;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One word for each page of the kernel, of 4, 16 or 64 KiB; its two highest bits mean present and swapped. A guard region
 * (MADV_GUARD_INSTALL) looks swapped, and has a bit of its own since Linux 6.15, in scans since 6.16. Callers count in LIVE_PAGE,
 * several of which one word may cover. Each read covers some megabytes. No state. Any thread.
 */
#include "collect/kernel/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "format/live/live.h"

#define IS_THERE (3ull << 62)
#define IS_IN_MEMORY (1ull << 63)
#define IS_SWAPPED (1ull << 62)
#define IS_GUARD (1ull << 58)
enum { ENTRIES = 2048 };
/* Of memory that a program did not ask to have elsewhere. */
#ifdef __x86_64__
#define ADDRESSES_END ((UINT64_C(1) << 47) - LIVE_PAGE)
#else
#define ADDRESSES_END (UINT64_C(1) << 48)
#endif

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

static bool is_there(uint64_t entry)
{
	return entry & IS_THERE && !(entry & IS_GUARD);
}

/* Where the kernel's page that contains the address ends, or the range. */
static uint64_t page_end(uint64_t at, uint64_t end)
{
	return MIN((at / kernel_page() + 1) * kernel_page(), end);
}

static bool next_entries(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes)
{
	uint64_t entries[ENTRIES];

	*ret_bytes = 0;
	for (uint64_t at = from; at < end;) {
		size_t count = read_entries(fd, at, end, entries);

		if (count == 0)
			break;
		for (size_t i = 0; i < count; i++, at = page_end(at, end)) {
			bool there = is_there(entries[i]);

			if (!there && *ret_bytes)
				return true;
			if (there && *ret_bytes == 0)
				*ret_at = at;
			*ret_bytes += there ? page_end(at, end) - at : 0;
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

/* ---- scans ---- */

/* As in linux/fs.h of 6.7. */
struct scan_region {
	uint64_t start, end, categories;
};
struct scan_request {
	uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
	uint64_t inverted, all_of, any_of, returned;
};
_Static_assert(sizeof(struct scan_request) == 96, "as the kernel has it");
#define PAGEMAP_SCAN_REQUEST _IOWR('f', 16, struct scan_request)
enum {
	SCAN_PRESENT = 1 << 3,
	SCAN_SWAPPED = 1 << 4,
	SCAN_ZERO = 1 << 5,
	SCAN_HUGE = 1 << 6,
	SCAN_GUARD = 1 << 8,
	SCAN_REGIONS = 1024,
};

/* Like ioctl(2). A kernel before 6.16 refuses to tell guards: then they are left out of the request. */
static int scan(int fd, struct scan_request *request)
{
	int count = ioctl(fd, PAGEMAP_SCAN_REQUEST, request);

	if (count >= 0 || errno != EINVAL)
		return count;
	request->inverted &= ~(uint64_t)SCAN_GUARD;
	request->all_of &= ~(uint64_t)SCAN_GUARD;
	request->returned &= ~(uint64_t)SCAN_GUARD;
	return ioctl(fd, PAGEMAP_SCAN_REQUEST, request);
}

/* ---- runs ---- */

static bool add_run(page_runs *runs, uint64_t start, uint64_t end, uint64_t state)
{
	struct page_run run = { start, end, state };

	if (state == 0 || start >= end)
		return true;
	if (runs->count > 0 && runs->at[runs->count - 1].end == start &&
	    runs->at[runs->count - 1].state == state) {
		runs->at[runs->count - 1].end = end;
		return true;
	}
	if (vector_push(runs, run))
		return true;
	errno = ENOMEM;
	return false;
}

static uint64_t state_of_scan(uint64_t categories)
{
	uint64_t huge = categories & SCAN_HUGE ? PAGE_HUGE : 0;

	if (categories & SCAN_GUARD)
		return PAGE_GUARD;
	if (categories & SCAN_ZERO)
		return PAGE_ZERO;
	if (categories & SCAN_PRESENT)
		return PAGE_RESIDENT | huge;
	return categories & SCAN_SWAPPED ? PAGE_SWAPPED : 0;
}

static bool scan_runs(int fd, uint64_t from, uint64_t end, page_runs *runs)
{
	struct scan_region regions[SCAN_REGIONS];

	while (from < end) {
		struct scan_request request = {
			.size = sizeof request,
			.start = from,
			.end = end,
			.regions = (uint64_t)(uintptr_t)regions,
			.region_count = SCAN_REGIONS,
			.any_of = SCAN_PRESENT | SCAN_SWAPPED,
			.returned =
				SCAN_PRESENT | SCAN_SWAPPED | SCAN_ZERO | SCAN_HUGE | SCAN_GUARD,
		};
		int count = scan(fd, &request);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return false;
		for (int i = 0; i < count; i++)
			if (!add_run(runs, regions[i].start, regions[i].end,
				     state_of_scan(regions[i].categories)))
				return false;
		/* The kernel (6.7 to at least 6.18) states an end that it has long passed if it had more than 512 regions to tell and came to the
		 * end of the range. */
		if (count > 0)
			request.walk_end = MAX(request.walk_end, regions[count - 1].end);
		if (request.walk_end <= from)
			break;
		from = request.walk_end;
	}
	return true;
}

bool pagemap_next(int fd, uint64_t from, uint64_t end, uint64_t *ret_at, uint64_t *ret_bytes)
{
	struct scan_region region = { 0 };
	int count = 0;

	/* The kernel refuses a scan beyond the address space, and without one each untouched page takes time. The range may be what another
	 * process claims. */
	end = MIN(end, ADDRESSES_END);
	/* It skips what was never touched, which may be terabytes. */
	while (from < end && count == 0) {
		struct scan_request request = {
			.size = sizeof request,
			.start = from,
			.end = end,
			.regions = (uint64_t)(uintptr_t)&region,
			.region_count = 1,
			.inverted = SCAN_GUARD, /* no guard */
			.all_of = SCAN_GUARD,
			.any_of = SCAN_PRESENT | SCAN_SWAPPED,
			.returned = SCAN_PRESENT | SCAN_SWAPPED,
		};

		count = scan(fd, &request);
		if (count < 0 && errno == EINTR)
			count = 0;
		else if (count < 0 || (count == 0 && request.walk_end <= from))
			return next_entries(fd, from, end, ret_at, ret_bytes);
		else if (count == 0)
			from = request.walk_end;
	}
	*ret_at = region.start;
	*ret_bytes = region.end - region.start;
	return count > 0;
}

bool pagemap_runs(int fd, bool scans, uint64_t from, uint64_t end, page_runs *runs)
{
	uint64_t entries[ENTRIES];

	if (scans)
		return scan_runs(fd, from, end, runs);
	for (uint64_t at = from; at < end;) {
		size_t count = read_entries(fd, at, end, entries);

		if (count == 0)
			return false;
		for (size_t i = 0; i < count; i++, at = page_end(at, end)) {
			uint64_t state = entries[i] & IS_GUARD	     ? PAGE_GUARD
					 : entries[i] & IS_IN_MEMORY ? PAGE_RESIDENT
					 : entries[i] & IS_SWAPPED   ? PAGE_SWAPPED
								     : 0;

			if (!add_run(runs, at, page_end(at, end), state))
				return false;
		}
	}
	return true;
}

bool pagemap_has_guard(int fd, uint64_t from, uint64_t end)
{
	struct scan_region region;
	struct scan_request request = {
		.size = sizeof request,
		.start = from,
		.end = end,
		.regions = (uint64_t)(uintptr_t)&region,
		.region_count = 1,
		.all_of = SCAN_GUARD,
		.returned = SCAN_GUARD,
	};
	int count;

	do
		count = ioctl(fd, PAGEMAP_SCAN_REQUEST, &request);
	while (count < 0 && errno == EINTR);
	return count > 0;
}

bool pagemap_is_swap_used(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 || info.totalswap != info.freeswap;
}

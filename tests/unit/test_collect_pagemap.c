/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect */
/* H5: which pages of a process are there, without making any. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/stack_guards.h"
#include "format/live/live.h"

enum { PAGES = 5000 }; /* more than are asked for at once */

static long page_bytes; /* of the kernel, if not its own */

/* Preempts libc's for all that this program links. */
long sysconf(int name)
{
	long (*libc_sysconf)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");

	return name == _SC_PAGESIZE && page_bytes ? page_bytes : libc_sysconf(name);
}

static void only_what_was_touched_is_there(void **state)
{
	/* first page, number of pages */
	static const struct {
		uint64_t page, pages;
	} touched[] = { { 1, 1 }, { 3, 2 }, { 2040, 20 }, { PAGES - 1, 1 } };
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, (size_t)PAGES * page, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = pagemap_open(getpid());
	uint64_t at = (uintptr_t)memory, end = at + (uint64_t)PAGES * page, run, bytes;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_true(fd >= 0);
	assert_false(pagemap_next(fd, at, end, &run, &bytes));
	for (size_t i = 0; i < ARRAY_SIZE(touched); i++)
		for (uint64_t j = 0; j < touched[i].pages; j++)
			memory[(touched[i].page + j) * page] = 1;
	for (size_t i = 0; i < ARRAY_SIZE(touched); i++) {
		assert_true(pagemap_next(fd, at, end, &run, &bytes));
		assert_int_equal(run, (uintptr_t)memory + touched[i].page * page);
		assert_int_equal(bytes, touched[i].pages * page);
		at = run + bytes;
	}
	assert_false(pagemap_next(fd, at, end, &run, &bytes));
	close(fd);
	munmap(memory, (size_t)PAGES * page);
}

static uint64_t count_pages(int fd, uint64_t at, uint64_t end)
{
	uint64_t sum = 0, run, bytes;

	for (; pagemap_next(fd, at, end, &run, &bytes); at = run + bytes)
		sum += bytes / LIVE_PAGE;
	return sum;
}

/* Page by page it would take hours. */
static void a_range_beyond_all_addresses_takes_no_time(void **state)
{
	static char touched[4 * LIVE_PAGE] __attribute__((aligned(LIVE_PAGE)));
	int fd = pagemap_open(getpid());
	uint64_t at = (uintptr_t)touched;

	(void)state;
	touched[0] = touched[LIVE_PAGE] = 1;
	/* A program lies below 47 bits, or 48. */
	for (unsigned shift = 47; shift < 64; shift++)
		assert_true(UINT64_C(1) << shift < at ||
			    count_pages(fd, at, UINT64_C(1) << shift) >= 2);
	assert_int_equal(count_pages(fd, UINT64_C(1) << 60, UINT64_C(1) << 62), 0);
	close(fd);
}

/* Pages that were written, one that was only read, and swap, which is not tried here. The kernel may have no PAGEMAP_SCAN. */
static void runs_are_the_same_by_both_ways(void **state)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char *memory =
		mmap(NULL, 4096 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = pagemap_open(getpid());
	uint64_t at = (uintptr_t)memory, end = at + 4096 * page;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(madvise(memory, 4096 * page, MADV_NOHUGEPAGE), 0);
	for (size_t i = 100; i < 3000; i += 2)
		memory[i * page] = 1;
	memory[101 * page] = 1;
	for (int scan = 0; scan < 2; scan++) {
		page_runs runs = { 0 };

		if (!pagemap_runs(fd, scan, at, end, &runs)) {
			assert_true(scan && (errno == ENOTTY || errno == EINVAL));
			break;
		}
		assert_int_equal(runs.count, 1449);
		assert_int_equal(runs.at[0].start, at + 100 * page);
		assert_int_equal(runs.at[0].end, at + 103 * page);
		assert_int_equal(runs.at[0].state, PAGE_RESIDENT);
		assert_int_equal(runs.at[1448].end, at + 2999 * page);
		vector_release(&runs);
	}
	assert_int_equal(((volatile char *)memory)[4000 * page], 0);
	for (int scan = 0; scan < 2; scan++) {
		page_runs runs = { 0 };

		if (!pagemap_runs(fd, scan, at + 4000 * page, end, &runs))
			break;
		assert_int_equal(runs.count, 1);
		assert_int_equal(runs.at[0].state, scan ? PAGE_ZERO : PAGE_RESIDENT);
		vector_release(&runs);
	}
	close(fd);
	munmap(memory, 4096 * page);
}

/* A guard region looks swapped. Linux 6.13 installs them, 6.15 tells which they are, and in a scan 6.16. */
static void a_guard_is_no_page(void **state)
{
	static const int install = 102; /* MADV_GUARD_INSTALL */
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char *memory =
		mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = pagemap_open(getpid());
	uint64_t at = (uintptr_t)memory, end = at + 16 * page, run, bytes;
	page_runs runs = { 0 };

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	if (madvise(memory + 2 * page, 3 * page, install) < 0)
		skip();
	memory[5 * page] = 1;
	if (!pagemap_has_guard(fd, at, end))
		skip();
	assert_false(pagemap_has_guard(fd, at, at + 2 * page));
	assert_false(pagemap_has_guard(fd, at + 5 * page, end));
	assert_false(stack_guards_are_hidden());
	for (int scans = 1; scans >= 0; scans--) {
		runs.count = 0;
		assert_true(pagemap_runs(fd, scans, at, end, &runs));
		assert_int_equal(runs.count, 2);
		assert_int_equal(runs.at[0].start, at + 2 * page);
		assert_int_equal(runs.at[0].end, at + 5 * page);
		assert_int_equal(runs.at[0].state, PAGE_GUARD);
		assert_int_equal(runs.at[1].state, PAGE_RESIDENT);
	}
	assert_true(pagemap_next(fd, at, end, &run, &bytes));
	assert_int_equal(run, at + 5 * page);
	assert_int_equal(bytes, page);
	vector_release(&runs);
	close(fd);
	munmap(memory, 16 * page);
}

/* The kernel tells 512 at a time to itself, and 1,024 to us. */
static void any_number_of_runs_is_told_once(void **state)
{
	static const size_t counts[] = { 1,    511,  512,  513,	 700,  1023, 1024,
					 1025, 1535, 1536, 1537, 1800, 2048 };
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int fd = pagemap_open(getpid());

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
		char *memory = mmap(NULL, 4096 * page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		page_runs runs = { 0 };

		assert_ptr_not_equal(memory, MAP_FAILED);
		assert_int_equal(madvise(memory, 4096 * page, MADV_NOHUGEPAGE), 0);
		for (size_t i = 0; i < counts[k]; i++)
			memory[2 * i * page] = 1;
		if (pagemap_runs(fd, true, (uintptr_t)memory, (uintptr_t)memory + 4096 * page,
				 &runs)) {
			assert_int_equal(runs.count, counts[k]);
			for (size_t i = 0; i < runs.count; i++) {
				assert_int_equal(runs.at[i].start,
						 (uintptr_t)memory + 2 * i * page);
				assert_int_equal(runs.at[i].end, runs.at[i].start + page);
			}
		}
		vector_release(&runs);
		munmap(memory, 4096 * page);
	}
	close(fd);
}

/* A kernel with larger pages has an entry for each of them: what is asked for may begin and end within one. */
static void larger_pages_cover_several(void **state)
{
	static const uint64_t present = 1ull << 63, swapped = 1ull << 62;
	/* of the kernel's pages 2 to 7 */
	const uint64_t entries[] = { 0, present, present, 0, swapped, present };

	(void)state;
	for (page_bytes = 16384; page_bytes <= 65536; page_bytes *= 4) {
		const uint64_t page = (uint64_t)page_bytes, small = page / LIVE_PAGE;
		uint64_t run, bytes, bits[2] = { 0 };
		int fd = memfd_create("pagemap", MFD_CLOEXEC);

		assert_int_equal(pwrite(fd, entries, sizeof entries, 2 * sizeof *entries),
				 sizeof entries);
		assert_true(pagemap_next(fd, 2 * page, 8 * page, &run, &bytes));
		assert_int_equal(run, 3 * page);
		assert_int_equal(bytes, 2 * page);
		assert_true(
			pagemap_next(fd, 4 * page + LIVE_PAGE, 8 * page - LIVE_PAGE, &run, &bytes));
		assert_int_equal(run, 4 * page + LIVE_PAGE);
		assert_int_equal(bytes, page - LIVE_PAGE);
		assert_true(pagemap_next(fd, 5 * page, 8 * page - LIVE_PAGE, &run, &bytes));
		assert_int_equal(run, 6 * page); /* in swap */
		assert_int_equal(bytes, 2 * page - LIVE_PAGE);
		pagemap_bits(fd, 4 * page - LIVE_PAGE, 8 * page - LIVE_PAGE, bits);
		for (uint64_t i = 0; i < 4 * small; i++)
			assert_int_equal(bits[i / 64] >> i % 64 & 1,
					 i < small + 1 || i > 3 * small);
		close(fd);
	}
	page_bytes = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_was_touched_is_there),
		cmocka_unit_test(a_range_beyond_all_addresses_takes_no_time),
		cmocka_unit_test(runs_are_the_same_by_both_ways),
		cmocka_unit_test(a_guard_is_no_page),
		cmocka_unit_test(any_number_of_runs_is_told_once),
		cmocka_unit_test(larger_pages_cover_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

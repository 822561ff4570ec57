/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect */
/* H5: which pages of a process are there, without making any. */
#include "unit.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
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
		cmocka_unit_test(larger_pages_cover_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

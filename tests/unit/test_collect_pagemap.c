/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect */
/* H5: which pages of a process are there, without making any. */
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
#include "format/live/live.h"

enum { PAGES = 5000 }; /* more than are asked for at once */

static void only_what_was_touched_is_there(void **state)
{
	/* first page, number of pages */
	static const struct {
		uint64_t page, pages;
	} touched[] = { { 1, 1 }, { 3, 2 }, { 2040, 20 }, { PAGES - 1, 1 } };
	char *memory = mmap(NULL, (size_t)PAGES * LIVE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = pagemap_open(getpid());
	uint64_t at = (uintptr_t)memory, end = at + (uint64_t)PAGES * LIVE_PAGE, run, bytes;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_true(fd >= 0);
	assert_false(pagemap_next(fd, at, end, &run, &bytes));
	for (size_t i = 0; i < ARRAY_SIZE(touched); i++)
		for (uint64_t j = 0; j < touched[i].pages; j++)
			memory[(touched[i].page + j) * LIVE_PAGE] = 1;
	for (size_t i = 0; i < ARRAY_SIZE(touched); i++) {
		assert_true(pagemap_next(fd, at, end, &run, &bytes));
		assert_int_equal(run, (uintptr_t)memory + touched[i].page * LIVE_PAGE);
		assert_int_equal(bytes, touched[i].pages * LIVE_PAGE);
		at = run + bytes;
	}
	assert_false(pagemap_next(fd, at, end, &run, &bytes));
	close(fd);
	munmap(memory, (size_t)PAGES * LIVE_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_was_touched_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
#include "collect/kernel/mapped_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "unit.h"

static const char mounts[] =
	"22 1 0:20 / /run rw,nosuid - tmpfs tmpfs rw,size=100k\n"
	"23 1 0:2 / /a\\040-\\040tmpfs rw - fuse.evil x rw\n"
	"24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"25 22 0:31 /sub /run/user rw master:3 propagate_from:2 - tmpfs none rw\n"
	"26 1 0:40 / /x rw - tmpfsx none rw\n"
	"27 1 0:41 / /y rw - fuse tmpfs rw";

static void a_device_is_found_by_its_whole_number(void **state)
{
	(void)state;
	assert_true(mapped_file_lists_tmpfs(mounts, makedev(0, 20)));
	assert_true(mapped_file_lists_tmpfs(mounts, makedev(0, 31)));
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(0, 2)));
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(0, 3)));
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(20, 0)));
	assert_false(mapped_file_lists_tmpfs("", makedev(0, 20)));
	assert_false(mapped_file_lists_tmpfs("\n \n1\n1 2\n", makedev(0, 20)));
}

static void only_a_tmpfs_is_one(void **state)
{
	(void)state;
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(8, 1)));
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(0, 40)));
	assert_false(mapped_file_lists_tmpfs(mounts, makedev(0, 41)));
}

/* Of a file, mapped here; needs root, like the links in map_files. */
static void open_mapped(int file, uint64_t bytes, int *ret_errno)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
	uint64_t start = (uint64_t)(uintptr_t)at;
	struct stat st, found;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(fstat(file, &st), 0);
	int fd = mapped_file_open(getpid(), start, start + bytes);

	*ret_errno = fd < 0 ? errno : 0;
	if (fd >= 0) {
		assert_int_equal(fstat(fd, &found), 0);
		assert_int_equal(found.st_ino, st.st_ino);
		close(fd);
	}
	assert_int_equal(mapped_file_match(getpid(), start, start + bytes, st.st_dev, st.st_ino),
			 MAPPED_FILE_SAME);
	assert_int_equal(
		mapped_file_match(getpid(), start, start + bytes, st.st_dev, st.st_ino + 1),
		MAPPED_FILE_OTHER);
	munmap(at, bytes);
	assert_int_equal(mapped_file_match(getpid(), start, start + bytes, st.st_dev, st.st_ino),
			 MAPPED_FILE_OTHER);
}

static void a_memfd_is_opened_and_a_file_on_a_disk_is_not(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC), number;
	FILE *self = fopen("/proc/self/exe", "re");
	struct stat st;

	(void)state;
	assert_non_null(self);
	assert_int_equal(fstat(fileno(self), &st), 0);
	if (geteuid() != 0 || major(st.st_dev) == 0) {
		(void)fclose(self);
		close(memory);
		skip(); /* needs root, and a disk */
	}
	assert_int_equal(ftruncate(memory, 4096), 0);
	open_mapped(memory, 4096, &number);
	assert_int_equal(number, 0);
	open_mapped(fileno(self), 4096, &number);
	assert_int_equal(number, ENOTSUP);
	(void)fclose(self);
	close(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_is_found_by_its_whole_number),
		cmocka_unit_test(only_a_tmpfs_is_one),
		cmocka_unit_test(a_memfd_is_opened_and_a_file_on_a_disk_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

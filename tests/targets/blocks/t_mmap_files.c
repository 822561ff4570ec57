/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that mappings of files are not counted, and that a file mapped over anonymous memory takes it away. */
#include "target.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static NOINLINE char *map_file(void *where, int fd, int flags)
{
	char *p = mmap(where, 8 * PAGE, PROT_READ, flags, fd, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE char *map_nothing(size_t n)
{
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

int main(void)
{
	int fd = memfd_create("eight pages", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, 8 * PAGE) == 0);
	for (int i = 0; i < 20; i++)
		CHECK(munmap(map_file(NULL, fd, i % 2 ? MAP_PRIVATE : MAP_SHARED), 8 * PAGE) == 0);
	map_file(NULL, fd, MAP_PRIVATE);

	char *p = map_nothing(32 * PAGE);
	map_file(p + 4 * PAGE, fd, MAP_SHARED | MAP_FIXED);
	say("EXPECT site=map_file kind=mmap calls=0 bytes=0 live_bytes=0\n");
	say("EXPECT site=map_nothing kind=mmap calls=1 bytes=%d live_bytes=%d\n", 32 * PAGE,
	    24 * PAGE);
	close(fd);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a program which closes every descriptor, takes over all numbers and forbids itself longer files still
 * is recorded, and that no byte of ours appears in what it opened. */
#include "target.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static NOINLINE void work(int depth, size_t n)
{
	if (depth > 0) {
		work(depth - 1, n);
		__asm__ volatile("" ::: "memory");
		return;
	}
	free(take(n));
	truth_drop(&truth, n);
}

int main(void)
{
	struct stat st;

	work(3, 10);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	int file = memfd_create("ours alone", 0);
	CHECK(file >= 0);
	for (int fd = 3; fd < 200; fd++)
		CHECK(fd == file || dup2(file, fd) == fd);
	/* No file may be made longer any more; a write beyond raises SIGXFSZ. */
	struct rlimit size_limit;
	CHECK(getrlimit(RLIMIT_FSIZE, &size_limit) == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, size_limit.rlim_max }) == 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, 3 }) == 0);
	for (int i = 0; i < 60; i++)
		for (size_t n = 1; n < 200000; n = n * 3 + 1)
			work(i, n);
	static void *many[100000];
	for (size_t i = 0; i < 100000; i++)
		many[i] = take(i % 400);
	for (size_t i = 0; i < 100000; i += 3) {
		free(many[i]);
		truth_drop(&truth, i % 400);
	}
	CHECK(fstat(file, &st) == 0 && st.st_size == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &size_limit) == 0);
	truth_print(&truth, "");
	return 0;
}

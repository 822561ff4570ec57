/* SPDX-License-Identifier: Apache-2.0 */
/* needs: lib_locked_malloc */
/* Proves that the recorder asks an allocator for nothing while that one may hold its lock: neither when the allocator
 * begins before the recorder does, nor in a fork's child whose first call comes from inside the allocator. */
#include "target.h"
#include <sys/wait.h>

void *locked_take_whole_pages(size_t pages);
void locked_give_whole_pages(void *at, size_t pages);

static struct truth take_truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&take_truth, n);
	return p;
}

int main(void)
{
	void *pages = locked_take_whole_pages(3);
	int status;

	for (size_t n = 1; n <= 100; n++) {
		free(take(n));
		truth_drop(&take_truth, n);
	}
	pid_t child = fork();

	if (child == 0) {
		locked_give_whole_pages(pages, 3);
		_exit(locked_take_whole_pages(3) != NULL ? 7 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	truth_print(&take_truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that each generation of forks gives back the profile of its parent: the address space does not grow from child
 * to grandchild, and a program that emptied its environment still has its children recorded. */
#include "target.h"
#include <fcntl.h>
#include <sys/wait.h>

enum { GENERATIONS = 5 };
static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

/* Pages of address space, by the first number of statm. */
static long address_space(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10);
}

int main(void)
{
	CHECK(clearenv() == 0);
	take(50);
	long first = address_space();

	for (int generation = 1; generation <= GENERATIONS; generation++) {
		int status = 0;
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			for (int i = 0; i < generation * 100; i++)
				take(99);
			CHECK(address_space() < first + first / 10);
			continue;
		}
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == 0);
		if (generation > 1)
			_exit(0);
		break;
	}
	if (truth.calls > 1)
		_exit(0);
	for (int generation = 1; generation <= GENERATIONS; generation++)
		say("child calls=%d bytes=%d\n", generation * 100, generation * 9900);
	truth_print(&truth, "");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* many_forks together N: N children that allocate, all alive at once. many_forks in-turn N: one after another. Prints how many page
 * faults a child took, on average. */
#include "target.h"
#include <sys/resource.h>
#include <sys/wait.h>

static NOINLINE void *take_in_child(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static void child(int ready, int go)
{
	char byte = 0;

	free(take_in_child(100));
	CHECK(write(ready, &byte, 1) == 1);
	CHECK(read(go, &byte, 1) == 0);
	_exit(0);
}

static void wait_for(int count)
{
	for (int status; count > 0; count--)
		CHECK(wait(&status) > 0 && status == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	int together = strcmp(argv[1], "together") == 0, count = atoi(argv[2]);
	int ready[2], go[2];

	free(take_in_child(100)); /* the parent is recorded in any case */
	CHECK(pipe(ready) == 0 && pipe(go) == 0);
	if (!together)
		close(go[1]);
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			if (together)
				close(go[1]);
			child(ready[1], go[0]);
		}
		char byte;

		CHECK(read(ready[0], &byte, 1) == 1);
		if (!together)
			wait_for(1);
	}
	if (together) {
		close(go[1]);
		wait_for(count);
	}
	struct rusage usage;

	CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
	say("FAULTS %ld\n", usage.ru_minflt / count);
	return 0;
}

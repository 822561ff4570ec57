/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the child of a thread that has never allocated is recorded like any other; test_review.py compares the
 * children with the lines about them. */
#include "target.h"
#include <pthread.h>
#include <sys/wait.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void child_of(int count, size_t n)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < count; i++)
			take(n);
		_exit(3);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	say("child calls=%d bytes=%zu\n", count, (size_t)count * n);
}

static void *run(void *argument)
{
	child_of(1000, 123);
	return argument;
}

int main(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		free(take(77));
		truth_drop(&truth, 77);
	}
	child_of(500, 321);
	truth_print(&truth, "");
	return 0;
}

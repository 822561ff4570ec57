/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that children that allocate at the parent's own sites, free its blocks, fork again, start threads or die by a
 * signal leave the parent's numbers exact. */
#include "target.h"
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { INHERITED = 50 };
static struct truth truth = TRUTH(take);
static void *inherited[INHERITED];

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void *child_thread(void *arg)
{
	for (int i = 0; i < 100; i++)
		free(take(70));
	return arg;
}

static void child_body(int which)
{
	pthread_t thread;
	int status;

	prctl(PR_SET_DUMPABLE, 0); /* no core file of the ones that die */
	for (size_t n = 1; n < 500; n++)
		free(take(n));
	for (int i = 0; i < INHERITED; i++)
		free(inherited[i]);
	take(12345); /* and one leak */
	switch (which % 5) {
	case 0:
		_exit(which);
	case 1:
		exit(which);
	case 2:
		CHECK(pthread_create(&thread, NULL, child_thread, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		_exit(which);
	case 3:
		if (fork() == 0) {
			free(take(99));
			_exit(7);
		}
		CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 7);
		_exit(which);
	default:
		kill(getpid(), which % 2 ? SIGKILL : SIGSEGV);
		_exit(1);
	}
}

int main(void)
{
	for (size_t i = 0; i < INHERITED; i++)
		inherited[i] = take(1000 + i);
	for (int which = 0; which < 20; which++) {
		int status;
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			child_body(which);
		/* The parent allocates while the child does. */
		for (size_t n = 1; n < 300; n++) {
			free(take(n));
			truth_drop(&truth, n);
		}
		CHECK(waitpid(child, &status, 0) == child);
		say("child %d ended by %d with %d\n", which,
		    WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		    WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	}
	for (size_t i = 0; i < INHERITED; i += 2) {
		free(inherited[i]);
		truth_drop(&truth, 1000 + i);
	}
	truth_print(&truth, "");
	return 0;
}

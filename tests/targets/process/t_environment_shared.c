/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -pthread */
/* Proves that the environment is the program's own after threads have started shells at the same time, and in a child that
 * is forked while another thread, or the interrupted one, starts a shell; and that it may be constant. */
#include "target.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { THREADS = 6, SHELLS = 40, FORKS = 60 };

static struct truth truth = TRUTH(take);
static char **at_first;
static size_t entries_at_first;
static volatile int ended;
static const char *const constant[] = { "PATH=/usr/bin:/bin", NULL };

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static size_t entries(void)
{
	size_t n = 0;

	while (environ[n] != NULL)
		n++;
	return n;
}

/* Async-signal-safe. */
static int is_clean(void)
{
	for (char **entry = environ; *entry != NULL; entry++) {
		if (strncmp(*entry, "HEAPGAUGE_HANDOVER", 18) == 0 ||
		    strncmp(*entry, "LD_PRELOAD=", 11) == 0)
			return 0;
	}
	return entries() == entries_at_first && strcmp(getenv("KEPT"), "kept") == 0;
}

static void *pipes(void *unused)
{
	char answer[100];
	int opened = 0;

	(void)unused;
	for (int i = 0; i < SHELLS; i++) {
		FILE *pipe = popen("echo $KEPT", "r");

		if (pipe ==
		    NULL) /* musl: the child cannot close a stream that another thread has closed */
			continue;
		CHECK(fgets(answer, sizeof answer, pipe) && !strcmp(answer, "kept\n"));
		CHECK(pclose(pipe) == 0);
		opened++;
	}
	CHECK(opened > 0);
	return NULL;
}

static void *shells(void *unused)
{
	(void)unused;
	while (!ended)
		CHECK(system(":") == 0);
	return NULL;
}

/* Returns how the child found its environment. */
static int fork_and_look(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(is_clean() ? 0 : 1);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return status;
}

static void fork_in_handler(int number)
{
	(void)number;
	CHECK(fork_and_look() == 0);
}

int main(void)
{
	struct sigaction action = { .sa_handler = fork_in_handler, .sa_flags = SA_RESTART };
	pthread_t thread[THREADS];

	unsetenv("LD_PRELOAD"); /* of the harness */
	CHECK(setenv("KEPT", "kept", 1) == 0);
	at_first = environ;
	entries_at_first = entries();

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, pipes, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	CHECK(environ == at_first && is_clean());

	CHECK(pthread_create(&thread[0], NULL, shells, NULL) == 0);
	for (int i = 0; i < FORKS; i++)
		CHECK(fork_and_look() == 0);
	ended = 1;
	CHECK(pthread_join(thread[0], NULL) == 0);
	CHECK(environ == at_first && is_clean());

	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int i = 0; i < SHELLS; i++) {
		const struct itimerval soon = { { 0, 0 }, { 0, 1 + i * 50 } };

		CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
		CHECK(system(":") == 0);
	}
	CHECK(environ == at_first && is_clean());

	CHECK(signal(SIGALRM, SIG_IGN) != SIG_ERR);
	environ = (char **)(uintptr_t)constant;
	CHECK(system(":") == 0 && pclose(popen(":", "r")) == 0);
	CHECK(environ == (char **)(uintptr_t)constant);

	free(take(100));
	truth_drop(&truth, 100);
	truth_print(&truth, "");
	return 0;
}

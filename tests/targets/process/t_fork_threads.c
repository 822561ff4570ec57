/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that forking from several threads while others allocate hangs nobody and disturbs no number of the parent. */
#include "target.h"
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4 };
static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void child_body(uint32_t seed)
{
	for (int i = 0; i < 300; i++)
		free(take(next_random(&seed) % 3000));
	if (seed % 3 == 0 && fork() == 0) {
		free(take(8));
		_exit(0);
	}
	_exit((int)(seed % 200));
}

static void *body(void *arg)
{
	uint32_t seed = 31u + (uint32_t)(uintptr_t)arg;
	long forks = long_form(15, 500), wrong = 0;

	for (long i = 0; i < forks; i++) {
		for (int k = 0; k < 500; k++) {
			size_t n = next_random(&seed) % 2000;
			free(take(n));
			truth_drop(&truth, n);
		}
		uint32_t child_seed = next_random(&seed), end = child_seed;
		pid_t child = fork();
		if (child == 0)
			child_body(child_seed);
		int status;
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		for (int k = 0; k < 300; k++)
			next_random(&end);
		wrong += !WIFEXITED(status) || WEXITSTATUS(status) != (int)(end % 200);
	}
	return (void *)wrong;
}

int main(void)
{
	pthread_t thread[THREADS];
	void *wrong;

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(thread[i], &wrong) == 0);
		CHECK(wrong == NULL);
	}
	truth_print(&truth, "");
	return 0;
}

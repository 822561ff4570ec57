/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One quantity at a time, for bench/growth.py:
 *
 *	growth processes N   N children, one after another, that take a block each
 *	growth threads N     N threads at the same time, 2,000 blocks each
 *	growth sites N       a block from each of N stacks, freed at once
 *	growth live N        N blocks that are not freed
 */
#include "workload.h"

#include <sys/wait.h>

static NOINLINE void *take(size_t bytes)
{
	void *p = malloc(bytes);

	KEEP(p);
	return p;
}

static void processes(long count)
{
	free(take(100));
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			free(take(100));
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			exit(1);
	}
}

static pthread_barrier_t barrier;

static void *work(void *none)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 2000; i++)
		free(take(16 + (size_t)i % 200));
	pthread_barrier_wait(&barrier); /* all alive until all are through */
	return none;
}

static void threads(long count)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
	for (long i = 0; i < count; i++)
		if (pthread_create(&thread, &small, work, NULL) != 0 || pthread_detach(thread) != 0)
			exit(1);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
}

/* A stack of 20 frames for each number: every bit takes one of two ways. */
static NOINLINE long left(long path, int depth);
static NOINLINE long right(long path, int depth);

static long next(long path, int depth)
{
	if (depth == 0) {
		free(take(48));
		return path;
	}
	return path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
}

static NOINLINE long left(long path, int depth)
{
	long found = next(path, depth);

	DISTINCT(1);
	KEEP(found);
	return found;
}

static NOINLINE long right(long path, int depth)
{
	long found = next(path, depth);

	DISTINCT(2);
	KEEP(found);
	return found;
}

static void sites(long count)
{
	for (long i = 0; i < count; i++)
		next(i, 20);
}

static void live(long count)
{
	for (long i = 0; i < count; i++)
		take(16 + (size_t)i % 16);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(long count);
	} kinds[] = { { "processes", processes },
		      { "threads", threads },
		      { "sites", sites },
		      { "live", live } };

	for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(argv[1], kinds[i].name) == 0) {
			kinds[i].run(atol(argv[2]));
			return 0;
		}
	return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -fno-builtin -pthread -Wl,-z,now */
/* Prints how many bytes of a thread's stack each kind of call uses at most: every one in a thread of its own, on a stack
 * that was painted before. */
#include "target.h"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 1 << 20, PAINT = 0xa5 };
static unsigned char *area;

static size_t deepest(void)
{
	size_t i = 0;

	while (i < SIZE && area[i] == PAINT)
		i++;
	return SIZE - i;
}

static void nothing(void)
{
}

static void blocks(void)
{
	for (size_t n = 0; n < 100; n++) {
		void *p = malloc(n * 37);

		p = realloc(p, n * 91 + 1);
		KEEP(p);
		free(p);
		p = calloc(n, 3);
		KEEP(p);
		free(p);
		CHECK(posix_memalign(&p, 64, n) == 0);
		free(p);
	}
}

static void mappings(void)
{
	void *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	p = mremap(p, 8192, 65536, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && munmap(p, 65536) == 0);
}

static void programs(void)
{
	char name[] = "true", *argv[] = { name, NULL };
	int status;
	pid_t pid;

	CHECK(posix_spawnp(&pid, name, NULL, NULL, argv, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
}

/* The child begins its own profile on what is left of this stack. */
static void children(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		void *p = malloc(10);

		KEEP(p);
		free(p);
		say("child %zu\n", deepest());
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void on_signal(int number)
{
	void *p = malloc((size_t)number);

	KEEP(p);
	free(p);
}

/* A walk over the kernel's frame needs the whole interpreter. */
static void handlers(void)
{
	raise(SIGUSR1);
}

static void *run(void *function)
{
	(*(void (**)(void))function)();
	return NULL;
}

static void try(const char *name, void (*function)(void))
{
	pthread_attr_t attr;
	pthread_t thread;

	memset(area, PAINT, SIZE);
	CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, area, SIZE) == 0);
	CHECK(pthread_create(&thread, &attr, run, &function) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	say("%s %zu\n", name, deepest());
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED && sigaction(SIGUSR1, &action, NULL) == 0);
	try("nothing", nothing);
	try("blocks", blocks);
	try("mappings", mappings);
	try("programs", programs);
	try("children", children);
	try("handlers", handlers);
	return 0;
}

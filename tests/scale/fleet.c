/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet PROCESSES STACKS MAPS SECONDS: so many processes that record themselves, for tests/scale/fleet.py. Each is a fork with a
 * profile of its own. It allocates once from each of STACKS stacks of 20 frames and keeps a tenth of the blocks; then, every SECONDS, it
 * allocates and frees from a twentieth of the stacks. MAPS further mappings make /proc/PID/maps as long as that of a program with
 * libraries. Prints a line when all have allocated, and ends with its standard input.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")
/* More than ten times the sampling interval that fleet.py sets: every stack is sampled. */
enum { BLOCK_BYTES = 48 << 10, DEPTH = 20, KEPT_OF = 10, BUSY_OF = 20 };

static NOINLINE void *take(void)
{
	void *block = malloc(BLOCK_BYTES);

	KEEP(block);
	return block;
}

static NOINLINE void *left(long path, int depth);
static NOINLINE void *right(long path, int depth);

/* Every bit of the number takes one of two ways. */
static void *descend(long path, int depth)
{
	if (depth == 0)
		return take();
	return path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
}

static NOINLINE void *left(long path, int depth)
{
	void *block = descend(path, depth);

	KEEP(block);
	return block;
}

static NOINLINE void *right(long path, int depth)
{
	void *block = descend(path, depth);

	KEEP(block);
	__asm__ volatile("nop");
	return block;
}

/* Neighbours differ in protection, so that the kernel cannot merge them. */
static void add_maps(long count)
{
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (long i = 0; i < count; i++) {
		const volatile char *map =
			mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE,
			     self, 0);

		if (map == MAP_FAILED)
			exit(1);
		(void)*map;
	}
	close(self);
}

_Noreturn static void serve(long stacks, long maps, long seconds, int ready)
{
	uint32_t random = (uint32_t)getpid() * 2654435761u | 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	add_maps(maps);
	for (long i = 0; i < stacks; i++) {
		void *block = descend(i, DEPTH);

		if (i % KEPT_OF)
			free(block);
	}
	if (write(ready, "", 1) != 1)
		_exit(1);
	close(ready);
	for (;;) {
		for (long i = 0; i < stacks / BUSY_OF + 1; i++) {
			random ^= random << 13;
			random ^= random >> 17;
			random ^= random << 5;
			free(descend((long)(random % (uint32_t)stacks), DEPTH));
		}
		/* The phases of the processes differ. */
		usleep((useconds_t)(seconds * 500000 + random % 1000000 * seconds));
	}
}

int main(int argc, char **argv)
{
	long processes = argc == 5 ? strtol(argv[1], NULL, 10) : 0, done = 0;
	int ready[2];
	char byte;

	if (processes <= 0 || strtol(argv[2], NULL, 10) <= 0 || pipe(ready) < 0)
		return 2;
	for (long i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid == 0)
			serve(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10),
			      strtol(argv[4], NULL, 10), ready[1]);
		/* One after another: 10,000 at once would wait for each other. */
		if (pid < 0 || read(ready[0], &byte, 1) != 1)
			return 1;
		done++;
	}
	printf("%ld\n", done);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0; /* the children end with it */
}

/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -O1 -fno-optimize-sibling-calls -pthread */
/* Ever new stacks: each block comes by a path of 16 calls of four functions, chosen at random. 1000 blocks are alive at a time,
 * each is freed by whoever takes its place. The path stands in the block's first word.
 * new_stacks BLOCKS THREADS [wait]: prints how many there were, and the path of each that is alive at the end; with `wait` it
 * stays until its input ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 16, ALIVE = 1000, BLOCK_BYTES = 100000 };

static _Atomic(uint64_t *) alive[ALIVE];
static atomic_ulong taken;
static unsigned long wanted;

/* Not to be optimised away, and no tail call. */
#define KEEP(p) __asm__ volatile("" : "+r"(p))

static void *go_on(uint64_t path, int depth);

/* No two alike, or the compiler makes one of them. */
static volatile unsigned char been[4];
#define STEP(name, number)                                                                         \
	__attribute__((noinline)) static void *name(uint64_t path, int depth)                      \
	{                                                                                          \
		been[number] = 1;                                                                  \
		void *block = go_on(path, depth);                                                  \
		KEEP(block);                                                                       \
		return block;                                                                      \
	}
STEP(step_a, 0)
STEP(step_b, 1)
STEP(step_c, 2)
STEP(step_d, 3)

__attribute__((noinline)) static void *go_on(uint64_t path, int depth)
{
	void *block;

	if (depth == DEPTH) {
		block = malloc(BLOCK_BYTES);
	} else {
		switch (path >> 2 * depth & 3) {
		case 0:
			block = step_a(path, depth + 1);
			break;
		case 1:
			block = step_b(path, depth + 1);
			break;
		case 2:
			block = step_c(path, depth + 1);
			break;
		default:
			block = step_d(path, depth + 1);
		}
	}
	KEEP(block);
	return block;
}

static void *run(void *seed)
{
	uint64_t random = 88172645463325252u + (uintptr_t)seed;

	for (unsigned long i; (i = atomic_fetch_add(&taken, 1)) < wanted;) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint64_t path = random & 0xffffffff;
		uint64_t *block = go_on(path, 0);

		*block = path;
		free(atomic_exchange(&alive[i % ALIVE], block));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[16];
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	char end;

	wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("begun\n");
	for (unsigned i = 1; i < threads && i < 16; i++)
		pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)(i * 977));
	run(NULL);
	for (unsigned i = 1; i < threads && i < 16; i++)
		pthread_join(thread[i], NULL);
	printf("blocks %lu of %d\n", wanted, BLOCK_BYTES);
	for (int i = 0; i < ALIVE; i++) {
		char text[DEPTH + 1] = { 0 };
		uint64_t *block = atomic_load(&alive[i]);

		for (int depth = 0; block != NULL && depth < DEPTH; depth++)
			text[depth] = (char)('a' + (*block >> 2 * depth & 3));
		if (block != NULL)
			printf("alive %s\n", text);
	}
	printf("end\n");
	fflush(stdout);
	if (argc > 3 && read(STDIN_FILENO, &end, 1) < 0)
		return 1;
	return 0;
}

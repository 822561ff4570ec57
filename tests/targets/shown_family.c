/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -O1 -pthread */
/*
 * Three processes whose numbers differ in every respect: the one that is started has tags, a pool, threads, snapshots with
 * names and little memory; its first child has the largest heap; the second maps most of what it has. argv[1] is how
 * much the heap of the first child is multiplied by: for comparisons.
 */
#include <heapgauge/heapgauge.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ROUNDS = 12,
	LINES = 200,
	CHUNK = 64,
	BLOCKS = 400,
	MAPPED_BYTES = 48 << 20,
	PAUSE_US = 25000
};

static void *kept[ROUNDS * LINES];
static int count;
static void *volatile spare;
static char memory[ROUNDS * CHUNK];

static void parse(int round)
{
	HG_SCOPE("parse");
	for (int i = 0; i < LINES; i++)
		free(spare = malloc(40 + (size_t)round));
	kept[count++] = malloc(500);
}

static void answer(int round)
{
	HG_SCOPE("answer");
	HG_LABEL("tenant", round % 3 ? "acme" : "globex");
	for (int i = 0; i < LINES / 2; i++)
		kept[count++] = malloc(100 + (size_t)round);
	kept[count - 1] = realloc(kept[count - 1], 5000);
}

/* Frees what the main thread asked for, and keeps something of its own. */
static void *worker(void *unused)
{
	for (int i = 0; i < count; i += 2) {
		free(kept[i]);
		kept[i] = NULL;
	}
	kept[0] = malloc(7000);
	return unused;
}

static void *volatile held[BLOCKS];
static int begun[2]; /* a pipe */

/* The children have allocated before their parent does anything. */
static void begin(void)
{
	spare = malloc(10);
	if (write(begun[1], "", 1) != 1)
		_exit(1);
}

static void wait_for_children(void)
{
	char byte;

	for (int child = 0; child < 2; child++)
		if (read(begun[0], &byte, 1) != 1)
			exit(1);
}

static int heavy(size_t times)
{
	begin();
	for (int i = 0; i < BLOCKS; i++) {
		held[i] = malloc(10000 * times + (size_t)i);
		memset(held[i], 1, 10000);
		if (i % 40 == 0)
			usleep(PAUSE_US);
	}
	for (int i = 0; i < BLOCKS; i += 2)
		free(held[i]);
	return 3;
}

static int mapping(void)
{
	char *map = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	begin();
	if (map == MAP_FAILED)
		return 1;
	memset(map, 1, MAPPED_BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		held[i] = malloc(2000);
		usleep(PAUSE_US);
	}
	return 4;
}

static void rounds(void)
{
	hg_pool pool = hg_pool_new("arena");

	for (int i = 0; i < ROUNDS; i++) {
		parse(i);
		if (i % 2)
			answer(i);
		hg_pool_alloc(pool, memory + (size_t)i * CHUNK, CHUNK);
		if (i == 3)
			hg_snapshot("warm");
		if (i == 7)
			hg_mark("half");
		usleep(PAUSE_US);
	}
	hg_snapshot("done");
	usleep(4 * PAUSE_US);
}

int main(int argc, char **argv)
{
	size_t times = argc > 1 ? (size_t)atoi(argv[1]) : 1;
	pthread_t thread;

	if (pipe(begun) != 0)
		return 1;
	for (int child = 0; child < 2; child++)
		if (fork() == 0)
			_exit(child ? mapping() : heavy(times));
	wait_for_children();
	rounds();
	if (pthread_create(&thread, NULL, worker, NULL) == 0)
		pthread_join(thread, NULL);
	usleep(4 * PAUSE_US);
	while (wait(NULL) > 0)
		continue;
	printf("kept %d\n", count);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -O1 -pthread */
/*
 * Half a second of rounds that load, parse and draw under tags, keep some of what they ask for and give some of it back;
 * then a thread that keeps nothing. For pictures over time.
 */
#include <heapgauge/heapgauge.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 20, SMALL = 6000, MIDDLE = 300, KEPT = 200000, CHURN = 40000 };

static void *kept[KEPT];
static int count;
static unsigned long long calls;

__attribute__((noinline)) static void *small_block(void)
{
	calls++;
	return malloc(64);
}

__attribute__((noinline)) static void *middle_block(int i)
{
	calls++;
	return malloc(i % 2 ? 700 : 1500);
}

static void parse(void)
{
	HG_SCOPE("parse");
	for (int i = 0; i < SMALL; i++) {
		void *block = small_block();

		if (i % 3 == 0)
			kept[count++] = block;
		else
			free(block);
	}
}

static void load(void)
{
	HG_SCOPE("load");
	parse();
	for (int i = 0; i < MIDDLE; i++)
		kept[count++] = middle_block(i);
}

static void draw(void)
{
	HG_SCOPE("draw");
	calls++;
	kept[count++] = calloc(1, 300000);
}

static void *churn(void *unused)
{
	for (int i = 0; i < CHURN; i++)
		free(middle_block(i));
	return unused;
}

int main(void)
{
	pthread_t thread;

	for (int round = 0; round < ROUNDS; round++) {
		load();
		if (round % 8 == 0)
			draw();
		for (int i = 0; round % 5 == 4 && i < 4000; i++)
			free(kept[--count]);
		usleep(25000);
	}
	pthread_create(&thread, NULL, churn, NULL);
	pthread_join(thread, NULL);
	printf("calls %llu\n", calls);
	return 0;
}

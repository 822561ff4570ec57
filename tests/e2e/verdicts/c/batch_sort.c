/* SPDX-License-Identifier: Apache-2.0 */
/* Two worker processes take records, sort them when a batch is complete, add them up per customer, and drop the batch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 2
#define PER_ROUND 1200

struct record {
	uint32_t customer;
	uint32_t cents;
	char text[];
};

struct batch {
	struct record **records;
	size_t count, room;
};

static uint64_t grand_total;

static double now_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t pick(uint32_t *state, uint32_t limit)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % limit;
}

__attribute__((noinline)) static void read_records(struct batch *b, uint32_t *state, size_t count)
{
	for (; count > 0; count--) {
		size_t length = 60 + pick(state, 140);
		if (b->count == b->room) {
			b->room = b->room == 0 ? 256 : b->room * 2;
			b->records = realloc(b->records, b->room * sizeof *b->records);
			if (b->records == NULL)
				exit(1);
		}
		struct record *r = malloc(sizeof *r + length + 1);
		if (r == NULL)
			exit(1);
		r->customer = pick(state, 500);
		r->cents = pick(state, 100000);
		memset(r->text, 'x', length);
		r->text[length] = '\0';
		b->records[b->count++] = r;
	}
}

static int by_customer(const void *a, const void *b)
{
	const struct record *const *x = a, *const *y = b;
	if ((*x)->customer != (*y)->customer)
		return (*x)->customer < (*y)->customer ? -1 : 1;
	return (*x)->cents < (*y)->cents ? -1 : (*x)->cents > (*y)->cents;
}

__attribute__((noinline)) static void finish_batch(struct batch *b)
{
	if (b->count > 0)
		qsort(b->records, b->count, sizeof *b->records, by_customer);
	for (size_t i = 0; i < b->count; i++) {
		grand_total += b->records[i]->cents;
		free(b->records[i]);
	}
	free(b->records);
	memset(b, 0, sizeof *b);
}

static int work(uint32_t state, double end)
{
	struct batch b = { 0 };
	int rounds = 0;
	while (now_seconds() < end) {
		read_records(&b, &state, PER_ROUND);
		if (++rounds == 6) {
			finish_batch(&b);
			rounds = 0;
		}
		usleep(12000);
	}
	finish_batch(&b);
	return grand_total == 1;
}

int main(int argc, char **argv)
{
	double end = now_seconds() + (argc > 1 ? atof(argv[1]) : 4.0);
	int failed = 0;
	for (uint32_t i = 0; i < WORKERS; i++) {
		pid_t child = fork();
		if (child < 0)
			return 1;
		if (child == 0)
			exit(work(100 + i, end));
	}
	for (int i = 0; i < WORKERS; i++) {
		int status;
		if (wait(&status) < 0 || status != 0)
			failed = 1;
	}
	return failed;
}

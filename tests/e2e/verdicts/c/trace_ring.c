/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last trace records of a service in a ring: two writers, and one reader that looks at some of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 2048

static char *ring[SLOTS];
static unsigned long head;
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stopping;

struct writer {
	unsigned seed;
	const char *name;
};

static unsigned draw(unsigned *seed, unsigned limit)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % limit;
}

__attribute__((noinline)) static char *format_record(struct writer *w, unsigned long n)
{
	size_t size = 220 + draw(&w->seed, 800);
	char *record = malloc(size);
	if (record == NULL)
		abort();
	int used =
		snprintf(record, size, "%s #%lu took %u us: ", w->name, n, draw(&w->seed, 100000));
	memset(record + used, '.', size - (size_t)used - 1);
	record[size - 1] = '\0';
	return record;
}

__attribute__((noinline)) static void put_record(struct writer *w, unsigned long n)
{
	char *record = format_record(w, n);
	pthread_mutex_lock(&ring_lock);
	char *oldest = ring[head % SLOTS];
	ring[head % SLOTS] = record;
	head++;
	pthread_mutex_unlock(&ring_lock);
	free(oldest);
}

static void short_pause(long milliseconds)
{
	struct timespec t = { 0, milliseconds * 1000000 };
	nanosleep(&t, NULL);
}

static void *write_records(void *argument)
{
	struct writer *w = argument;
	for (unsigned long n = 0; !stopping;) {
		for (int i = 0; i < 30; i++)
			put_record(w, n++);
		short_pause(8);
	}
	return NULL;
}

static void *read_records(void *argument)
{
	unsigned long *seen = argument;
	while (!stopping) {
		for (unsigned long i = 0; i < 20; i++) {
			pthread_mutex_lock(&ring_lock);
			char *copy = strdup(ring[(head + i * 97) % SLOTS]);
			pthread_mutex_unlock(&ring_lock);
			if (copy != NULL && strchr(copy, '#') != NULL)
				++*seen;
			free(copy);
		}
		short_pause(20);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + (argc > 1 ? atof(argv[1]) : 4.0);
	struct writer boot = { 1, "boot" }, writers[2] = { { 2, "http" }, { 3, "db" } };
	unsigned long seen = 0;
	pthread_t threads[3];
	for (unsigned long i = 0; i < SLOTS; i++)
		put_record(&boot, i);
	pthread_create(&threads[0], NULL, write_records, &writers[0]);
	pthread_create(&threads[1], NULL, write_records, &writers[1]);
	pthread_create(&threads[2], NULL, read_records, &seen);
	do {
		short_pause(20);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < end);
	stopping = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < SLOTS; i++)
		free(ring[i]);
	return 0;
}

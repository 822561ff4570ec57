/* SPDX-License-Identifier: Apache-2.0 */
/* Scales pictures: every round starts three threads for three tiles, and waits for them. Each thread has a scratch buffer of its own. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCRATCH 6000
#define TILES 3

struct tile {
	uint32_t number;
	uint64_t checksum;
};

static pthread_key_t scratch_key;

__attribute__((noinline)) static unsigned char *get_scratch(void)
{
	unsigned char *scratch = pthread_getspecific(scratch_key);
	if (scratch == NULL) {
		scratch = malloc(SCRATCH);
		if (scratch == NULL)
			abort();
		pthread_setspecific(scratch_key, scratch);
	}
	return scratch;
}

__attribute__((noinline)) static uint64_t scale_row(uint32_t seed)
{
	unsigned char *row = get_scratch();
	uint64_t sum = 0;
	for (int i = 0; i < SCRATCH; i++)
		row[i] = (unsigned char)(seed * 31 + (uint32_t)i * 7);
	for (int i = 0; i + 1 < SCRATCH; i += 2)
		sum += (uint64_t)(row[i] + row[i + 1]) / 2;
	return sum;
}

static void *scale_tile(void *argument)
{
	struct tile *tile = argument;
	for (uint32_t row = 0; row < 4; row++)
		tile->checksum += scale_row(tile->number + row);
	return NULL;
}

static double monotonic(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double end = monotonic() + (argc > 1 ? atof(argv[1]) : 4.0);
	uint32_t number = 0;
	uint64_t all = 0;
	if (pthread_key_create(&scratch_key, NULL) != 0)
		return 1;
	while (monotonic() < end) {
		pthread_t thread[TILES];
		struct tile tiles[TILES];
		for (int i = 0; i < TILES; i++) {
			tiles[i] = (struct tile){ number++, 0 };
			if (pthread_create(&thread[i], NULL, scale_tile, &tiles[i]) != 0)
				return 1;
		}
		for (int i = 0; i < TILES; i++) {
			pthread_join(thread[i], NULL);
			all += tiles[i].checksum;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 15000000 }, NULL);
	}
	return all == 1;
}

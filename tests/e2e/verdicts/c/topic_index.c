/* SPDX-License-Identifier: Apache-2.0 */
/* A log-structured message store: each topic has an index of the offsets of its messages, in memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOPICS 2048
#define STEP 16

struct topic {
	uint64_t *offsets;
	uint32_t used;
	uint32_t room;
	uint64_t segment_start;
};

static struct topic *topics;
static uint64_t write_position;
static uint64_t seed = 42;

static uint32_t next_random(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33);
}

__attribute__((noinline)) static void index_message(struct topic *topic, uint64_t offset)
{
	if (topic->used == topic->room) {
		topic->room += STEP;
		topic->offsets = realloc(topic->offsets, topic->room * sizeof *topic->offsets);
		if (topic->offsets == NULL)
			abort();
	}
	topic->offsets[topic->used++] = offset;
}

/* Old segments are deleted from the disk: readers may no longer ask for what is in them. */
__attribute__((noinline)) static void drop_old_segments(void)
{
	for (int i = 0; i < TOPICS; i++)
		if (write_position > 4000000)
			topics[i].segment_start = write_position - 4000000;
}

__attribute__((noinline)) static uint64_t find_message(const struct topic *topic, uint64_t offset)
{
	uint32_t low = 0, high = topic->used;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (topic->offsets[middle] < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < topic->used ? topic->offsets[low] : 0;
}

static double clock_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	double start = clock_seconds(), length = argc > 1 ? strtod(argv[1], NULL) : 4.0;
	uint64_t found = 0;
	topics = calloc(TOPICS, sizeof *topics);
	if (topics == NULL)
		return 1;
	for (int i = 0; i < TOPICS; i++)
		for (uint32_t n = 1 + next_random() % STEP; n > 0; n--)
			index_message(&topics[i], write_position += 40);
	for (unsigned long round = 0; clock_seconds() - start < length; round++) {
		for (int i = 0; i < 1100; i++) {
			write_position += 20 + next_random() % 200;
			index_message(&topics[next_random() % TOPICS], write_position);
		}
		for (int i = 0; i < 50; i++) {
			struct topic *topic = &topics[next_random() % TOPICS];
			found += find_message(topic, topic->segment_start);
		}
		if (round % 16 == 15)
			drop_old_segments();
		nanosleep(&(struct timespec){ 0, 10 * 1000 * 1000 }, NULL);
	}
	for (int i = 0; i < TOPICS; i++)
		free(topics[i].offsets);
	free(topics);
	return found == 1;
}

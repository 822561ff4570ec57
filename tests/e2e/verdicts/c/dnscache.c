/* SPDX-License-Identifier: Apache-2.0 */
/* A caching resolver: a zone loaded at start, and answers that expire by a timer wheel. Most live for a few ticks, some much longer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WHEEL = 16, BUCKETS = 2048, ZONE_RECORDS = 2500, QUERIES_PER_TICK = 150 };

struct record {
	struct record *chain;
	struct record *expiry;
	char *name;
	unsigned char *data;
	size_t length;
	unsigned remaining;
};

static struct record *cache[BUCKETS];
static struct record *wheel[WHEEL];
static struct record **zone;
static uint32_t lfsr = 0xACE1u;

static uint32_t draw(void)
{
	lfsr ^= lfsr << 13;
	lfsr ^= lfsr >> 17;
	lfsr ^= lfsr << 5;
	return lfsr;
}

static double steady_time(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint32_t bucket(const char *name)
{
	uint32_t hash = 5381;
	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash % BUCKETS;
}

static __attribute__((noinline)) struct record *new_record(const char *name, size_t length)
{
	struct record *record = calloc(1, sizeof *record);
	record->name = strdup(name);
	record->data = malloc(length);
	memset(record->data, 7, length);
	record->length = length;
	return record;
}

static void free_record(struct record *record)
{
	free(record->name);
	free(record->data);
	free(record);
}

static __attribute__((noinline)) void load_zone(void)
{
	zone = malloc(ZONE_RECORDS * sizeof *zone);
	for (int i = 0; i < ZONE_RECORDS; i++) {
		char name[64];
		snprintf(name, sizeof name, "host-%d.internal.example", i);
		zone[i] = new_record(name, 100 + (size_t)(i % 64));
	}
}

static __attribute__((noinline)) void cache_answer(const char *name, unsigned tick)
{
	struct record *record = new_record(name, 100 + draw() % 500);
	uint32_t place = bucket(name);
	unsigned lifetime = draw() % 8 == 0 ? 15 : 1 + draw() % 7;
	unsigned slot = (tick + lifetime) % WHEEL;
	record->chain = cache[place];
	cache[place] = record;
	record->expiry = wheel[slot];
	wheel[slot] = record;
}

static __attribute__((noinline)) void expire_answers(unsigned tick)
{
	struct record *record = wheel[tick % WHEEL];
	wheel[tick % WHEEL] = NULL;
	while (record) {
		struct record *next = record->expiry;
		struct record **link = &cache[bucket(record->name)];
		while (*link != record)
			link = &(*link)->chain;
		*link = record->chain;
		free_record(record);
		record = next;
	}
}

static __attribute__((noinline)) size_t answer_query(const char *name)
{
	struct record *record = cache[bucket(name)];
	while (record && strcmp(record->name, name) != 0)
		record = record->chain;
	size_t length = record ? record->length : zone[draw() % ZONE_RECORDS]->length;
	char *packet = malloc(length + 12);
	memset(packet, 0, 12);
	free(packet);
	return length;
}

int main(int argc, char **argv)
{
	double end = steady_time() + (argc > 1 ? atof(argv[1]) : 4.0);
	size_t bytes = 0;
	load_zone();
	for (unsigned tick = 0; steady_time() < end; tick++) {
		expire_answers(tick);
		for (int i = 0; i < QUERIES_PER_TICK; i++) {
			char name[64];
			snprintf(name, sizeof name, "www%u.site%u.example", draw() % 40,
				 draw() % 5000);
			bytes += answer_query(name);
			cache_answer(name, tick);
		}
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	return bytes == 1;
}

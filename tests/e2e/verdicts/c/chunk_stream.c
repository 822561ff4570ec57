/* SPDX-License-Identifier: Apache-2.0 */
/* An open world: the chunks around the player are in memory; the others are dropped and generated again when needed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RADIUS 7
#define BUCKETS 512

struct plant {
	float x, y;
	uint32_t kind;
	uint32_t age;
	uint64_t seed;
};

struct chunk {
	struct chunk *next;
	int cx, cy;
	unsigned char *tiles;
	struct plant *plants;
	unsigned plant_count;
};

static struct chunk *chunks[BUCKETS];
static uint64_t looked_at;

static unsigned bucket_of(int cx, int cy)
{
	return ((unsigned)cx * 73856093u ^ (unsigned)cy * 19349663u) % BUCKETS;
}

static struct chunk *find_chunk(int cx, int cy)
{
	struct chunk *c = chunks[bucket_of(cx, cy)];
	while (c != NULL && (c->cx != cx || c->cy != cy))
		c = c->next;
	return c;
}

__attribute__((noinline)) static void generate_chunk(int cx, int cy)
{
	struct chunk *c = calloc(1, sizeof *c);
	if (c == NULL)
		abort();
	uint32_t seed = (uint32_t)cx * 2654435761u + (uint32_t)cy * 40503u + 1;
	c->cx = cx;
	c->cy = cy;
	c->tiles = malloc(4096);
	if (c->tiles == NULL)
		abort();
	for (int i = 0; i < 4096; i++)
		c->tiles[i] = (unsigned char)((seed >> (i & 15)) + (uint32_t)i);
	unsigned wanted = seed / 65536u % 40;
	for (unsigned i = 0; i < wanted; i++) {
		if (i % 8 == 0) {
			c->plants = realloc(c->plants, (i + 8) * sizeof *c->plants);
			if (c->plants == NULL)
				abort();
		}
		seed = seed * 1664525u + 1013904223u;
		c->plants[i] = (struct plant){ (float)(seed >> 26), (float)(seed >> 20 & 63),
					       seed % 9, 0, seed };
		c->plant_count++;
	}
	c->next = chunks[bucket_of(cx, cy)];
	chunks[bucket_of(cx, cy)] = c;
}

__attribute__((noinline)) static void drop_far_chunks(int cx, int cy)
{
	for (int i = 0; i < BUCKETS; i++) {
		struct chunk **link = &chunks[i];
		while (*link != NULL) {
			struct chunk *c = *link;
			if (abs(c->cx - cx) > RADIUS + 1 || abs(c->cy - cy) > RADIUS + 1) {
				*link = c->next;
				free(c->tiles);
				free(c->plants);
				free(c);
			} else {
				link = &c->next;
			}
		}
	}
}

__attribute__((noinline)) static void stream_around(int cx, int cy)
{
	for (int y = cy - RADIUS; y <= cy + RADIUS; y++)
		for (int x = cx - RADIUS; x <= cx + RADIUS; x++)
			if (find_chunk(x, y) == NULL)
				generate_chunk(x, y);
	drop_far_chunks(cx, cy);
}

int main(int argc, char **argv)
{
	struct timespec t;
	double length = argc > 1 ? atof(argv[1]) : 4.0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	double begin = (double)t.tv_sec + (double)t.tv_nsec * 1e-9, now = begin;
	for (int frame = 0; now - begin < length; frame++) {
		/* A walk to the north-east, and a step aside from time to time: the player never returns. */
		int cx = frame / 4 + (frame % 60 > 50 ? 1 : 0), cy = frame / 11;
		stream_around(cx, cy);
		const struct chunk *here = find_chunk(cx, cy);
		looked_at += here->tiles[frame & 4095] + here->plant_count;
		nanosleep(&(struct timespec){ 0, 16000000 }, NULL);
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	}
	return looked_at == 0;
}

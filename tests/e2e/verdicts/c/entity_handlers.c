/* SPDX-License-Identifier: Apache-2.0 */
/* A game server: entities come and go, and listen for the weather of their zone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZONES 64
#define ENTITIES 480
#define SPAWNS_PER_FRAME 8

struct handler {
	struct handler *next;
	uint32_t entity;
	uint32_t calls;
	void (*call)(struct handler *, int weather);
	float response[150];
};

struct entity {
	uint32_t id;
	uint32_t zone;
	int frames_left;
	float position[3];
	float velocity[3];
	char name[24];
};

static struct handler *zone_handlers[ZONES];
static struct entity *entities[ENTITIES];
static uint32_t last_id;
static uint32_t rng = 7;

static uint32_t roll(uint32_t sides)
{
	rng ^= rng << 13;
	rng ^= rng >> 17;
	rng ^= rng << 5;
	return rng % sides;
}

__attribute__((noinline)) static void *checked_alloc(size_t size)
{
	void *p = calloc(1, size);
	if (p == NULL) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static void feel_weather(struct handler *h, int weather)
{
	h->calls++;
	h->response[weather % 150] += 0.5f;
}

__attribute__((noinline)) static struct entity *entity_spawn(void)
{
	struct entity *e = checked_alloc(sizeof *e);
	e->id = ++last_id;
	e->zone = roll(ZONES);
	e->frames_left = 20 + (int)roll(60);
	snprintf(e->name, sizeof e->name, "goblin %u", (unsigned)e->id);
	struct handler *h = checked_alloc(sizeof *h);
	h->entity = e->id;
	h->call = feel_weather;
	h->next = zone_handlers[e->zone];
	zone_handlers[e->zone] = h;
	return e;
}

__attribute__((noinline)) static void entity_despawn(struct entity *e)
{
	free(e);
}

__attribute__((noinline)) static void world_step(unsigned frame)
{
	int spawns = SPAWNS_PER_FRAME;
	for (int i = 0; i < ENTITIES; i++) {
		struct entity *e = entities[i];
		if (e == NULL) {
			if (spawns-- > 0)
				entities[i] = entity_spawn();
			continue;
		}
		for (int k = 0; k < 3; k++)
			e->position[k] += e->velocity[k];
		if (--e->frames_left == 0) {
			entity_despawn(e);
			entities[i] = NULL;
		}
	}
	for (struct handler *h = zone_handlers[frame % ZONES]; h != NULL; h = h->next)
		h->call(h, (int)frame);
}

int main(int argc, char **argv)
{
	struct timespec begin, now, next;
	double length = argc > 1 ? atof(argv[1]) : 4.0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	next = begin;
	for (unsigned frame = 0;; frame++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((double)(now.tv_sec - begin.tv_sec) +
			    (double)(now.tv_nsec - begin.tv_nsec) / 1e9 >=
		    length)
			break;
		world_step(frame);
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	for (int i = 0; i < ENTITIES; i++)
		if (entities[i] != NULL)
			entity_despawn(entities[i]);
	return 0;
}

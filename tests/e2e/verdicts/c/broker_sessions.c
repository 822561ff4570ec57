/* SPDX-License-Identifier: Apache-2.0 */
/* A small message broker: clients connect with a will message, publish a few packets and go away again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 1024

struct session {
	struct session *next;
	uint32_t id;
	char client[28];
	size_t will_size;
	unsigned char will[];
};

static struct session *sessions[BUCKETS];
static uint32_t random_state = 12345;
static uint32_t next_id = 1;
static uint64_t published;

static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)random_state * limit) >> 32);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static struct session *session_open(size_t will_size)
{
	struct session *s = malloc(sizeof *s + will_size);
	if (s == NULL)
		exit(1);
	s->id = next_id++;
	snprintf(s->client, sizeof s->client, "client-%u", (unsigned)s->id);
	s->will_size = will_size;
	memset(s->will, (int)(s->id & 0xff), will_size);
	s->next = sessions[s->id % BUCKETS];
	sessions[s->id % BUCKETS] = s;
	return s;
}

__attribute__((noinline)) static void session_close(struct session *s)
{
	struct session **link = &sessions[s->id % BUCKETS];
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	free(s);
}

__attribute__((noinline)) static void publish_packet(const struct session *s, size_t size)
{
	unsigned char *packet = malloc(size);
	if (packet == NULL)
		exit(1);
	memset(packet, (int)s->id, size);
	published += packet[size / 2];
	free(packet);
}

__attribute__((noinline)) static void serve_client(void)
{
	struct session *s = session_open(400 + random_below(3200));
	uint32_t packets = 2 + random_below(4);
	for (uint32_t i = 0; i < packets; i++)
		publish_packet(s, 64 + random_below(900));
	/* A client that says goodbye takes its session along; one whose link broke may resume, so its session stays. */
	if (random_below(4) != 0)
		session_close(s);
}

int main(int argc, char **argv)
{
	double end = seconds() + (argc > 1 ? atof(argv[1]) : 4.0);
	const struct timespec pause = { 0, 10000000 };
	while (seconds() < end) {
		for (int i = 0; i < 14; i++)
			serve_client();
		nanosleep(&pause, NULL);
	}
	for (size_t i = 0; i < BUCKETS; i++)
		while (sessions[i] != NULL)
			session_close(sessions[i]);
	return published == 1;
}

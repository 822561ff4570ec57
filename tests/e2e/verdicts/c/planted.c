/* SPDX-License-Identifier: Apache-2.0 */
/* planted SECONDS CASE: small programs that leak (leak_*) or whose memory stays bounded (bounded_*). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static double seconds;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rounds(void (*round)(void))
{
	for (double end = now() + seconds; now() < end; usleep(10000))
		round();
}

/* ---- memory that grows ---- */

struct node {
	struct node *next;
	char text[500];
};
static struct node *volatile list;

NOINLINE static void append_event(void)
{
	struct node *node = malloc(sizeof *node);

	node->next = list;
	list = node;
}

static void list_round(void)
{
	for (int i = 0; i < 20; i++)
		append_event();
}

static unsigned requests;

NOINLINE static void handle_request(void)
{
	char *volatile reply = malloc(8000);

	reply[0] = 1;
	if (requests++ % 10 == 0)
		return; /* an error: the reply is forgotten */
	free(reply);
}

static void error_round(void)
{
	for (int i = 0; i < 20; i++)
		handle_request();
}

static char *log_text;
static size_t log_bytes;

NOINLINE static void extend_log(void)
{
	log_bytes += 4000;
	log_text = realloc(log_text, log_bytes);
	memset(log_text + log_bytes - 4000, 'x', 4000);
}

static void log_round(void)
{
	extend_log();
	extend_log();
}

static char *volatile current_name;

NOINLINE static void set_name(const char *name)
{
	current_name = strdup(name); /* the old one is not freed */
}

static void name_round(void)
{
	char name[900];

	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = 0;
	for (int i = 0; i < 15; i++)
		set_name(name);
}

static void *volatile kept[4][100000];

NOINLINE static void *keep_results(void *argument)
{
	size_t worker = (size_t)argument, count = 0;

	for (double end = now() + seconds; now() < end; usleep(10000))
		for (int i = 0; i < 4 && count < 100000; i++)
			kept[worker][count++] = malloc(1500);
	return NULL;
}

static void run_threads(void *(*work)(void *))
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- memory that stays bounded ---- */

enum { SLOTS = 1000 };
static void *slots[SLOTS];
static unsigned turn;

NOINLINE static void replace_slot(unsigned slot, size_t bytes)
{
	free(slots[slot]);
	slots[slot] = malloc(bytes);
}

static void ring_round(void)
{
	for (int i = 0; i < 60; i++)
		replace_slot(turn++ % SLOTS, 1000);
}

static void idle_round(void)
{
	void *volatile scratch = malloc(3000);

	free(scratch);
}

static void build_table(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		replace_slot(i, 2000);
}

NOINLINE static void process_batch(void)
{
	void *batch[500];

	for (int i = 0; i < 500; i++)
		batch[i] = malloc(1200);
	for (int i = 0; i < 500; i++)
		free(batch[i]);
}

static struct node *spare;

NOINLINE static struct node *get_node(void)
{
	struct node *node = spare;

	if (node)
		spare = node->next;
	return node ? node : malloc(sizeof *node);
}

static void pool_round(void)
{
	struct node *used[1000];

	for (int i = 0; i < 1000; i++)
		used[i] = get_node();
	for (int i = 0; i < 1000; i++) {
		used[i]->next = spare;
		spare = used[i];
	}
}

static void churn_round(void)
{
	for (int i = 0; i < 200; i++) {
		turn = turn * 1103515245 + 12345;
		replace_slot(turn / 65536 % SLOTS, 600 + turn / 65536 % 800);
	}
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*begin)(void), (*round)(void);
		void *(*thread)(void *);
	} cases[] = {
		{ "leak_list", NULL, list_round, NULL },
		{ "leak_error_path", NULL, error_round, NULL },
		{ "leak_realloc", NULL, log_round, NULL },
		{ "leak_name", NULL, name_round, NULL },
		{ "leak_threads", NULL, NULL, keep_results },
		{ "bounded_ring", NULL, ring_round, NULL },
		{ "bounded_table", build_table, idle_round, NULL },
		{ "bounded_batches", build_table, process_batch, NULL },
		{ "bounded_pool", NULL, pool_round, NULL },
		{ "bounded_churn", build_table, churn_round, NULL },
	};

	seconds = atof(arguments[1]);
	for (size_t i = 0; count > 2 && i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, arguments[2]) != 0)
			continue;
		if (cases[i].begin)
			cases[i].begin();
		if (cases[i].thread)
			run_threads(cases[i].thread);
		else
			rounds(cases[i].round);
		return 0;
	}
	return 2;
}

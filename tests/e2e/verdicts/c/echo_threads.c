/* SPDX-License-Identifier: Apache-2.0 */
/* A thread-per-connection server. Every thread has its own scratch area, found through a thread-specific key. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONNECTIONS = 4 };

struct scratch {
	unsigned used;
	char line[1000];
	char decoded[3000];
};

static pthread_key_t scratch_key;

static double clock_seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static __attribute__((noinline)) struct scratch *thread_scratch(void)
{
	struct scratch *scratch = pthread_getspecific(scratch_key);
	if (!scratch) {
		scratch = calloc(1, sizeof *scratch);
		if (!scratch || pthread_setspecific(scratch_key, scratch) != 0)
			abort();
	}
	return scratch;
}

static __attribute__((noinline)) void decode_line(const char *encoded)
{
	struct scratch *scratch = thread_scratch();
	size_t out = 0;
	for (size_t i = 0; encoded[i] && out + 1 < sizeof scratch->decoded; i++)
		scratch->decoded[out++] = encoded[i] == '+' ? ' ' : encoded[i];
	scratch->decoded[out] = '\0';
	scratch->used++;
}

static __attribute__((noinline)) char *make_reply(unsigned connection)
{
	struct scratch *scratch = thread_scratch();
	char *reply = malloc(1400);
	snprintf(reply, 1400, "250 %u %.1000s", connection, scratch->decoded);
	return reply;
}

static void *serve_connection(void *argument)
{
	unsigned connection = *(unsigned *)argument;
	for (int line = 0; line < 10; line++) {
		struct scratch *scratch = thread_scratch();
		snprintf(scratch->line, sizeof scratch->line, "MAIL+FROM:<user%u@example>+line+%d",
			 connection, line);
		decode_line(scratch->line);
		free(make_reply(connection));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	double end = clock_seconds() + (argc > 1 ? atof(argv[1]) : 4.0);
	unsigned accepted = 0;
	if (pthread_key_create(&scratch_key, NULL) != 0)
		return 1;
	while (clock_seconds() < end) {
		pthread_t threads[CONNECTIONS];
		unsigned numbers[CONNECTIONS];
		for (int i = 0; i < CONNECTIONS; i++) {
			numbers[i] = accepted++;
			if (pthread_create(&threads[i], NULL, serve_connection, &numbers[i]) != 0)
				return 1;
		}
		for (int i = 0; i < CONNECTIONS; i++)
			pthread_join(threads[i], NULL);
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	return 0;
}

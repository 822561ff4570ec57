/* SPDX-License-Identifier: Apache-2.0 */
/* A log collector with three worker processes. Each suppresses repeated messages by remembering those it has seen. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, BUCKETS = 8192, MESSAGES_PER_ROUND = 20 };

struct seen_message {
	struct seen_message *next;
	uint32_t hash;
	unsigned repeats;
	char text[];
};

static struct seen_message *seen[BUCKETS];

static double uptime_seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint32_t hash_text(const char *text)
{
	uint32_t hash = 2166136261u;
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash;
}

static struct seen_message *find_message(const char *text, uint32_t hash)
{
	struct seen_message *message = seen[hash % BUCKETS];
	while (message && (message->hash != hash || strcmp(message->text, text) != 0))
		message = message->next;
	return message;
}

static __attribute__((noinline)) void remember_message(const char *text, uint32_t hash)
{
	struct seen_message *message = malloc(sizeof *message + strlen(text) + 1);
	if (!message)
		_exit(3);
	strcpy(message->text, text);
	message->hash = hash;
	message->repeats = 0;
	message->next = seen[hash % BUCKETS];
	seen[hash % BUCKETS] = message;
}

static __attribute__((noinline)) void forward_message(const char *text)
{
	char *packet = malloc(1024);
	snprintf(packet, 1024, "<13>%s", text);
	free(packet);
}

static __attribute__((noinline)) void collect_message(int worker, unsigned sequence, double stamp)
{
	char text[512];
	int length =
		snprintf(text, sizeof text,
			 "%.6f host%d app[%u]: connection from 10.%d.%u.%u refused by rule ", stamp,
			 worker, 4000 + sequence % 50, worker, sequence % 200, sequence % 250);
	memset(text + length, 'a' + (int)(sequence % 26), 60 + sequence % 160);
	text[(unsigned)length + 60 + sequence % 160] = '\0';
	uint32_t hash = hash_text(text);
	struct seen_message *known = find_message(text, hash);
	if (known) {
		known->repeats++;
		return;
	}
	remember_message(text, hash);
	forward_message(text);
}

static void run_worker(int worker, double end)
{
	unsigned sequence = 0;
	while (uptime_seconds() < end) {
		double stamp = uptime_seconds();
		for (int i = 0; i < MESSAGES_PER_ROUND; i++)
			collect_message(worker, sequence++, stamp);
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	double end = uptime_seconds() + (argc > 1 ? atof(argv[1]) : 4.0);
	int failed = 0;
	for (int worker = 0; worker < WORKERS; worker++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0) {
			run_worker(worker, end);
			_exit(0);
		}
	}
	for (int worker = 0; worker < WORKERS; worker++) {
		int status = 0;
		if (wait(&status) < 0 || status != 0)
			failed = 1;
	}
	return failed;
}

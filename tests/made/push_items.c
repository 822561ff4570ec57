/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent export util base */
/*
 * Queues a profile a number of times and pushes it, as the agent does: push_items [NAME=VALUE...]; see `settings`. Ends when the queue
 * is empty, or after that many attempts or seconds, and prints the counters as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/push/pyroscope.h"
#include "agent/push/queue.h"
#include "agent/push/sender.h"
#include "base/compiler.h"
#include "util/buffer.h"
#include "util/clock.h"
#include "util/files.h"

enum setting {
	QUEUE,	 /* folder */
	PROFILE, /* file: gzipped pprof */
	BAD,	 /* file that is queued as the second item */
	COUNT,
	FIRST, /* serial of the first item */
	SECONDS,
	BATCH, /* bytes */
	URL,
	TENANT,
	TOKEN,
	USER,
	PASSWORD,
	CA,
	CERTIFICATE,
	KEY,
	TIMEOUT, /* ms */
	ATTEMPTS,
	SETTINGS,
};
static const char *const names[SETTINGS] = {
	"queue", "profile",	"bad",	  "count",   "first",	 "seconds",
	"batch", "url",		"tenant", "token",   "user",	 "password",
	"ca",	 "certificate", "key",	  "timeout", "attempts",
};
static const char *settings[SETTINGS];

static void fail(const char *what)
{
	fprintf(stderr, "push_items: %s\n", what);
	exit(1);
}

static uint64_t number(enum setting setting, uint64_t otherwise)
{
	return settings[setting] ? strtoull(settings[setting], NULL, 10) : otherwise;
}

static void read_settings(char **argv)
{
	for (; *argv; argv++)
		for (size_t i = 0; i < SETTINGS; i++) {
			size_t length = strlen(names[i]);

			if (strncmp(*argv, names[i], length) == 0 && (*argv)[length] == '=')
				settings[i] = *argv + length + 1;
		}
}

static bool is_committed(void *context, const char *key, uint64_t serial)
{
	(void)context, (void)key, (void)serial;
	return true;
}

static void add(struct queue *queue, uint64_t serial, const char *path)
{
	char text[24];
	const struct pyroscope_label labels[] = { { "service_name", "pushed" },
						  { "serial", text } };
	struct pyroscope_source source = { "test", 1, 2, serial };
	struct buffer profile = BUFFER_INIT, request = BUFFER_INIT;
	uint64_t now_ns = clock_real_ns();
	struct error err = ERROR_INIT;

	snprintf(text, sizeof text, "%" PRIu64, serial);
	if (file_read(path, 64 << 20, &profile, &err) < 0 ||
	    pyroscope_encode(labels, ARRAY_SIZE(labels), pyroscope_id(&source),
			     buffer_span(&profile), &request, &err) < 0)
		fail(err.message);
	/* A full disk is not a reason to end: it is counted. */
	if (queue_prepare(queue, "test", serial, now_ns, buffer_span(&request), &err) == 0 &&
	    queue_commit(queue, "test", serial, now_ns, &err) < 0)
		fail(err.message);
	buffer_release(&profile);
	buffer_release(&request);
}

static void print_counters(struct queue *queue, const struct sender_counters *s, uint64_t stop_ns)
{
	struct queue_counters q = queue_counters(queue);

	printf("{\"queued\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"sent_bytes\": %" PRIu64
	       ", \"stop_ms\": %" PRIu64 ", \"has_success\": %s",
	       q.items, s->sent_items, s->sent_bytes, (uint64_t)(stop_ns / NS_PER_MS),
	       s->last_success_ns ? "true" : "false");
	for (enum queue_drop i = 0; i < QUEUE_DROPS; i++)
		printf(", \"dropped_%s\": %" PRIu64, queue_drop_name(i), q.dropped[i]);
	for (enum sender_class i = 0; i < SENDER_CLASSES; i++)
		printf(", \"%s\": %" PRIu64, sender_class_name(i), s->requests[i]);
	printf(", \"error\": \"");
	for (const char *c = s->last_error; *c; c++)
		printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	printf("\"}\n");
}

static uint64_t attempts_of(struct sender *sender)
{
	const struct sender_counters counters = sender_counters(sender);
	uint64_t sum = 0;

	for (enum sender_class i = 0; i < SENDER_CLASSES; i++)
		sum += counters.requests[i];
	return sum;
}

int main(int argc, char **argv)
{
	const struct queue_limits limits = { .max_bytes = 64 << 20, .max_age_ns = 3600 * NS_PER_S };
	struct error err = ERROR_INIT;
	struct sender_counters counters;
	struct queue *queue;
	struct sender *sender;
	uint64_t end_ns, stopped_ns;

	(void)argc;
	read_settings(argv + 1);
	queue = queue_open(settings[QUEUE], limits, &err);
	if (!queue)
		fail(err.message);
	queue_settle(queue, clock_real_ns(), is_committed, NULL);
	for (uint64_t i = 0; i < number(COUNT, 0); i++)
		add(queue, number(FIRST, 1) + i,
		    settings[BAD] && i == 1 ? settings[BAD] : settings[PROFILE]);
	sender = sender_start(
		queue,
		&(struct sender_options){ .batch_bytes = number(BATCH, 0),
					  .http = { .url = settings[URL],
						    .content_type = PYROSCOPE_CONTENT_TYPE,
						    .tenant = settings[TENANT],
						    .token_file = settings[TOKEN],
						    .user = settings[USER],
						    .password_file = settings[PASSWORD],
						    .ca_file = settings[CA],
						    .certificate_file = settings[CERTIFICATE],
						    .key_file = settings[KEY],
						    .timeout_ms = (uint32_t)number(TIMEOUT, 0) } },
		&err);
	if (!sender)
		fail(err.message);
	end_ns = clock_monotonic_ns() + number(SECONDS, 60) * NS_PER_S;
	while (queue_counters(queue).items && clock_monotonic_ns() < end_ns &&
	       attempts_of(sender) < number(ATTEMPTS, UINT64_MAX))
		usleep(2000);
	counters = sender_counters(sender);
	stopped_ns = clock_monotonic_ns();
	sender_stop(sender);
	stopped_ns = clock_monotonic_ns() - stopped_ns;
	print_counters(queue, &counters, stopped_ns);
	queue_close(queue);
	return 0;
}

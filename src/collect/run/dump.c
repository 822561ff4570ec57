/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one recording at a time: the loop passes a clone, a worker encodes and writes it, and the loop reports it in its next
 * iteration. While `state` is WRITING, `condition`, `written` and `problem` belong to the worker.
 *
 * Invariant: a file is complete when its name appears, and replaces no other.
 */
#include "collect/run/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/run/collector.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/output_file.h"

enum state { IDLE, WRITING, WRITTEN };

struct dumps {
	const struct collect_options *options;
	const char *path;
	struct worker *worker;
	int state; /* atomic */
	const char *condition;
	bool full; /* the limit is reached */
	char *written;
	struct error problem;
};

/* "run.hg" and 3 -> "run.3.hg" */
static char *path_with_number(const char *path, unsigned number)
{
	size_t length = strlen(path);
	bool suffix = length > 3 && strcmp(path + length - 3, ".hg") == 0;
	char *name = NULL;

	if (asprintf(&name, "%.*s.%u.hg", (int)(suffix ? length - 3 : length), path, number) < 0)
		return NULL;
	return name;
}

/* Writes the bytes under the first free number. */
static int write_numbered(struct dumps *d, struct span bytes, struct error *error)
{
	for (unsigned i = 1; i <= d->options->write_limit; i++) {
		AUTO_FREE char *name = path_with_number(d->path, i);

		if (!name)
			return error_set(error, "out of memory");
		if (output_file_write_new(name, bytes, 0666, error) == 0) {
			d->written = TAKE(name);
			return 0;
		}
		if (errno != EEXIST)
			return -1;
	}
	return error_set(error, "%u recordings already exist (--write-limit)",
			 d->options->write_limit);
}

static void do_dump(void *context, const struct worker_job *job)
{
	struct dumps *d = context;
	AUTO(buffer_release) struct buffer bytes = BUFFER_INIT;

	if (collector_encode_one(job->target, job->now_ns, d->options->version, d->options->options,
				 &bytes, &d->problem) == 0)
		(void)write_numbered(d, buffer_span(&bytes), &d->problem);
	__atomic_store_n(&d->state, WRITTEN, __ATOMIC_RELEASE);
}

struct dumps *dumps_new(const struct collect_options *options, const char *path)
{
	struct dumps *d = calloc(1, sizeof *d);

	if (!d)
		return NULL;
	d->options = options;
	d->path = path;
	d->worker = worker_new(do_dump, d);
	if (d->worker)
		return d;
	free(d);
	return NULL;
}

void dumps_free(struct dumps *d)
{
	if (!d)
		return;
	worker_free(d->worker);
	dumps_report(d);
	free(d);
}

bool dumps_ready(const struct dumps *d)
{
	return d && !d->full && __atomic_load_n(&d->state, __ATOMIC_ACQUIRE) == IDLE;
}

void dumps_give(struct dumps *d, struct target *clone, const char *condition, uint64_t now_ns)
{
	ASSERT(dumps_ready(d));
	d->condition = condition;
	d->problem = ERROR_INIT;
	__atomic_store_n(&d->state, WRITING, __ATOMIC_RELAXED);
	if (!worker_give(d->worker, &(struct worker_job){ clone, now_ns })) {
		target_free(clone);
		error_set(&d->problem, "out of memory");
		__atomic_store_n(&d->state, WRITTEN, __ATOMIC_RELEASE);
	}
}

void dumps_fail(struct dumps *d, const char *condition, const struct error *error)
{
	ASSERT(dumps_ready(d));
	d->condition = condition;
	d->problem = *error;
	__atomic_store_n(&d->state, WRITTEN, __ATOMIC_RELAXED);
}

static bool was_last(const struct dumps *d)
{
	for (unsigned i = 1; i <= d->options->write_limit; i++) {
		AUTO_FREE char *name = path_with_number(d->path, i);

		if (!name || access(name, F_OK) < 0)
			return false;
	}
	return true;
}

void dumps_report(struct dumps *d)
{
	char sentence[ERROR_MESSAGE_BYTES + 256];

	if (!d || __atomic_load_n(&d->state, __ATOMIC_ACQUIRE) != WRITTEN)
		return;
	d->full = was_last(d);
	if (d->written)
		snprintf(sentence, sizeof sentence, "%s: wrote %s%s", d->condition, d->written,
			 d->full ? ", the last one (--write-limit)" : "");
	else
		snprintf(sentence, sizeof sentence, "%s: no recording was written: %s",
			 d->condition, d->problem.message);
	if (d->options->say)
		d->options->say(d->options->context, !d->written, sentence);
	free(TAKE(d->written));
	__atomic_store_n(&d->state, IDLE, __ATOMIC_RELAXED);
}

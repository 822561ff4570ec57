/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolizes all frames of a large module.
 *
 * Addresses are sorted by unit and split into jobs of several units each; threads take jobs until none is
 * left. Each job has its own reader and frees it at the end: libdw caches every line table and every
 * abbreviation it has read, which for all units of a large program exceeds the size of the program.
 *
 * Threads share the module (which has its own lock), the job counter, and `keep`, which is called under a
 * lock for all results of a job. If no thread can be started, the caller does all the work.
 */
#include "symbols/batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "util/vector.h"

/* A reader costs a pass over all unit headers; the units of a job stay in memory until its end. */
enum { JOB_UNITS = 24, JOB_ADDRESSES = 4096, WORKERS_MAX = 64 };

struct lookup {
	uint64_t address;
	uint32_t unit;
};

struct job {
	size_t first, count; /* range of lookups */
};

struct batch {
	struct symbol_module *module;
	struct lookup *lookups; /* sorted by unit, then by address */
	VECTOR(struct job) jobs;
	atomic_size_t next;   /* relaxed: a counter; the rest is set up before the threads */
	pthread_mutex_t lock; /* serializes calls of `keep` */
	batch_keep *keep;
	void *context;
};

/* The results of one job, until they are passed to `keep`. */
struct found {
	uint64_t address;
	size_t first, count; /* range of frames */
};

struct findings {
	VECTOR(struct found) found;
	VECTOR(struct dwarf_frame) frames;
};

static int compare_lookups(const void *left, const void *right)
{
	const struct lookup *a = left, *b = right;

	if (a->unit != b->unit)
		return a->unit < b->unit ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

static bool cut_jobs(struct batch *batch, size_t count)
{
	struct job job = { 0 };
	uint32_t units = 0;

	for (size_t i = 0; i < count; i++) {
		bool new_unit = i == 0 || batch->lookups[i].unit != batch->lookups[i - 1].unit;

		if (new_unit && (units == JOB_UNITS || job.count >= JOB_ADDRESSES)) {
			if (!vector_push(&batch->jobs, job))
				return false;
			job = (struct job){ .first = i };
			units = 0;
		}
		units += new_unit;
		job.count++;
	}
	return job.count == 0 || vector_push(&batch->jobs, job);
}

static void find_job(struct batch *batch, const struct job *job, struct symbol_reader *reader,
		     struct findings *out)
{
	struct dwarf_frame chain[DWARF_CHAIN_MAX];

	for (size_t i = job->first; i < job->first + job->count; i++) {
		struct found found = { batch->lookups[i].address, out->frames.count, 0 };

		found.count = symbol_reader_find(reader, found.address, chain);
		if (!vector_reserve(&out->frames, found.count) || !vector_push(&out->found, found))
			return;
		for (size_t j = 0; j < found.count; j++)
			out->frames.at[out->frames.count++] = chain[j];
	}
}

static void keep_findings(struct batch *batch, const struct findings *all)
{
	pthread_mutex_lock(&batch->lock);
	for (size_t i = 0; i < all->found.count; i++) {
		const struct found *f = &all->found.at[i];

		batch->keep(batch->context, f->address, &all->frames.at[f->first], f->count);
	}
	pthread_mutex_unlock(&batch->lock);
}

static void *work(void *argument)
{
	struct batch *batch = argument;
	struct findings findings = { 0 };

	for (;;) {
		size_t number = atomic_fetch_add_explicit(&batch->next, 1, memory_order_relaxed);

		if (number >= batch->jobs.count)
			break;
		struct symbol_reader *reader = symbol_reader_new(batch->module);

		if (!reader)
			continue;
		findings.found.count = findings.frames.count = 0;
		find_job(batch, &batch->jobs.at[number], reader, &findings);
		keep_findings(batch, &findings);
		symbol_reader_free(reader);
	}
	vector_release(&findings.found);
	vector_release(&findings.frames);
	return NULL;
}

static void run(struct batch *batch, unsigned workers)
{
	pthread_t threads[WORKERS_MAX];
	unsigned started = 0;

	workers = MIN(workers, (unsigned)WORKERS_MAX);
	if (workers > batch->jobs.count)
		workers = (unsigned)batch->jobs.count;
	while (started + 1 < workers && pthread_create(&threads[started], NULL, work, batch) == 0)
		started++;
	work(batch);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

void batch_find(struct symbol_module *module, const uint64_t *addresses, size_t count,
		unsigned workers, batch_keep *keep, void *context)
{
	struct batch batch = { .module = module, .keep = keep, .context = context };

	batch.lookups = calloc(MAX(count, (size_t)1), sizeof *batch.lookups);
	if (!batch.lookups)
		return;
	for (size_t i = 0; i < count; i++)
		batch.lookups[i] =
			(struct lookup){ addresses[i], symbol_module_unit(module, addresses[i]) };
	qsort(batch.lookups, count, sizeof *batch.lookups, compare_lookups);
	pthread_mutex_init(&batch.lock, NULL);
	if (cut_jobs(&batch, count))
		run(&batch, MAX(workers, 1u));
	pthread_mutex_destroy(&batch.lock);
	vector_release(&batch.jobs);
	free(batch.lookups);
}

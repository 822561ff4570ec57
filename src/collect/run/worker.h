/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that runs one kind of job on targets, in FIFO order: work that would delay the loop, which updates the clock. The
 * thread starts with the first job; if it cannot be created, worker_give runs jobs synchronously.
 */
#ifndef COLLECT_RUN_WORKER_H
#define COLLECT_RUN_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct target;

struct worker_job {
	struct target *target;
	uint64_t now_ns; /* when the job was queued */
};

struct worker;
/* run is called in the thread. NULL if out of memory. */
struct worker *worker_new(void (*run)(void *context, const struct worker_job *job), void *context);

/* False: out of memory, the job was not queued. */
bool worker_give(struct worker *worker, const struct worker_job *job);

/* Waits until all jobs are done. No job may be added afterwards. */
void worker_finish(struct worker *worker);

/* Finishes all jobs first. worker may be NULL. */
void worker_free(struct worker *worker);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that does one kind of work on targets, in the order in which it is given: what takes longer than the loop,
 * which keeps the clock, may wait. The thread begins with the first job; if it cannot be made, jobs are done as they are given.
 */
#ifndef COLLECT_RUN_WORKER_H
#define COLLECT_RUN_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct target;

struct worker_job {
	struct target *target;
	uint64_t now_ns; /* when it was given */
};

struct worker;
/* run is called in the thread. NULL if there is no memory. */
struct worker *worker_new(void (*run)(void *context, const struct worker_job *job), void *context);

/* False: no memory to keep the job. */
bool worker_give(struct worker *worker, const struct worker_job *job);

/* Waits until everything that was given is done. Nothing may be given afterwards. */
void worker_finish(struct worker *worker);

/* Everything that was given is done before. worker may be NULL. */
void worker_free(struct worker *worker);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue, and a thread that empties it.
 *
 * `lock` protects queue, taken and closed. `run` and its context belong to the thread until worker_finish has joined it. Only
 * the loop's thread adds jobs.
 * Invariant: each job taken from the queue runs exactly once.
 */
#include "collect/run/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "util/vector.h"

struct worker {
	void (*run)(void *context, const struct worker_job *job);
	void *context;
	pthread_mutex_t lock;
	pthread_cond_t more;
	VECTOR(struct worker_job) queue; /* entries before `taken` were taken by the thread */
	size_t taken;
	bool closed, running;
	pthread_t thread;
};

struct worker *worker_new(void (*run)(void *context, const struct worker_job *job), void *context)
{
	struct worker *worker = calloc(1, sizeof *worker);

	if (!worker)
		return NULL;
	worker->run = run;
	worker->context = context;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	return worker;
}

/* Waits for the next job; false: the queue is empty and closed. */
static bool take_job(struct worker *worker, struct worker_job *ret)
{
	bool got;

	pthread_mutex_lock(&worker->lock);
	while (!worker->closed && worker->taken == worker->queue.count)
		pthread_cond_wait(&worker->more, &worker->lock);
	got = worker->taken < worker->queue.count;
	if (got)
		*ret = worker->queue.at[worker->taken++];
	if (worker->taken == worker->queue.count)
		worker->taken = worker->queue.count = 0;
	pthread_mutex_unlock(&worker->lock);
	return got;
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct worker_job job;

	while (take_job(worker, &job))
		worker->run(worker->context, &job);
	return NULL;
}

/* Signals are handled by the loop's thread, except SIGBUS: util/files.h. */
static void start_thread(struct worker *worker)
{
	sigset_t all, before;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	worker->running = pthread_create(&worker->thread, NULL, work, worker) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool worker_give(struct worker *worker, const struct worker_job *job)
{
	bool pushed;

	ASSERT(!worker->closed);
	if (!worker->running)
		start_thread(worker);
	if (!worker->running) {
		worker->run(worker->context, job);
		return true;
	}
	pthread_mutex_lock(&worker->lock);
	pushed = vector_push(&worker->queue, *job);
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	return pushed;
}

void worker_finish(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->closed = true;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	if (worker->running)
		pthread_join(worker->thread, NULL);
	worker->running = false;
}

void worker_free(struct worker *worker)
{
	if (!worker)
		return;
	worker_finish(worker);
	vector_release(&worker->queue);
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

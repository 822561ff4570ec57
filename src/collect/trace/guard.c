/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that waits for a page uses no CPU time: that is how a hang is told from work, however long the work takes. Idle time is counted
 * in polls, not by a clock, since all of us may be frozen meanwhile.
 *
 * The tracer waits for steps and runs them one at a time; `step` and `status` belong to whoever was woken last. After a hang nobody frees the
 * guard: the reader may go on at any time. It notices at its next step that it was abandoned.
 */
#include "collect/trace/guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

enum {
	POLL_MS = 100,
	IDLE_POLLS_MAX = 50, /* 5 seconds */
	LET_GO_SECONDS = 5,
};

struct guard {
	struct guarded_work work;
	sem_t ordered, answered;
	int done_fd;
	guard_step *step; /* NULL: the tracer shall end */
	int status;	  /* of the step, then of the work */
	struct error *step_error, error;
	atomic_bool is_abandoned, has_ended; /* the tracer shall end, whatever the reader does */
	atomic_bool is_patient;		     /* no CPU time is no hang */
};

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0 && errno == EINTR)
		;
}

static void *trace(void *argument)
{
	struct guard *g = argument;

	for (;;) {
		wait_for(&g->ordered);
		if (atomic_load(&g->is_abandoned) || atomic_load(&g->has_ended) || !g->step)
			break;
		g->status = g->step(g->work.context, g->step_error);
		sem_post(&g->answered);
	}
	g->work.let_go(g->work.context);
	sem_post(&g->answered); /* to a reader that was about to wait */
	return NULL;
}

int guard_trace(struct guard *g, guard_step *step, struct error *error)
{
	if (!atomic_load(&g->is_abandoned) && !atomic_load(&g->has_ended)) {
		g->step = step;
		g->step_error = error;
		sem_post(&g->ordered);
		wait_for(&g->answered);
	}
	if (atomic_load(&g->has_ended))
		return error_set(error, "the process ended meanwhile");
	return atomic_load(&g->is_abandoned) ? error_set(error, "it took too long") : g->status;
}

int guard_trace_patiently(struct guard *g, guard_step *step, struct error *error)
{
	atomic_store(&g->is_patient, true);
	int status = guard_trace(g, step, error);

	atomic_store(&g->is_patient, false);
	return status;
}

static void *read_all(void *argument)
{
	struct guard *g = argument;
	const uint64_t one = 1;

	int status = g->work.read(g, g->work.context, &g->error);

	if (atomic_load(&g->is_abandoned))
		return NULL;
	g->step = NULL;
	g->status = status;
	sem_post(&g->ordered);
	(void)!write(g->done_fd, &one, sizeof one);
	return NULL;
}

static uint64_t cpu_ns(pthread_t thread)
{
	struct timespec at;
	clockid_t id;

	if (pthread_getcpuclockid(thread, &id) != 0 || clock_gettime(id, &at) < 0)
		return 0;
	return (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec;
}

static void check_end(struct guard *g)
{
	if (!g->work.has_ended || atomic_load(&g->has_ended) || !g->work.has_ended(g->work.context))
		return;
	atomic_store(&g->has_ended, true);
	sem_post(&g->ordered);
}

/* False: both threads hang. */
static bool watch(struct guard *g, pthread_t reader, pthread_t tracer)
{
	struct pollfd done = { .fd = g->done_fd, .events = POLLIN };
	uint64_t before_ns = 0;

	for (int idle = 0; idle < IDLE_POLLS_MAX; idle++) {
		if (poll(&done, 1, POLL_MS) > 0)
			return true;
		check_end(g);
		uint64_t now_ns = cpu_ns(reader) + cpu_ns(tracer);

		if (now_ns != before_ns || atomic_load(&g->is_patient))
			idle = 0;
		before_ns = now_ns;
	}
	return false;
}

static void abandon(struct guard *g, pthread_t reader, pthread_t tracer)
{
	struct timespec deadline;

	atomic_store(&g->is_abandoned, true);
	sem_post(&g->ordered);
	pthread_detach(reader);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += LET_GO_SECONDS;
	if (pthread_timedjoin_np(tracer, NULL, &deadline) != 0)
		pthread_detach(tracer);
}

static void guard_free(struct guard *g)
{
	sem_destroy(&g->ordered);
	sem_destroy(&g->answered);
	if (g->done_fd >= 0)
		close(g->done_fd);
	free(g);
}

int guard_run(const struct guarded_work *work, struct error *error)
{
	struct guard *g = calloc(1, sizeof *g);
	pthread_t reader, tracer;

	if (!g)
		return error_set(error, "out of memory");
	*g = (struct guard){ .work = *work,
			     .done_fd = eventfd(0, EFD_CLOEXEC),
			     .error = ERROR_INIT };
	sem_init(&g->ordered, 0, 0);
	sem_init(&g->answered, 0, 0);
	bool has_tracer = g->done_fd >= 0 && pthread_create(&tracer, NULL, trace, g) == 0;

	if (!has_tracer || pthread_create(&reader, NULL, read_all, g) != 0) {
		if (has_tracer) {
			sem_post(&g->ordered); /* without a step it ends */
			pthread_join(tracer, NULL);
		}
		guard_free(g);
		return error_set(error, "no thread can be started");
	}
	if (!watch(g, reader, tracer)) {
		abandon(g, reader, tracer);
		error_set(
			error,
			"it was let go because its memory could not be read: a page did not arrive within 5 seconds, as it may with userfaultfd, FUSE or a network file system");
		return GUARD_HANGS;
	}
	pthread_join(reader, NULL);
	pthread_join(tracer, NULL);
	int status = g->status;

	if (status < 0)
		*error = g->error;
	guard_free(g);
	return status;
}

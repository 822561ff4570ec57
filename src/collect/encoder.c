/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of dead processes and a thread that empties it. Reading and packing one takes from a millisecond to seconds;
 * the loop that keeps the clocks only appends to the queue. If the thread cannot be made, encoder_finish does the work.
 *
 * Shared and protected by `lock`: queue, taken, refused, closed. The thread alone (and encoder_finish once it has ended) has the writer,
 * the sums and the error.
 * Invariant: a process that cannot be read is left out and counted; the others are not lost with it.
 */
#include "collect/encoder.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/checked.h"
#include "util/cleanup.h"

struct job {
	struct target *target;
	uint64_t now_ns;
};

struct encoder {
	pthread_mutex_t lock;
	pthread_cond_t more;
	VECTOR(struct job) queue; /* entries before `taken` are done */
	size_t taken;
	size_t refused; /* no memory to queue them */
	bool closed, running;
	pthread_t thread;
	uint64_t run_start_ns, real_offset_ns;
	struct recording_writer *writer;
	struct encoder_sums sums;
	struct error error; /* the first */
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

struct encoder *encoder_new(uint64_t run_start_ns)
{
	struct encoder *encoder = calloc(1, sizeof *encoder);

	if (!encoder)
		return NULL;
	encoder->writer = recording_writer_new();
	if (!encoder->writer) {
		free(encoder);
		return NULL;
	}
	pthread_mutex_init(&encoder->lock, NULL);
	pthread_cond_init(&encoder->more, NULL);
	encoder->run_start_ns = run_start_ns;
	encoder->real_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	return encoder;
}

uint64_t encoder_real_offset(const struct encoder *encoder)
{
	return encoder->real_offset_ns;
}

static void note_peak(struct encoder_sums *sums, const struct process_row *process)
{
	sums->processes++;
	sums->peak_sum_bytes = saturating_add(sums->peak_sum_bytes, process->peak_bytes);
	sums->peak_bound_bytes = process->peak_bound_bytes;
	if (process->peak_bytes >= sums->peak_bytes) {
		sums->peak_bytes = process->peak_bytes;
		sums->peak_at_ns = process->started_offset_ns + process->peak_at_ns;
	}
}

static int encode(struct encoder *encoder, const struct job *job, struct error *error)
{
	AUTO(process_rows_release) struct process_rows rows = { 0 };
	struct format_error reason = { "" };

	if (target_rows(job->target, job->now_ns, encoder->run_start_ns, encoder->real_offset_ns,
			&rows, error) < 0)
		return -1;
	if (recording_writer_add(encoder->writer, &rows, &reason) < 0)
		return error_set(error, "%s", reason.message);
	note_peak(&encoder->sums, &rows.process);
	return 0;
}

static void do_job(struct encoder *encoder, const struct job *job)
{
	struct error error = ERROR_INIT;

	if (encode(encoder, job, &error) < 0 && encoder->sums.lost++ == 0)
		encoder->error = error;
	target_free(job->target);
}

/* The next job. With wait, only the end of the run makes it return without one. */
static bool take_job(struct encoder *encoder, bool wait, struct job *ret)
{
	bool got;

	pthread_mutex_lock(&encoder->lock);
	while (wait && !encoder->closed && encoder->taken == encoder->queue.count)
		pthread_cond_wait(&encoder->more, &encoder->lock);
	got = encoder->taken < encoder->queue.count;
	if (got)
		*ret = encoder->queue.at[encoder->taken++];
	if (encoder->taken == encoder->queue.count)
		encoder->taken = encoder->queue.count = 0;
	pthread_mutex_unlock(&encoder->lock);
	return got;
}

static void *work(void *context)
{
	struct encoder *encoder = context;
	struct job job;

	while (take_job(encoder, true, &job))
		do_job(encoder, &job);
	return NULL;
}

/* Signals belong to the loop's thread. */
static void start_thread(struct encoder *encoder)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	encoder->running = pthread_create(&encoder->thread, NULL, work, encoder) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void encoder_give(struct encoder *encoder, struct target *target, uint64_t now_ns)
{
	struct job job = { target, now_ns };
	bool pushed;

	pthread_mutex_lock(&encoder->lock);
	ASSERT(!encoder->closed);
	pushed = vector_push(&encoder->queue, job);
	encoder->refused += !pushed;
	pthread_cond_signal(&encoder->more);
	pthread_mutex_unlock(&encoder->lock);
	if (!pushed) {
		target_free(target);
		return;
	}
	if (!encoder->running)
		start_thread(encoder);
}

static void end_thread(struct encoder *encoder)
{
	pthread_mutex_lock(&encoder->lock);
	encoder->closed = true;
	pthread_cond_signal(&encoder->more);
	pthread_mutex_unlock(&encoder->lock);
	if (encoder->running)
		pthread_join(encoder->thread, NULL);
	encoder->running = false;
}

struct encoder_sums encoder_finish(struct encoder *encoder, struct error *error)
{
	struct job job;

	end_thread(encoder);
	while (take_job(encoder, false, &job))
		do_job(encoder, &job);
	if (encoder->refused > 0 && encoder->sums.lost == 0)
		error_set(&encoder->error, "no memory left");
	encoder->sums.lost += encoder->refused;
	encoder->refused = 0;
	if (encoder->sums.lost > 0 && error)
		*error = encoder->error;
	return encoder->sums;
}

struct recording_writer *encoder_writer(struct encoder *encoder)
{
	ASSERT(encoder->closed && !encoder->running);
	return encoder->writer;
}

void encoder_free(struct encoder *encoder)
{
	struct job job;

	if (!encoder)
		return;
	end_thread(encoder);
	while (take_job(encoder, false, &job))
		target_free(job.target);
	vector_release(&encoder->queue);
	recording_writer_free(encoder->writer);
	pthread_cond_destroy(&encoder->more);
	pthread_mutex_destroy(&encoder->lock);
	free(encoder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread takes a batch, posts it, and gives it back to the queue as sender_decide says. `lock` protects the counters and
 * `woken`; the rest of `struct sender` belongs to the thread once it runs, except `stop`, which is atomic because the transfer
 * polls it.
 *
 * Invariant: between two iterations no item is taken, so that everything is in the queue when the thread ends.
 */
#include "agent/push/sender.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "util/clock.h"

#define WAIT_MIN_NS NS_PER_S
#define WAIT_MAX_NS (300 * NS_PER_S)
/* How often the queue is looked at without sender_wake. */
#define IDLE_NS (5 * NS_PER_S)

struct sender {
	struct queue *queue;
	struct sender_options options;
	struct http_client *client;
	struct queue_batch batch;
	size_t singly;	   /* items that are to be sent one by one */
	unsigned failures; /* consecutive */
	uint64_t random;
	atomic_bool stop;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* stop or woken */
	bool woken;
	struct sender_counters counters;
};

/* ---- decisions ---- */

const char *sender_class_name(enum sender_class class)
{
	static const char *const names[SENDER_CLASSES] = {
		[SENDER_OK] = "ok",
		[SENDER_NETWORK] = "network",
		[SENDER_TLS] = "tls",
		[SENDER_LOCAL] = "local",
		[SENDER_UNAUTHORIZED] = "unauthorized",
		[SENDER_LIMITED] = "limited",
		[SENDER_UNAVAILABLE] = "unavailable",
		[SENDER_REFUSED] = "refused",
		[SENDER_UNEXPECTED] = "unexpected",
	};

	return names[class];
}

static enum sender_class class_of(const struct http_reply *reply)
{
	switch (reply->outcome) {
	case HTTP_ANSWERED:
		break;
	case HTTP_TLS:
		return SENDER_TLS;
	case HTTP_LOCAL:
		return SENDER_LOCAL;
	case HTTP_NETWORK:
	case HTTP_STOPPED:
		return SENDER_NETWORK;
	}
	if (reply->status / 100 == 2)
		return SENDER_OK;
	if (reply->status / 100 == 5)
		return SENDER_UNAVAILABLE;
	switch (reply->status) {
	case 401:
	case 403:
		return SENDER_UNAUTHORIZED;
	case 408:
		return SENDER_UNAVAILABLE;
	case 429:
		return SENDER_LIMITED;
	case 400:
	case 413:
	case 422:
		return SENDER_REFUSED;
	default:
		return SENDER_UNEXPECTED;
	}
}

static enum sender_action action_of(enum sender_class class, size_t items)
{
	switch (class) {
	case SENDER_OK:
		return SENDER_DELETE;
	case SENDER_REFUSED:
		return items > 1 ? SENDER_SINGLY : SENDER_DROP;
	/* Larger than the limit, or an item that makes the store fail: it must not stop those behind it. */
	case SENDER_LIMITED:
	case SENDER_UNAVAILABLE:
		return SENDER_OTHERS;
	default:
		return SENDER_RETRY;
	}
}

/* The delay doubles with each failure; it is between its half and itself. */
static uint64_t delay_ns(unsigned failures, uint64_t retry_after_s, uint64_t random)
{
	uint64_t most = 2 * WAIT_MIN_NS, half;

	if (retry_after_s)
		return MIN(saturating_mul(retry_after_s, NS_PER_S), WAIT_MAX_NS) +
		       random % WAIT_MIN_NS;
	for (unsigned i = 1; i < failures && most < WAIT_MAX_NS; i++)
		most *= 2;
	half = MIN(most, WAIT_MAX_NS) / 2;
	return half + random % (half + 1);
}

struct sender_decision sender_decide(const struct http_reply *reply, size_t items,
				     unsigned failures, uint64_t random)
{
	struct sender_decision d = { .class = class_of(reply) };

	d.action = action_of(d.class, items);
	if (d.action == SENDER_RETRY || d.action == SENDER_OTHERS)
		d.wait_ns = delay_ns(failures, reply->retry_after_s, random);
	return d;
}

/* ---- the thread ---- */

static void count(struct sender *s, const struct http_reply *reply, enum sender_class class)
{
	struct sender_counters *c = &s->counters;

	pthread_mutex_lock(&s->lock);
	c->requests[class]++;
	if (class == SENDER_OK) {
		c->sent_items += s->batch.sequences.count;
		c->sent_bytes += s->batch.bytes.size;
		c->last_success_ns = clock_real_ns();
	} else {
		c->last_error_ns = clock_real_ns();
		if (reply->outcome == HTTP_ANSWERED)
			snprintf(c->last_error, sizeof c->last_error, "status %d%s%s",
				 reply->status, reply->message[0] ? ": " : "", reply->message);
		else
			snprintf(c->last_error, sizeof c->last_error, "%s", reply->message);
	}
	pthread_mutex_unlock(&s->lock);
}

static void apply(struct sender *s, enum sender_action action)
{
	size_t items = s->batch.sequences.count;

	s->singly = s->singly > items ? s->singly - items : 0;
	if (action == SENDER_OTHERS && items > 1)
		action = SENDER_SINGLY; /* which of them? */
	switch (action) {
	case SENDER_DELETE:
		queue_done(s->queue, &s->batch);
		break;
	case SENDER_DROP:
		queue_refused(s->queue, &s->batch);
		break;
	case SENDER_SINGLY:
		s->singly = items;
		queue_keep(s->queue, &s->batch);
		break;
	case SENDER_RETRY:
		queue_keep(s->queue, &s->batch);
		break;
	case SENDER_OTHERS:
		queue_postpone(s->queue, &s->batch);
		break;
	}
}

/* Sends the oldest items. Returns how long to wait then: 0 if there may be more. */
static uint64_t send_oldest(struct sender *s)
{
	bool is_single = s->singly > 0 || s->options.batch_bytes == 0;
	struct sender_decision decision;
	struct http_reply reply;

	if (!queue_take(s->queue, clock_real_ns(), s->options.batch_bytes, is_single ? 1 : SIZE_MAX,
			&s->batch))
		return IDLE_NS;
	reply = http_client_post(s->client, buffer_span(&s->batch.bytes), &s->stop);
	if (reply.outcome == HTTP_STOPPED) {
		queue_keep(s->queue, &s->batch);
		return 0;
	}
	s->random = hash_mix(s->random + 1);
	decision = sender_decide(&reply, s->batch.sequences.count, s->failures + 1, s->random);
	s->failures = decision.wait_ns ? s->failures + 1 : 0;
	count(s, &reply, decision.class);
	apply(s, decision.action);
	return decision.wait_ns;
}

/* Waits until the time is over or the thread is to stop; if idle, or until something is queued. */
static void pause_thread(struct sender *s, uint64_t wait_ns)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
				  .tv_nsec = (long)(until_ns % NS_PER_S) };
	bool is_idle = s->failures == 0;

	pthread_mutex_lock(&s->lock);
	while (!atomic_load(&s->stop) && !(is_idle && s->woken) &&
	       pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
		;
	s->woken = false;
	pthread_mutex_unlock(&s->lock);
}

static void *run(void *context)
{
	struct sender *s = context;

	while (!atomic_load(&s->stop)) {
		uint64_t wait_ns = send_oldest(s);

		if (wait_ns)
			pause_thread(s, wait_ns);
	}
	return NULL;
}

static void release(struct sender *s)
{
	http_client_free(s->client);
	queue_batch_release(&s->batch);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Signals are for the main thread. SIGBUS and the like stay, which the kernel sends to the thread that causes them. */
static int start_thread(struct sender *s)
{
	sigset_t blocked, before;
	int status;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	status = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

struct sender *sender_start(struct queue *queue, const struct sender_options *options,
			    struct error *err)
{
	struct sender *s = calloc(1, sizeof *s);
	pthread_condattr_t attributes;

	if (!s) {
		error_set(err, "out of memory");
		return NULL;
	}
	s->queue = queue;
	s->options = *options;
	s->random = hash_combine(clock_real_ns(), (uint64_t)getpid());
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	s->client = http_client_new(&options->http, err);
	if (s->client && start_thread(s) == 0)
		return s;
	if (s->client)
		error_set(err, "cannot start a thread");
	release(s);
	return NULL;
}

void sender_wake(struct sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

struct sender_counters sender_counters(struct sender *s)
{
	struct sender_counters counters;

	pthread_mutex_lock(&s->lock);
	counters = s->counters;
	pthread_mutex_unlock(&s->lock);
	return counters;
}

void sender_stop(struct sender *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->stop, true);
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	release(s);
}

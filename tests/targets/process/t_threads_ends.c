/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that every way in which a thread ends leaves right numbers: return, pthread_exit, cancelled while blocked and
 * while computing, detached, with blocks alive, and with key destructors that allocate and free at several levels. */
#include "target.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static struct truth body_truth = TRUTH(take_in_body);
static struct truth key_truth = TRUTH(take_in_destructor);
static struct truth cleanup_truth = TRUTH(take_in_cleanup);
static struct truth held_truth = TRUTH(take_held);
static pthread_key_t key[3];
static sem_t ready, detached_done;

#define TAKE(name, truth)                                                                          \
	static NOINLINE void *name(size_t n)                                                       \
	{                                                                                          \
		void *p = malloc(n);                                                               \
		KEEP(p);                                                                           \
		truth_take(&truth, n);                                                             \
		return p;                                                                          \
	}
TAKE(take_in_body, body_truth)
TAKE(take_in_destructor, key_truth)
TAKE(take_in_cleanup, cleanup_truth)
TAKE(take_held, held_truth)

struct level {
	int left;
	pthread_key_t key;
};

/* Sets its own key again: pthread runs destructors up to PTHREAD_DESTRUCTOR_ITERATIONS (4) times. */
static void destroy(void *arg)
{
	struct level now = *(struct level *)arg;

	free(arg);
	truth_drop(&key_truth, sizeof now);
	free(take_in_destructor(33));
	truth_drop(&key_truth, 33);
	if (now.left == 0)
		return;
	struct level *next = take_in_destructor(sizeof *next);
	*next = (struct level){ now.left - 1, now.key };
	pthread_setspecific(now.key, next);
}

static void arm_destructors(int levels)
{
	for (int i = 0; i < 3; i++) {
		struct level *first = take_in_destructor(sizeof *first);
		*first = (struct level){ levels, key[i] };
		pthread_setspecific(key[i], first);
	}
}

static void clean_up(void *p)
{
	free(take_in_cleanup(55));
	truth_drop(&cleanup_truth, 55);
	free(p);
	truth_drop(&body_truth, 500);
}

static void *returns(void *arg)
{
	arm_destructors(3);
	take_held(11);
	return arg;
}

static NOINLINE void leave_from_below(void)
{
	free(take_in_body(70));
	truth_drop(&body_truth, 70);
	pthread_exit((void *)5);
}

static void *exits(void *arg)
{
	arm_destructors(2);
	leave_from_below();
	return arg;
}

static void *sleeps(void *arg)
{
	void *p = take_in_body(500);
	pthread_cleanup_push(clean_up, p);
	arm_destructors(1);
	sem_post(&ready);
	for (;;)
		nanosleep(&(struct timespec){ 1000, 0 }, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

/* Cancelled at a point of its own, in the middle of work that allocates. */
static void *computes(void *arg)
{
	void *p = take_in_body(500);
	pthread_cleanup_push(clean_up, p);
	sem_post(&ready);
	for (;;) {
		free(take_in_body(40));
		truth_drop(&body_truth, 40);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return arg;
}

static void *detached(void *arg)
{
	take_held(13);
	free(take_in_body(90));
	truth_drop(&body_truth, 90);
	sem_post(&detached_done);
	return arg;
}

static void run(void *(*body)(void *), int cancel, void *wanted)
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
	if (cancel) {
		while (sem_wait(&ready) != 0)
			;
		CHECK(pthread_cancel(thread) == 0);
	}
	CHECK(pthread_join(thread, &result) == 0);
	CHECK(result == wanted);
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	sem_init(&ready, 0, 0);
	sem_init(&detached_done, 0, 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_key_create(&key[i], destroy) == 0);
	for (int i = 0; i < 40; i++) {
		run(returns, 0, NULL);
		run(exits, 0, (void *)5);
		run(sleeps, 1, PTHREAD_CANCELED);
		run(computes, 1, PTHREAD_CANCELED);
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 40; i++)
		CHECK(pthread_create(&thread, &attr, detached, NULL) == 0);
	for (int i = 0; i < 40; i++)
		while (sem_wait(&detached_done) != 0)
			;
	truth_print(&body_truth, "");
	truth_print(&key_truth, "");
	truth_print(&cleanup_truth, "");
	truth_print(&held_truth, "");
	say("EXPECT process threads=201\n");
	return 0;
}

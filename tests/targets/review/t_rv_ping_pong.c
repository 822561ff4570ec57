/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that no block is called temporary that was taken by one thread and freed by another, though each answer has the
 * address of the question. */
#include "target.h"
#include <pthread.h>
#include <semaphore.h>

enum { ROUNDS = 2000 };
static struct truth ask_truth = TRUTH(take_to_ask), answer_truth = TRUTH(take_to_answer);
static sem_t asked, answered;
static void *box;
static int same;

static NOINLINE void *take_to_ask(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&ask_truth, n);
	return p;
}

static NOINLINE void *take_to_answer(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&answer_truth, n);
	return p;
}

static void *peer(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(sem_wait(&asked) == 0);
		uintptr_t before = (uintptr_t)box;
		free(box);
		truth_drop(&ask_truth, 200);
		box = take_to_answer(200);
		same += (uintptr_t)box == before;
		CHECK(sem_post(&answered) == 0);
	}
	return argument;
}

int main(void)
{
	pthread_t thread;

	CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
	CHECK(pthread_create(&thread, NULL, peer, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		box = take_to_ask(200);
		CHECK(sem_post(&asked) == 0);
		CHECK(sem_wait(&answered) == 0);
		free(box);
		truth_drop(&answer_truth, 200);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(same > ROUNDS / 2);
	truth_print(&ask_truth, "temporary=0");
	truth_print(&answer_truth, "temporary=0");
	return 0;
}

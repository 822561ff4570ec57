/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* flags: -pthread */
/* Work on a process that ends: it is let go before the reader is done, and no step is made any more. */
#include "unit.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "collect/trace/guard.h"

struct process {
	sem_t let_go;
	int steps;
	bool ends, is_slow;
	int polls; /* of the watch, while the slow step waits */
	sem_t polled;
	atomic_bool has_ended;
	struct error error; /* of a step after the end */
};

static int count_step(void *context, struct error *error)
{
	struct process *p = context;

	(void)error;
	p->steps++;
	return 0;
}

static int wait_for_polls(void *context, struct error *error)
{
	struct process *p = context;

	(void)error;
	sem_wait(&p->polled);
	return 0;
}

static int read_it(struct guard *guard, void *context, struct error *error)
{
	struct process *p = context;

	if (guard_trace(guard, count_step, error) < 0)
		return -1;
	if (p->is_slow)
		return guard_trace_patiently(guard, wait_for_polls, error);
	if (!p->ends)
		return guard_trace(guard, count_step, error);
	atomic_store(&p->has_ended, true);
	sem_wait(&p->let_go); /* only the tracer ends this */
	return guard_trace(guard, count_step, &p->error) < 0 ? 0 : -1;
}

static void let_go(void *context)
{
	struct process *p = context;

	sem_post(&p->let_go);
}

static bool has_ended(void *context)
{
	enum { MORE_THAN_A_HANG = 60 }; /* IDLE_POLLS_MAX is 50 */
	struct process *p = context;

	if (p->is_slow && ++p->polls == MORE_THAN_A_HANG)
		sem_post(&p->polled);
	return atomic_load(&p->has_ended);
}

static int run(struct process *p)
{
	struct error error = ERROR_INIT;
	const struct guarded_work work = { read_it, let_go, has_ended, p };

	p->error = ERROR_INIT;
	sem_init(&p->let_go, 0, 0);
	sem_init(&p->polled, 0, 0);
	return guard_run(&work, &error);
}

static void steps_of_a_process_that_goes_on_are_made(void **state)
{
	struct process p = { 0 };

	(void)state;
	assert_int_equal(run(&p), 0);
	assert_int_equal(p.steps, 2);
	assert_int_equal(sem_trywait(&p.let_go), 0);
}

static void a_process_that_ends_is_let_go_at_once(void **state)
{
	struct process p = { .ends = true };

	(void)state;
	assert_int_equal(run(&p), 0);
	assert_int_equal(p.steps, 1);
	assert_non_null(strstr(p.error.message, "ended"));
}

static void a_patient_step_without_cpu_time_is_no_hang(void **state)
{
	struct process p = { .is_slow = true };

	(void)state;
	assert_int_equal(run(&p), 0);
	assert_int_equal(sem_trywait(&p.let_go), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_a_process_that_goes_on_are_made),
		cmocka_unit_test(a_process_that_ends_is_let_go_at_once),
		cmocka_unit_test(a_patient_step_without_cpu_time_is_no_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

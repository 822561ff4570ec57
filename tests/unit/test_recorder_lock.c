/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* H3: waiting for a lock. A waiter sleeps instead of spinning, is woken, gives up on an owner that never comes back, and
 * calls nobody if the program's filter forbids it. */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "recorder/lock.h"
#include "recorder/memory.h"
#include "recorder/sys.h"
#include "unit.h"

enum { TOTAL_BYTES = 64 << 20, THREADS = 64, TURNS = 2000 };

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct lock lock;

static int make_profile(void **state)
{
	struct live_header *head =
		mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (head == MAP_FAILED || live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	return 0;
}

static int begin(void **state)
{
	(void)state;
	lock = (struct lock){ 0 };
	sys_forbidden = 0;
	memory.head->health[HEALTH_lock_timeouts] = 0;
	return 0;
}

static uint64_t timeouts(void)
{
	return memory.head->health[HEALTH_lock_timeouts];
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static long switches(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

/* It sleeps LOCK_WAITS times, which is 100 ms, and needs the processor for hardly any of it. */
static void a_waiter_gives_up_on_an_owner_that_is_gone(void **state)
{
	(void)state;
	assert_int_equal(LOCK_WAITS * LOCK_WAIT_NS, 100 * 1000 * 1000);
	assert_true(lock_acquire(&lock, 7));
	long slept = switches();
	uint64_t used = cpu_ns();

	assert_false(lock_acquire(&lock, 8));
	assert_in_range(switches() - slept, LOCK_WAITS / 2, LOCK_WAITS + 5);
	assert_in_range(cpu_ns() - used, 0, LOCK_WAITS * LOCK_WAIT_NS / 2);
	assert_int_equal(timeouts(), 1);
}

/* From then on nobody waits long for that owner, and some time later not at all; once it is back, all is as before. */
static void an_owner_that_was_given_up_on_delays_others_little(void **state)
{
	(void)state;
	assert_true(lock_acquire(&lock, 7));
	assert_false(lock_acquire(&lock, 8));
	long slept = switches();

	for (uint32_t i = 1; i < LOCK_GIVE_UPS; i++)
		assert_false(lock_acquire(&lock, i));
	assert_in_range(switches() - slept, LOCK_GIVE_UPS / 2, LOCK_GIVE_UPS + 5);
	slept = switches();
	for (uint32_t i = 0; i < 1000; i++)
		assert_false(lock_acquire(&lock, i));
	assert_in_range(switches() - slept, 0, 5);
	assert_int_equal(timeouts(), LOCK_GIVE_UPS + 1000);
	assert_true(lock_is_mine(&lock, 7));
	assert_false(lock_is_mine(&lock, 8));
	lock_recover(&lock, 8); /* not its own */
	assert_true(lock_is_held(&lock));
	lock_recover(&lock, 7);
	assert_false(lock_is_held(&lock));
	assert_true(lock_acquire(&lock, 8));
	slept = switches();
	assert_false(lock_acquire(&lock, 7));
	assert_in_range(switches() - slept, LOCK_WAITS / 2, LOCK_WAITS + 5);
	lock_release(&lock);
}

static void who_may_not_wait_gives_up_after_a_short_spin(void **state)
{
	(void)state;
	sys_forbidden = SYS_WAIT;
	assert_true(lock_acquire(&lock, 7));
	long slept = switches();

	for (uint32_t i = 0; i < 100; i++)
		assert_false(lock_acquire(&lock, 8));
	assert_in_range(switches() - slept, 0, 5);
	assert_int_equal(timeouts(), 100);
	lock_release(&lock);
	assert_true(lock_acquire(&lock, 8));
	lock_release(&lock);
}

static uint64_t counter;

static void *count_turns(void *arg)
{
	uint32_t slot = (uint32_t)(uintptr_t)arg;
	uint64_t lost = 0;

	for (int i = 0; i < TURNS; i++) {
		if (!lock_acquire(&lock, slot)) {
			lost++;
			continue;
		}
		uint64_t before = __atomic_load_n(&counter, __ATOMIC_RELAXED);

		if (i % 64 == 0)
			sched_yield(); /* the owner loses its processor */
		__atomic_store_n(&counter, before + 1, __ATOMIC_RELAXED);
		lock_release(&lock);
	}
	return (void *)(uintptr_t)lost;
}

static void many_threads_have_it_one_after_the_other(void **state)
{
	pthread_t thread[THREADS];
	uint64_t lost = 0;

	(void)state;
	counter = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_turns, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		void *one;

		pthread_join(thread[i], &one);
		lost += (uintptr_t)one;
	}
	assert_int_equal(counter + lost, THREADS * TURNS);
	assert_int_equal(timeouts(), lost);
	/* How many gave up depends on how long the machine keeps an owner from its processor. */
	assert_true(counter > 0);
	assert_false(lock_is_held(&lock));
}

static uint32_t asleep;

static void *wait_once(void *arg)
{
	__atomic_fetch_add(&asleep, 1, __ATOMIC_RELAXED);
	bool taken = lock_acquire(&lock, (uint32_t)(uintptr_t)arg);

	if (taken)
		lock_release(&lock);
	return (void *)(uintptr_t)taken;
}

/* Each one that is woken wakes the next: none sleeps through until its time is over, or all would give up. */
static void all_who_sleep_are_woken(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (int round = 0; round < 20; round++) {
		asleep = 0;
		assert_true(lock_acquire(&lock, THREADS));
		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, wait_once, (void *)i), 0);
		while (__atomic_load_n(&asleep, __ATOMIC_RELAXED) < THREADS)
			sched_yield();
		lock_release(&lock);
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		assert_false(lock_is_held(&lock));
	}
}

static void set_fifo(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (pthread_setschedparam(pthread_self(), policy, &param) != 0)
		skip();
}

static void *own_for_a_while(void *ready)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	pthread_setaffinity_np(pthread_self(), sizeof one, &one);
	lock_acquire(&lock, 1);
	__atomic_store_n((uint32_t *)ready, 1, __ATOMIC_RELEASE);
	for (uint64_t until = cpu_ns() + 5 * 1000 * 1000; cpu_ns() < until;)
		;
	lock_release(&lock);
	return NULL;
}

/* On one processor, an owner of ordinary priority gets it only while the waiter sleeps. */
static void a_waiter_of_real_time_priority_lets_the_owner_run(void **state)
{
	pthread_t thread;
	uint32_t ready = 0;
	cpu_set_t before, one;

	(void)state;
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof before, &before), 0);
	if (!CPU_ISSET(0, &before))
		skip();
	assert_int_equal(pthread_create(&thread, NULL, own_for_a_while, &ready), 0);
	while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		sched_yield();
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	pthread_setaffinity_np(pthread_self(), sizeof one, &one);
	set_fifo(SCHED_FIFO, 1);
	bool taken = lock_acquire(&lock, 2);

	set_fifo(SCHED_OTHER, 0);
	pthread_setaffinity_np(pthread_self(), sizeof before, &before);
	pthread_join(thread, NULL);
	/* Another program may keep the processor busy for 100 ms; a spinning waiter would never let the owner have it. */
	assert_int_equal(taken, timeouts() == 0);
	if (taken)
		lock_release(&lock);
	assert_false(lock_is_held(&lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_waiter_gives_up_on_an_owner_that_is_gone, begin),
		cmocka_unit_test_setup(an_owner_that_was_given_up_on_delays_others_little, begin),
		cmocka_unit_test_setup(who_may_not_wait_gives_up_after_a_short_spin, begin),
		cmocka_unit_test_setup(many_threads_have_it_one_after_the_other, begin),
		cmocka_unit_test_setup(all_who_sleep_are_woken, begin),
		cmocka_unit_test_setup(a_waiter_of_real_time_priority_lets_the_owner_run, begin),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}

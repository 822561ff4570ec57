/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -pthread */
/* Variables of known sizes in every writable section: touches a known number of their pages, starts threads, and waits to be read.
 * Prints what the view `globals` should say: NAME SECTION BYTES RESIDENT, or COPIES instead of what is resident. */
#include <pthread.h>
#include <sys/prctl.h>

#include "../target.h"

enum { THREADS = 5, PAGE = 4096, TOUCHED = 1000, SCATTERED = 7 };

char zeroed[64 << 20] __attribute__((aligned(PAGE)));
static char scattered[1 << 20] __attribute__((aligned(PAGE)));
int table[1 << 18] __attribute__((aligned(PAGE))) = { 1 };
static __thread volatile char of_thread[40000];
char *const relocated[600] __attribute__((section(".data.rel.ro"))) = { zeroed };

static pthread_barrier_t started, done;

static char *counter(void)
{
	static char counted[3 * PAGE] __attribute__((aligned(PAGE)));

	return counted;
}

static void *wait_for_end(void *unused)
{
	of_thread[0] = 1;
	pthread_barrier_wait(&started);
	pthread_barrier_wait(&done);
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS - 1];
	volatile char *counted = counter();

	/* Else what is touched is less than what is resident, where the kernel gives huge pages to all. */
	CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	for (size_t i = 0; i < TOUCHED; i++)
		((volatile char *)zeroed)[i * PAGE] = 1;
	for (size_t i = 0; i < SCATTERED; i++)
		((volatile char *)scattered)[i * i * PAGE] = 1;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		((volatile int *)table)[i] = 2;
	counted[PAGE] = 1;
	of_thread[1] = 1;
	pthread_barrier_init(&started, NULL, THREADS);
	pthread_barrier_init(&done, NULL, THREADS);
	for (size_t i = 0; i < THREADS - 1; i++)
		CHECK(pthread_create(&threads[i], NULL, wait_for_end, NULL) == 0);
	pthread_barrier_wait(&started);
	void *block = malloc(1);

	KEEP(block);
	free(block);
	/* Until the collector has read the memory at least once more. */
	usleep(1200000);
	pthread_barrier_wait(&done);
	for (size_t i = 0; i < THREADS - 1; i++)
		pthread_join(threads[i], NULL);
	say("zeroed bss %zu %d\n", sizeof zeroed, TOUCHED * PAGE);
	say("scattered bss %zu %d\n", sizeof scattered, SCATTERED * PAGE);
	say("table data %zu %zu\n", sizeof table, sizeof table);
	say("counted bss %d %d\n", 3 * PAGE, PAGE);
	say("relocated relro %zu %zu\n", sizeof relocated, relocated[0] ? sizeof relocated : 0);
	say("of_thread tls %zu %d\n", THREADS * sizeof of_thread, THREADS);
	return 0;
}

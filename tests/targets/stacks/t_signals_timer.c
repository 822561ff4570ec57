/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a storm of timer signals whose handler allocates, on the normal and on an alternate stack, disturbs nothing:
 * the program's own counts stay exact, and the handler's are complete wherever it interrupted the program's own code. */
#include "interrupted.h"
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static struct truth busy_truth = TRUTH(take_busy);
static unsigned long must, may, handled;

static NOINLINE void *take_busy(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&busy_truth, n);
	return p;
}

static NOINLINE void *take_in_handler(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	enum interrupted where = interrupted_where(context);

	(void)number, (void)info;
	handled++;
	if (where != IN_OTHER) {
		*(where == IN_PROGRAM ? &must : &may) += 1;
		char *p = take_in_handler(320);
		memset(p, 1, 320);
		free(p);
	}
	errno = saved;
}

static NOINLINE void work(int depth, uint32_t *seed)
{
	if (depth > 0) {
		work(depth - 1, seed);
		__asm__ volatile("" ::: "memory");
		return;
	}
	for (int i = 0; i < 20; i++) {
		size_t n = next_random(seed) % 600;
		free(take_busy(n));
		truth_drop(&busy_truth, n);
	}
}

static void storm(int signal_number, int timer, int flags, unsigned long wanted)
{
	struct sigaction action = { .sa_sigaction = on_timer,
				    .sa_flags = SA_SIGINFO | SA_RESTART | flags };
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	uint32_t seed = 4711;
	time_t deadline = time(NULL) + 60;

	CHECK(sigaction(signal_number, &action, NULL) == 0);
	CHECK(setitimer(timer, &often, NULL) == 0);
	/* The profiling clock ticks more slowly than asked: it need not reach the count. */
	for (unsigned long end = handled + wanted; handled < end && time(NULL) < deadline;)
		work((int)(next_random(&seed) % 30), &seed);
	CHECK(setitimer(timer, &never, NULL) == 0);
	CHECK(sigaction(signal_number, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL) == 0);
}

int main(void)
{
	unsigned long wanted = (unsigned long)long_form(800, 20000);
	size_t size = 1 << 16;
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	interrupted_init();
	storm(SIGALRM, ITIMER_REAL, 0, wanted);
	storm(SIGPROF, ITIMER_PROF, 0, 100);
	CHECK(sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = size }, NULL) == 0);
	storm(SIGALRM, ITIMER_REAL, SA_ONSTACK, wanted);
	CHECK(handled >= wanted * 2);
	CHECK(must > wanted / 20);
	truth_print(&busy_truth, "");
	say("EXPECT site=take_in_handler kind=heap calls>=%lu calls<=%lu live_bytes=0 live_blocks=0\n",
	    must, must + may);
	say("HEALTH_MAYBE reentrant_calls\nHEALTH_MAYBE unknown_frees\n");
	return 0;
}

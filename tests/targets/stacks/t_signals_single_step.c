/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the recorder may be interrupted after any of its instructions by a handler that allocates: malloc, realloc
 * and free run under the trap flag, on known and on new stacks, and the handler allocates inside every one of them. */
#include "interrupted.h"
#include "single_step.h"

static struct truth stepped_truth = TRUTH(take_stepped);
static struct truth grown_truth = TRUTH(grow_stepped);
static unsigned long in_recorder;

static NOINLINE void *take_in_handler(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (interrupted_where(context) != IN_RECORDER)
		return;
	in_recorder++;
	free(take_in_handler(40));
}

static NOINLINE void *take_stepped(size_t n)
{
	step_on();
	void *p = malloc(n);
	step_off();
	KEEP(p);
	truth_take(&stepped_truth, n);
	return p;
}

static NOINLINE void *grow_stepped(void *p, size_t n)
{
	step_on();
	void *q = realloc(p, n);
	step_off();
	KEEP(q);
	truth_take(&grown_truth, n);
	return q;
}

static NOINLINE void free_stepped(void *p)
{
	step_on();
	free(p);
	step_off();
}

/* Each depth is a new stack the first time, a known one later. */
static NOINLINE void go(int depth, size_t n)
{
	if (depth > 0) {
		go(depth - 1, n);
		__asm__ volatile("" ::: "memory");
		return;
	}
	void *p = take_stepped(n);
	p = grow_stepped(p, n * 3);
	truth_drop(&stepped_truth, n);
	free_stepped(p);
	truth_drop(&grown_truth, n * 3);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	interrupted_init();
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	for (int round = 0; round < long_form(3, 30); round++)
		for (int depth = 0; depth < 12; depth++)
			go(depth, (size_t)(depth * 7 + 1));
	go(0, 5000);
	truth_print(&stepped_truth, "");
	truth_print(&grown_truth, "");
	say("EXPECT site=take_in_handler kind=heap calls<=%lu live_bytes=0 live_blocks=0\n",
	    in_recorder);
	say("HEALTH_MAYBE reentrant_calls\nHEALTH_MAYBE unknown_frees\n");
	return 0;
}

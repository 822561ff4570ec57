/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a handler may leave the recorder by siglongjmp after any of its instructions (never libc's malloc, which
 * would not survive it): nothing hangs, and what is allocated afterwards is recorded again. */
#include "interrupted.h"
#include "single_step.h"
#include <setjmp.h>

static struct truth after_truth = TRUTH(take_deeper);
static sigjmp_buf back;
static volatile unsigned long leave_at, seen;
static volatile unsigned long jumped, completed, attempts;

static void on_step(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (interrupted_where(context) != IN_RECORDER)
		return;
	if (++seen == leave_at) {
		jumped++;
		siglongjmp(back, 1);
	}
}

static NOINLINE void *take_stepped(size_t n, int step)
{
	if (step)
		step_on();
	void *p = malloc(n);
	step_off();
	KEEP(p);
	return p;
}

static NOINLINE void free_stepped(void *p, int step)
{
	if (step)
		step_on();
	free(p);
	step_off();
}

static NOINLINE void *take_deeper(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&after_truth, n);
	return p;
}

/* Leaves malloc or free after its k-th recorder instruction. Returns whether there was one. */
static NOINLINE int leave_after(unsigned long k, int in_free)
{
	void *volatile p = in_free ? take_stepped(48, 0) : NULL;

	leave_at = k;
	seen = 0;
	if (sigsetjmp(back, 1)) {
		leave_at = 0;
		return 1;
	}
	attempts++;
	if (in_free)
		free_stepped(p, 1);
	else
		p = take_stepped(48, 1);
	leave_at = 0;
	completed++;
	if (!in_free)
		free(p);
	return 0;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	interrupted_init();
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	for (int in_free = 0; in_free < 2; in_free++) {
		int left = 1;
		for (unsigned long k = 1; left && k < 20000;
		     k += k < 400 ? 1 : (unsigned long)long_form(17, 1)) {
			left = leave_after(k, in_free);
			/* As shallow as what was left: the recorder notices. Then deeper ones count as ever. */
			void *p = take_stepped(16, 0);
			void *q = take_deeper(1000);
			free(q);
			truth_drop(&after_truth, 1000);
			take_deeper(10);
			free_stepped(p, 0);
		}
		CHECK(!left);
	}
	truth_print(&after_truth, "");
	say("EXPECT site=take_stepped kind=heap calls>=%lu calls<=%lu\n", attempts, attempts * 3);
	say("HEALTH_MAYBE abandoned_hooks\nHEALTH_MAYBE unknown_frees\nHEALTH_MAYBE repaired_blocks\n"
	    "HEALTH_MAYBE lost_details\n");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that after handlers have left the recorder by siglongjmp, what the very same function allocates at the very same
 * depth of the stack is recorded. (A handler that interrupts libc's malloc returns: it would not survive the jump.) */
#include "interrupted.h"
#include <setjmp.h>
#include <sys/time.h>

enum { KEPT = 1000, JUMPS = 60 };
static sigjmp_buf back;
static volatile int jumps;

static void on_alarm(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (interrupted_where(context) != IN_OTHER) {
		jumps++;
		siglongjmp(back, 1);
	}
	ualarm(100, 0);
}

static NOINLINE void jump_then_take(int by_calloc)
{
	static void *kept[KEPT];

	while (jumps < JUMPS) {
		if (sigsetjmp(back, 1))
			continue;
		ualarm(997, 0);
		for (;;) {
			void *p = by_calloc ? calloc(1, 64) : malloc(64);
			KEEP(p);
			free(p);
		}
	}
	ualarm(0, 0);
	for (int i = 0; i < KEPT; i++) {
		kept[i] = by_calloc ? calloc(7, 111) : malloc(777);
		KEEP(kept[i]);
	}
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO };

	interrupted_init();
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int by_calloc = 0; by_calloc < 2; by_calloc++) {
		jumps = 0;
		jump_then_take(by_calloc);
	}
	say("EXPECT site=jump_then_take kind=heap sizes:777=%d live_bytes>=%d\n", 2 * KEPT,
	    2 * KEPT * 777);
	say("HEALTH_MAYBE abandoned_hooks\nHEALTH_MAYBE unknown_frees\nHEALTH_MAYBE repaired_blocks\n"
	    "HEALTH_MAYBE lost_details\n");
	return 0;
}

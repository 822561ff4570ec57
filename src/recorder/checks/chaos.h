/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection, in the checking build only: with HEAPGAUGE_CHAOS=SEED in the environment, the recorder is delayed and
 * preempted at critical points, its lock waits time out, and memory and system calls fail. The program must not notice, and
 * everything not recorded must be counted.
 *
 * The seed determines the rate of each fault, and which thread gets it when; with the same seed and one thread, runs are
 * identical. */
#ifndef RECORDER_CHECKS_CHAOS_H
#define RECORDER_CHECKS_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/checks/check.h"

/* Rates, out of 65536. All 0: never. */
struct chaos {
	uint32_t delay;
	uint32_t busy;	/* a lock is not free at once */
	uint32_t lock;	/* waiting for it times out */
	uint32_t call;	/* a system call fails */
	uint32_t pages; /* memory cannot be opened */
};
extern struct chaos chaos;

/* For tests that inject one fault after another: the number of operations until
 * a fault, and then whether all further ones fail too. */
enum chaos_kind { CHAOS_LOCK, CHAOS_CALL, CHAOS_PAGES, CHAOS_KINDS };
struct chaos_schedule {
	uint64_t left; /* 0 = never */
	bool all;
};
extern struct chaos_schedule chaos_schedule[CHAOS_KINDS];

/* Reads the seed. At start-up, before anything else. */
void chaos_start(void);

/* Call before the program gives up system calls: from now on delays make none. */
void chaos_seccomp(void);

void chaos_delay(void);
/* Marks a point where another thread may intervene. */
#define CHAOS_DELAY()                                                                              \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			chaos_delay();                                                             \
	} while (0)

bool chaos_makes_busy(void);
bool chaos_refuses_lock(void);
bool chaos_refuses_pages(void);
/* The error of a system call to be skipped; 0: make the call. */
long chaos_refuses_call(long number);
#endif

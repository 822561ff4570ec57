/* SPDX-License-Identifier: Apache-2.0 */
/* Chaos, in the checking build alone: with HEAPGAUGE_CHAOS=SEED in its environment a program's recorder is delayed and loses its
 * processor where it hurts, waits in vain for locks, and is refused memory and system calls. The program must not notice, and
 * what is not recorded must be counted.
 *
 * The seed decides how much of each there is, and which thread meets it when; with the same seed and one thread it is the same
 * each time. */
#ifndef RECORDER_CHECKS_CHAOS_H
#define RECORDER_CHECKS_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/checks/check.h"

/* How often, of 65536. All 0: never. */
struct chaos {
	uint32_t delay;
	uint32_t busy;	/* a lock is not free at once */
	uint32_t lock;	/* it is waited for in vain */
	uint32_t call;	/* a system call fails */
	uint32_t pages; /* memory is not opened */
};
extern struct chaos chaos;

/* For tests that refuse one thing after another: what is left until one is refused, and then either all or no more. */
enum chaos_kind { CHAOS_LOCK, CHAOS_CALL, CHAOS_PAGES, CHAOS_KINDS };
struct chaos_turn {
	uint64_t left; /* 0 = never */
	bool all;
};
extern struct chaos_turn chaos_turn[CHAOS_KINDS];

/* Reads the seed. At start-up, before anything else. */
void chaos_start(void);

/* The program is about to give up system calls: from now on delays make none. */
void chaos_seal(void);

void chaos_delay(void);
/* Where another thread may come in between. */
#define CHAOS_DELAY()                                                                              \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			chaos_delay();                                                             \
	} while (0)

bool chaos_makes_busy(void);
bool chaos_refuses_lock(void);
bool chaos_refuses_pages(void);
/* The error of a system call that is not made; 0: it is made. */
long chaos_refuses_call(long number);
#endif

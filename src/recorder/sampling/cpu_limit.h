/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU limit of sampling, if the user set one: a share of the process' CPU time. The interval is doubled while
 * samples take more, and halved while they take much less; never below the requested interval. Powers of two, because
 * each interval has its own sites. */
#ifndef RECORDER_SAMPLING_CPU_LIMIT_H
#define RECORDER_SAMPLING_CPU_LIMIT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "recorder/arch/arch.h"
#include "recorder/memory.h"

extern HIDDEN bool cpu_limit_is_set;
extern HIDDEN uint32_t cpu_limit_doublings;

void cpu_limit_start(void);

/* False: reading the time-stamp counter would be a signal (PR_SET_TSC). */
bool counter_is_readable(void);

/* Call before the program disables the time-stamp counter: we must not read it either. */
void cpu_limit_stop(void);

void cpu_limit_spent(uint64_t ticks);

/* Put these around the cost of a sample. Ticks of the time-stamp counter: no system call, and fine-grained. */
static ALWAYS_INLINE uint64_t cpu_limit_now(void)
{
	return UNLIKELY(cpu_limit_is_set) ? arch_ticks() : 0;
}
static ALWAYS_INLINE void cpu_limit_took_since(uint64_t then)
{
	if (UNLIKELY(then != 0))
		cpu_limit_spent(arch_ticks() - then);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops all threads of another process by ptrace, and lets them go on as if nothing had happened: system calls that the kernel restarts
 * after a stop are restarted. If the caller dies meanwhile, the kernel lets the threads go on. All calls must be made by one thread, and
 * it must end after a failure: only then are threads that did not stop in time traced no more.
 */
#ifndef COLLECT_TRACE_STOP_H
#define COLLECT_TRACE_STOP_H

#include <sys/types.h>

#include "util/error.h"
#include "util/vector.h"

struct stopped_thread {
	pid_t tid;
	uint64_t stack_pointer;
	uint64_t thread_pointer;    /* 0: unknown */
	size_t word_at, word_count; /* its registers, in struct stopped */
};
struct stopped {
	pid_t pid;
	uint64_t began_ns; /* CLOCK_MONOTONIC; of the first stop */
	VECTOR(struct stopped_thread) threads;
	VECTOR(uint64_t) words; /* registers that may hold pointers */
};

/* -1 with error set: it may not be stopped, has ended, or a thread did not stop in time; then the others run again. */
int stop_all(pid_t pid, struct stopped *ret, struct error *error);
/* Lets all threads continue and releases everything. All zero is a no-op. Returns for how long they were stopped. */
uint64_t stop_resume(struct stopped *stopped);

/* One of them only. */
void stop_thread_resume(pid_t tid);

/* Waits until a traced thread stops or ends. False: not in time. */
bool stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status);

#endif

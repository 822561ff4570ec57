/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls in a stopped thread of another process. The thread runs the one instruction `syscall`, and its state is put back, so that
 * the kernel restarts the call that the stop interrupted.
 *
 * If the caller dies in between, the thread heals itself: the instruction after `syscall` returns to a signal frame below its stack, which
 * restores its registers and its signal mask. Then the interrupted call may report EINTR, which is all that the program sees.
 */
#ifndef COLLECT_TRACE_REMOTE_CALL_H
#define COLLECT_TRACE_REMOTE_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/error.h"

enum {
	REMOTE_STACK_BYTES =
		32 << 10, /* written below the stack at most; space that the program does not use */
	REMOTE_EXIT_STATUS = 167, /* of a copy that ends itself */
};

/* Instructions of the process. Pages are read that may have to be fetched first: it should not be stopped then. */
struct remote_code {
	uint64_t syscall_return; /* `syscall`, `ret` */
	uint64_t signal_return;	 /* the end of a signal handler: rt_sigreturn */
};
int remote_code_find(pid_t pid, struct remote_code *ret, struct error *error);

/* Whether a seccomp filter, or strict mode, decides about the system calls of the thread. */
bool remote_has_filter(pid_t tid);

struct remote_thread;
/* Changes the registers of a thread that is in a PTRACE_EVENT_STOP. NULL with error set: this thread cannot be used. */
struct remote_thread *remote_begin(pid_t pid, pid_t tid, const struct remote_code *code,
				   struct error *error);
/* The result as the kernel returns it: a negative errno on failure. -1 with error set if the thread has ended, or the call does not return. A clone's copy is traced by
 * the caller and stopped; *ret_child is its pid. ret_child may be NULL. */
int remote_call(struct remote_thread *thread, const uint64_t words[static 7], int64_t *ret,
		pid_t *ret_child, struct error *error);
/* Restores the thread, which stays stopped, and releases. False: it is still in the call, or has ended; it restores itself. */
bool remote_end(struct remote_thread *thread);

/* Where the copy made by clone(2) continues if it is ever let go: it exits. The second argument of clone. */
uint64_t remote_exit_stack(const struct remote_thread *thread);

#endif

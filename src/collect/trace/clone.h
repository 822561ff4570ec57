/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a stopped process, made by a clone system call in one of its threads: it has the memory of that moment and never runs an
 * instruction, while the process goes on. The program does not notice it: its waits and its SIGCHLD handler see no children of this
 * kind, and no handler of fork runs. Only for x86-64. All calls must be made by the thread that stopped the process.
 */
#ifndef COLLECT_TRACE_CLONE_H
#define COLLECT_TRACE_CLONE_H

#include "collect/trace/leftovers.h"
#include "collect/trace/remote_call.h"
#include "collect/trace/stop.h"

struct process_clone {
	pid_t pid;     /* 0: none */
	pid_t own_pid; /* in the namespace of the target */
	pid_t parent;  /* the target */
	struct remote_code code;
	leftover_list leftovers; /* of earlier copies, while clone_end runs */
	unsigned collected;	 /* of these */
};

/* -1 with error set: the reason why it must not, or cannot, be cloned. To be called before the process is stopped, by any thread. */
int clone_prepare(pid_t pid, struct process_clone *ret, struct error *error);
/* -1 with error set: it cannot be cloned; it is stopped as before. */
int clone_make(const struct stopped *stopped, struct process_clone *clone, struct error *error);
/* Kills the copy and waits until the kernel has released its memory, however long that takes. */
void clone_kill(struct process_clone *clone);
/* Ends the copy and makes the process collect its status, and those of copies whose tracer was killed; for that it is stopped shortly.
 * -1 with error set: a zombie remains. Without a copy a no-op. */
int clone_end(struct process_clone *clone, struct error *error);

#endif

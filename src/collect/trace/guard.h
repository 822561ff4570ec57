/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that reads the memory of another process and traces it. A page may be provided by a program (userfaultfd, FUSE), and a read of it
 * waits for that program, which may be the one that is stopped. So one thread reads, another one traces and never reads such a page, and
 * the caller watches both: if the reader hangs, the tracer lets the process go.
 */
#ifndef COLLECT_TRACE_GUARD_H
#define COLLECT_TRACE_GUARD_H

#include <stdbool.h>

#include "util/error.h"

struct guard;
struct guarded_work {
	/* In the reading thread. -1 with error set. */
	int (*read)(struct guard *guard, void *context, struct error *error);
	/* In the tracing thread, always, as the last thing there: lets the process go. */
	void (*let_go)(void *context);
	/* In the calling thread, ten times a second: whether the process has ended. Then it is let go at once, and steps fail. NULL: it does
	 * not matter. */
	bool (*has_ended)(void *context);
	void *context;
};
enum { GUARD_HANGS = -2 };
/* Returns what `read` does, or GUARD_HANGS with error set: then the context is still in use, for ever. */
int guard_run(const struct guarded_work *work, struct error *error);

/* For `read`: calls `step` in the tracing thread. -1 with error set. */
typedef int guard_step(void *context, struct error *error);
int guard_trace(struct guard *guard, guard_step *step, struct error *error);
/* The same for a step that may wait for a long time, and stops nothing: it is not taken for a hang. */
int guard_trace_patiently(struct guard *guard, guard_step *step, struct error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not shown the token or the cookie yet. Anybody on this machine can open as many as there may be and let each
 * request drip, byte by byte; so beyond some number the oldest stranger goes when a new one comes, and who has the token always
 * gets in. Any thread.
 */
#ifndef SERVE_STRANGERS_H
#define SERVE_STRANGERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct stranger {
	int fd;
	bool listed; /* false once it is known, or has been sent away */
	struct stranger *older, *newer;
};

struct strangers {
	pthread_mutex_t lock;
	struct stranger *oldest, *newest;
	size_t count, limit;
};

void strangers_init(struct strangers *strangers, size_t limit);
void strangers_release(struct strangers *strangers);

/* A connection has come; may send the oldest away. The entry is its caller's until strangers_leave. NULL if out of memory. */
struct stranger *strangers_enter(struct strangers *strangers, int fd);
/* It has shown who it is, and may stay. `stranger` may be NULL. */
void strangers_know(struct strangers *strangers, struct stranger *stranger);
/* Its connection ends; before the descriptor is closed. `stranger` may be NULL. */
void strangers_leave(struct strangers *strangers, struct stranger *stranger);

#endif

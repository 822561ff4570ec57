/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not shown the token or the cookie yet. Anybody on this machine can open as many as there may be and let each
 * request drip, byte by byte; so beyond some number the oldest is closed when a new one comes, and whoever has the token
 * always gets in. Any thread.
 */
#ifndef SERVE_STRANGERS_H
#define SERVE_STRANGERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct unauthenticated_connection {
	int fd;
	bool listed; /* false once it is known, or has been sent away */
	struct unauthenticated_connection *older, *newer;
};

struct unauthenticated {
	pthread_mutex_t lock;
	struct unauthenticated_connection *oldest, *newest;
	size_t count, limit;
};

void unauthenticated_init(struct unauthenticated *list, size_t limit);
void unauthenticated_release(struct unauthenticated *list);

/* A connection has come; may send the oldest away. The entry is its caller's until unauthenticated_remove. NULL if out of memory. */
struct unauthenticated_connection *unauthenticated_add(struct unauthenticated *list, int fd);
/* It has shown who it is, and may stay. `connection` may be NULL. */
void unauthenticated_admit(struct unauthenticated *list,
			   struct unauthenticated_connection *connection);
/* Its connection ends; before the descriptor is closed. `connection` may be NULL. */
void unauthenticated_remove(struct unauthenticated *list,
			    struct unauthenticated_connection *connection);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not sent a valid token or cookie yet. Any user of this machine can open as many as the
 * limit allows and send each request byte by byte; so beyond a certain number a new connection closes the oldest,
 * and a client with the token always gets in. Any thread.
 */
#ifndef SERVE_STRANGERS_H
#define SERVE_STRANGERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct unauthenticated_connection {
	int fd;
	bool listed; /* false once it is authenticated or was dropped */
	struct unauthenticated_connection *older, *newer;
};

struct unauthenticated {
	pthread_mutex_t lock;
	struct unauthenticated_connection *oldest, *newest;
	size_t count, limit;
};

void unauthenticated_init(struct unauthenticated *list, size_t limit);
void unauthenticated_release(struct unauthenticated *list);

/* Adds a new connection, and may drop the oldest. The caller keeps the entry until unauthenticated_remove. NULL
 * if out of memory. */
struct unauthenticated_connection *unauthenticated_add(struct unauthenticated *list, int fd);
/* The connection is authenticated and may stay. `connection` may be NULL. */
void unauthenticated_admit(struct unauthenticated *list,
			   struct unauthenticated_connection *connection);
/* The connection ends; call before its descriptor is closed. `connection` may be NULL. */
void unauthenticated_remove(struct unauthenticated *list,
			    struct unauthenticated_connection *connection);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list ordered by age. A connection is dropped by shutdown() of its socket: its own thread sees the end of the
 * stream and closes it. An entry is listed only while its descriptor is open, because unauthenticated_remove is
 * called before the descriptor is closed; so a reused descriptor is never shut down.
 */
#include "serve/unauthenticated.h"

#include <stdlib.h>
#include <sys/socket.h>

void unauthenticated_init(struct unauthenticated *s, size_t limit)
{
	*s = (struct unauthenticated){ .limit = limit };
	pthread_mutex_init(&s->lock, NULL);
}

void unauthenticated_release(struct unauthenticated *s)
{
	pthread_mutex_destroy(&s->lock);
}

/* Call with the lock held. */
static void take_out(struct unauthenticated *s, struct unauthenticated_connection *one)
{
	if (!one->listed)
		return;
	*(one->older ? &one->older->newer : &s->oldest) = one->newer;
	*(one->newer ? &one->newer->older : &s->newest) = one->older;
	one->listed = false;
	s->count--;
}

struct unauthenticated_connection *unauthenticated_add(struct unauthenticated *s, int fd)
{
	struct unauthenticated_connection *one = calloc(1, sizeof *one);

	if (!one)
		return NULL;
	pthread_mutex_lock(&s->lock);
	*one = (struct unauthenticated_connection){ .fd = fd, .listed = true, .older = s->newest };
	*(s->newest ? &s->newest->newer : &s->oldest) = one;
	s->newest = one;
	if (++s->count > s->limit) {
		struct unauthenticated_connection *oldest = s->oldest;

		take_out(s, oldest);
		shutdown(oldest->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&s->lock);
	return one;
}

void unauthenticated_admit(struct unauthenticated *s, struct unauthenticated_connection *one)
{
	if (!one)
		return;
	pthread_mutex_lock(&s->lock);
	take_out(s, one);
	pthread_mutex_unlock(&s->lock);
}

void unauthenticated_remove(struct unauthenticated *s, struct unauthenticated_connection *one)
{
	unauthenticated_admit(s, one);
	free(one);
}

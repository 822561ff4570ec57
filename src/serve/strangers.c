/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list by age. A connection is sent away by shutting its socket down: its own thread sees the end, and closes. An entry is in the list
 * only while its descriptor is open, because whoever closes it calls strangers_leave before: so nobody else's
 * connection is ever shut down.
 */
#include "serve/strangers.h"

#include <stdlib.h>
#include <sys/socket.h>

void strangers_init(struct strangers *s, size_t limit)
{
	*s = (struct strangers){ .limit = limit };
	pthread_mutex_init(&s->lock, NULL);
}

void strangers_release(struct strangers *s)
{
	pthread_mutex_destroy(&s->lock);
}

/* Under the lock. */
static void take_out(struct strangers *s, struct stranger *one)
{
	if (!one->listed)
		return;
	*(one->older ? &one->older->newer : &s->oldest) = one->newer;
	*(one->newer ? &one->newer->older : &s->newest) = one->older;
	one->listed = false;
	s->count--;
}

struct stranger *strangers_enter(struct strangers *s, int fd)
{
	struct stranger *one = calloc(1, sizeof *one);

	if (!one)
		return NULL;
	pthread_mutex_lock(&s->lock);
	*one = (struct stranger){ .fd = fd, .listed = true, .older = s->newest };
	*(s->newest ? &s->newest->newer : &s->oldest) = one;
	s->newest = one;
	if (++s->count > s->limit) {
		struct stranger *oldest = s->oldest;

		take_out(s, oldest);
		shutdown(oldest->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&s->lock);
	return one;
}

void strangers_know(struct strangers *s, struct stranger *one)
{
	if (!one)
		return;
	pthread_mutex_lock(&s->lock);
	take_out(s, one);
	pthread_mutex_unlock(&s->lock);
}

void strangers_leave(struct strangers *s, struct stranger *one)
{
	strangers_know(s, one);
	free(one);
}

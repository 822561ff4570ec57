/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. Everybody on the machine can reach the port, and so can every web page that its user looks
 * at; so a visitor needs
 *
 *   - the token of the printed URL, once: it becomes a cookie that scripts cannot read, and that the browser
 *     does not send along with what other sites start;
 *   - a Host that is ours, because a stranger's name can be made to point to 127.0.0.1;
 *   - no Origin but our own.
 *
 * Texts come as the request has them, NULL where it has none. No I/O. Any thread.
 */
#ifndef SERVE_GUARD_H
#define SERVE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

enum { GUARD_SECRET_BYTES = 33 }; /* 128 random bits in hex, and the NUL */

struct guard {
	char cookie_name[24]; /* of this server: cookies do not know ports */
	char cookie[GUARD_SECRET_BYTES];
	char token[GUARD_SECRET_BYTES];
	char once[GUARD_SECRET_BYTES];
	atomic_bool once_used; /* any thread; alone decides who was first */
	const char *host;      /* what the user called us; the caller's */
	bool any_address;      /* we listen on all of them: any number may be our name */
};

struct guard_request {
	const char *path;
	const char *host, *origin, *fetch_site, *cookie, *token;
};

enum guard_verdict {
	GUARD_PASS,
	GUARD_ENTER,	/* a right token: give the cookie, and go on without the token */
	GUARD_STRANGER, /* no cookie, or a wrong one */
	GUARD_FOREIGN,	/* asked under another name, or by another site */
};

/* False if there are no random numbers. */
bool guard_init(struct guard *guard, const char *host, bool any_address);
enum guard_verdict guard_check(struct guard *guard, const struct guard_request *request);

/* 128 random bits in hex. False if the kernel gives none. */
bool guard_secret(char secret[GUARD_SECRET_BYTES]);

#endif

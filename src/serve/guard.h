/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control. Every user of the machine can connect to the port, and so can every web page that they open; so a
 * client needs
 *
 *   - the token of the printed URL, once: it is exchanged for a cookie that scripts cannot read, and that the
 *     browser does not send with requests from other sites;
 *   - a Host header with our name, because an attacker's name can resolve to 127.0.0.1;
 *   - no Origin but our own.
 *
 * A server for programs (an API) has no page and no cookie: a client sends a token that the user chose, or it runs as this
 * user or root on this machine and has our Host and no Origin, which a web page always sends.
 *
 * Strings are the headers of the request, NULL where absent. No I/O. Any thread.
 */
#ifndef SERVE_GUARD_H
#define SERVE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

enum { GUARD_SECRET_BYTES = 33 }; /* 128 random bits in hex, and the NUL */

struct guard {
	char cookie_name[24]; /* unique to this server: cookies ignore ports */
	char cookie[GUARD_SECRET_BYTES];
	char token[GUARD_SECRET_BYTES];
	char once[GUARD_SECRET_BYTES];
	atomic_bool once_used; /* any thread; the exchange decides which request was first */
	const char *host;      /* the name or address that the user gave; owned by the caller */
	bool any_address;      /* we listen on all addresses: any IP address may be our Host */
	const char *bearer;    /* of an API; NULL: no token is valid; owned by the caller */
};

struct guard_request {
	const char *path;
	const char *host, *origin, *fetch_site, *cookie, *token;
	const char *authorization;
	bool own_user; /* the client runs as this user or root, on this machine */
};

enum guard_verdict {
	GUARD_PASS,
	GUARD_ENTER, /* the token is right: set the cookie, and redirect to the URL without the token */
	GUARD_NO_COOKIE,  /* no cookie, or a wrong one */
	GUARD_CROSS_SITE, /* another Host, or a request from another site */
};

/* Returns false if the kernel provides no random numbers. */
bool guard_init(struct guard *guard, const char *host, bool any_address);
enum guard_verdict guard_check(struct guard *guard, const struct guard_request *request);
/* The same for an API; never GUARD_ENTER. */
enum guard_verdict guard_check_api(const struct guard *guard, const struct guard_request *request);

/* Writes 128 random bits in hex. Returns false if the kernel provides none. */
bool guard_secret(char secret[GUARD_SECRET_BYTES]);

#endif

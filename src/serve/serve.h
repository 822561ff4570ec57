/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A web server for one user on one machine: a page, and responses to the page's requests.
 *
 * It handles HTTP and access control (guard.h), and knows nothing about queries: each permitted request goes to the
 * handler, one at a time, and responses that the handler marks as cacheable are cached. It listens on one address
 * or socket only, and opens no connections itself.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/error.h"

/* A decoded parameter. A name may occur more than once; a value is never NULL. */
struct serve_param {
	const char *name, *value;
};
struct serve_request {
	const char *path;
	const struct serve_param *params; /* in the order of the URL */
	size_t param_count;
	const char *nonce;  /* only scripts and styles with this nonce may run */
	const char *accept; /* the Accept header; never NULL */
};

struct serve_answer {
	unsigned status;  /* 200 by default */
	const char *type; /* of the body, one of those in reply.h; NULL: JSON */
	bool keep;	  /* cacheable: the same request always gets this response */
	struct buffer body;
};

/* Called on any thread; one call at a time, unless the server is an API. */
typedef void serve_handler(void *context, const struct serve_request *request,
			   struct serve_answer *answer);

/* Sets the response to {"error": "..."}. */
void serve_refuse(struct serve_answer *answer, unsigned status, const char *format, ...)
	PRINTF_LIKE(3, 4);

struct serve_options {
	const char *host;	 /* an address or a name; NULL: 127.0.0.1 */
	uint16_t port;		 /* 0: a free one */
	const char *socket_path; /* a Unix socket instead; NULL: none */
	bool is_api;	    /* for programs: a token of the user's instead of a cookie: guard.h */
	const char *bearer; /* that token; NULL: none, only this user and root may ask */
	const char *public_path; /* that anybody may ask; NULL: none */
	serve_handler *handler;
	void *context;
};

struct server;

/* Starts to answer requests. Returns NULL with the error set if the address cannot be bound. */
struct server *serve_start(const struct serve_options *options, struct error *error);
/* Waits for requests in progress. */
void serve_stop(struct server *server);

/* Returns the URL to open, with the token. With a Unix socket, only the part after the host, which depends on
 * how the socket is forwarded. */
const char *serve_url(const struct server *server);
/* Returns a URL that is valid for one visit, for places where others might see it, such as a command line. */
const char *serve_url_once(const struct server *server);
/* Returns the TCP port; 0: a Unix socket. */
uint16_t serve_port(const struct server *server);
/* Whether other machines can connect to it. */
bool serve_is_public(const struct server *server);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A web server for one person on one machine: a page, and answers to what the page asks.
 *
 * It knows HTTP and who may ask (guard.h), and nothing of questions: each request that may pass goes to
 * the handler, by one thread at a time, and what it says may be kept is not asked again. It listens on one
 * address or socket and nowhere else, and talks to nobody by itself.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/error.h"

/* What was asked, decoded: a name may come more than once; a value is never NULL. */
struct serve_param {
	const char *name, *value;
};
struct serve_request {
	const char *path;
	const struct serve_param *params; /* in the order of the URL */
	size_t param_count;
	const char *nonce; /* scripts and styles of a page run only with this one */
};

struct serve_answer {
	unsigned status; /* 200 unless it is changed */
	bool is_page;	 /* HTML; else JSON */
	bool keep;	 /* the same question will always have this answer */
	struct buffer body;
};

/* Any thread, but one at a time. */
typedef void serve_handler(void *context, const struct serve_request *request,
			   struct serve_answer *answer);

/* Makes the answer {"error": "..."}. */
void serve_refuse(struct serve_answer *answer, unsigned status, const char *format, ...)
	PRINTF_LIKE(3, 4);

struct serve_options {
	const char *host;	 /* an address or a name; NULL: 127.0.0.1 */
	uint16_t port;		 /* 0: a free one */
	const char *socket_path; /* a Unix socket instead; NULL: none */
	serve_handler *handler;
	void *context;
};

struct server;

/* Answers from here on. NULL, with the error set, if the address cannot be bound. */
struct server *serve_start(const struct serve_options *options, struct error *error);
/* Waits for what is being answered. */
void serve_stop(struct server *server);

/* What to open, token and all. With a socket, the part behind the host: whoever forwards it chooses that. */
const char *serve_url(const struct server *server);
/* The same, but good for one visit only: for where others might see it, such as a command line. */
const char *serve_url_once(const struct server *server);
/* Where TCP listens; 0: a socket. */
uint16_t serve_port(const struct server *server);
/* Whether other machines can reach it. */
bool serve_is_public(const struct server *server);

#endif

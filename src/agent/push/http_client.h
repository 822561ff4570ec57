/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts bytes to one URL with libcurl, which is loaded when the first client is created: it depends on a TLS library, whose
 * start-up would cost every other command more than its own. Follows no redirect, uses no proxy but the given one, and reads no
 * settings from the environment or from files but those named in the options. No message contains a token or password.
 */
#ifndef AGENT_PUSH_HTTP_CLIENT_H
#define AGENT_PUSH_HTTP_CLIENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/span.h"
#include "util/error.h"

/* All but url and content_type may be NULL. The texts are not copied. */
struct http_client_options {
	const char *url; /* http: or https:, without user and password */
	const char *content_type;
	const char *tenant; /* header X-Scope-OrgID */
	const char
		*token_file; /* bearer token; read for each request, because tokens are rotated */
	const char *user,
		*password_file; /* basic authentication; the file is read for each request */
	const char *ca_file;	/* PEM; instead of the system's certificates */
	const char *certificate_file, *key_file; /* PEM, of the client */
	const char *proxy;			 /* URL */
	uint32_t connect_timeout_ms, timeout_ms; /* 0: 10 s and 30 s */
};

enum http_outcome {
	HTTP_ANSWERED, /* see status */
	HTTP_NETWORK,  /* not connected, or no answer */
	HTTP_TLS,      /* not the expected peer, or our certificate is not valid */
	HTTP_LOCAL,    /* a file of the options could not be read */
	HTTP_STOPPED,
};

#define HTTP_REPLY_BYTES 256

struct http_reply {
	enum http_outcome outcome;
	int status;
	uint64_t retry_after_s; /* 0: not given */
	/* The start of the body, or the error; printable. */
	char message[HTTP_REPLY_BYTES];
};

struct http_client;

/* Fails if an option is not valid or libcurl cannot be loaded. Not thread-safe: the library's start-up is not. */
struct http_client *http_client_new(const struct http_client_options *options, struct error *err);
/* NULL is fine. */
void http_client_free(struct http_client *client);

/* Sends the body and waits for the answer, at most a second longer than until *stop becomes true. One thread at a time. */
struct http_reply http_client_post(struct http_client *client, struct span body,
				   const atomic_bool *stop);

#endif

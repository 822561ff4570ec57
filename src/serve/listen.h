/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets a server can listen on. Each is made here and by explicit address: none is ever open to all by default. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

enum listen_reach {
	LISTEN_HERE,   /* this machine alone */
	LISTEN_OTHERS, /* an address that others may reach */
	LISTEN_ANY,    /* every address that this machine has */
};

/* Listens on the host's first address. Port 0: a free one. The descriptor, or -1 with the error set. */
int listen_tcp(const char *host, uint16_t port, uint16_t *ret_port, enum listen_reach *ret_reach,
	       struct error *error);

/* A Unix socket that only its owner may use. What an ended server left at the path is replaced; nothing else is. */
int listen_unix(const char *path, struct error *error);

#endif

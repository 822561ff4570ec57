/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets a server can listen on. Each binds an explicit address: none is open to everybody by default. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

enum listen_reach {
	LISTEN_HERE,   /* this machine only */
	LISTEN_OTHERS, /* an address that other machines may reach */
	LISTEN_ANY,    /* every address of this machine */
};

/* Listens on the first address of the host. Port 0: a free one. Returns the descriptor, or -1 with the error
 * set. */
int listen_tcp(const char *host, uint16_t port, uint16_t *ret_port, enum listen_reach *ret_reach,
	       struct error *error);

/* Listens on a Unix socket that only its owner may use. Replaces the stale socket of an ended server, and
 * nothing else. */
int listen_unix(const char *path, struct error *error);

#endif

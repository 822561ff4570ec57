/* SPDX-License-Identifier: Apache-2.0 */
/* The user at the other end of a connection of this machine. */
#ifndef SERVE_PEER_H
#define SERVE_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Of a Unix socket, or of a TCP connection whose other end is a socket of this network namespace. False: it is elsewhere, or not
 * known. */
bool peer_user(int fd, uid_t *ret);

#endif

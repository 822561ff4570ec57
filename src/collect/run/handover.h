/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over: a socket to which recorders send the descriptor of their profile, and a folder for those that cannot. A
 * process that presents the recording's secret belongs to it; only snapshot requests are answered.
 */
#ifndef COLLECT_RUN_HANDOVER_H
#define COLLECT_RUN_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/live/live.h"
#include "util/error.h"

/* Two listening sockets with the same name: an abstract one, which needs no shared file system, and a file, which can be
 * reached from another network namespace. */
enum { LISTENER_SOCKETS = 2 };
struct listener {
	int fd[LISTENER_SOCKETS];     /* -1 = closed; the file's also if it could not be created */
	char name[LIVE_SOCKET_BYTES]; /* "@" followed by the file's path */
	char folder
		[LIVE_SOCKET_BYTES]; /* on a tmpfs, used by this recording only; "" = it has none */
	struct live_secret secret;
	int descriptors; /* RLIMIT_NOFILE; 0 = not read yet */
	bool is_tight;	 /* more than half of them have been in use */
};
#define LISTENER_INIT ((struct listener){ .fd = { -1, -1 } })
int listener_open(struct listener *listener, struct error *error);
/* Opens the socket for requests about one process, whose name is derived from its pid; abstract only. `secret` is that of the
 * process' profile. Stays closed if the name is in use. */
void listener_open_for(struct listener *listener, pid_t pid, struct live_secret secret);
void listener_name_for(char name[static LIVE_SOCKET_BYTES], pid_t pid);
/* Removes the socket and the folder. */
void listener_close(struct listener *listener);

/* Accepts one connection from our own user (from any user, if root). -1: none is waiting. ret_pid_fd: -1 = unknown. */
int handover_accept(int listening, pid_t *ret_pid, int *ret_pid_fd);
/* Whether the peer is root, our own user, or `user` as in live_profile.user. Used where there is no secret. */
bool handover_is_from(int connection, uint32_t user);

/* Whether `needed` descriptors are free. Without them a received descriptor would be lost, so the message stays queued. */
enum { HANDOVER_NEEDED = 8 }; /* per process, plus some for concurrent file reads */
bool handover_has_room(struct listener *listener, size_t needed);

enum handover_state {
	HANDOVER_WAIT,
	HANDOVER_HELLO,
	HANDOVER_LOST, /* a hello whose descriptor could not be received */
	HANDOVER_REQUEST,
	HANDOVER_BAD
};
union handover_message {
	struct live_hello hello;
	struct live_request request;
};
/* Receives a recorder's hello with its descriptor (-1 = none), or a request. WAIT: no message yet. BAD: the peer has closed the
 * connection, or the message or its secret is not valid. */
enum handover_state handover_receive(int connection, const struct live_secret *secret,
				     union handover_message *ret, int *ret_fd);
/* Answers a request. */
void handover_answer(int connection, bool granted);

#endif

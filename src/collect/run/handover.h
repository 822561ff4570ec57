/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over: a socket on which recorders leave the descriptor of their profile, and a folder for those who cannot. Whoever
 * shows the recording's secret belongs to it; nobody is answered but those who ask for a snapshot.
 */
#ifndef COLLECT_RUN_HANDOVER_H
#define COLLECT_RUN_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/live/live.h"
#include "util/error.h"

/* Two listening sockets of one name: an abstract one, which needs no file system that both sides see, and a file, which
 * can be reached from another network name space. */
enum { LISTENER_SOCKETS = 2 };
struct listener {
	int fd[LISTENER_SOCKETS];     /* -1 = closed; the file's also if there could be none */
	char name[LIVE_SOCKET_BYTES]; /* "@" and the file's path */
	char folder
		[LIVE_SOCKET_BYTES]; /* on a tmpfs, of this recording alone; "" = there is none */
	struct live_secret secret;
	int descriptors; /* the limit of them; 0 = not asked yet */
	bool is_tight;	 /* more than half of them were in use once */
};
#define LISTENER_INIT ((struct listener){ .fd = { -1, -1 } })
int listener_open(struct listener *listener, struct error *error);
/* The one where whoever has taken that process over can be asked, under a name that follows from its number; abstract alone.
 * `secret` is that of the process' profile. Where somebody else has the name, it stays closed. */
void listener_open_for(struct listener *listener, pid_t pid, struct live_secret secret);
void listener_name_for(char name[static LIVE_SOCKET_BYTES], pid_t pid);
/* Removes socket and folder. */
void listener_close(struct listener *listener);

/* Accepts one connection of our own user (or of anybody, for root). -1: there is none to accept now. ret_pid_fd: -1 = not known. */
int handover_accept(int listening, pid_t *ret_pid, int *ret_pid_fd);
/* Whether it is of root, of ourselves, or of that user, as live_profile.user has it: for where there is no secret. */
bool handover_is_from(int connection, uint32_t user);

/* Whether so many descriptors are free: what is sent while they are not is lost, so it is left in the queue. */
enum { HANDOVER_NEEDED = 8 }; /* for a process, with some for who reads files meanwhile */
bool handover_has_room(struct listener *listener, size_t needed);

enum handover_state {
	HANDOVER_WAIT,
	HANDOVER_HELLO,
	HANDOVER_LOST, /* a hello whose descriptor could not be taken */
	HANDOVER_REQUEST,
	HANDOVER_BAD
};
union handover_message {
	struct live_hello hello;
	struct live_request request;
};
/* Takes the hello of a recorder, with its descriptor (-1 = none), or the request of somebody else. WAIT: it has not come yet.
 * BAD: it never will, or it is of a stranger. */
enum handover_state handover_receive(int connection, const struct live_secret *secret,
				     union handover_message *ret, int *ret_fd);
/* The answer to a request. */
void handover_answer(int connection, bool granted);

#endif

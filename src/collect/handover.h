/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over: a socket that recorders connect to, and the memory they are given. The collector makes and sizes the
 * memory, so that the target never resizes a file, and holds it, so that it outlives the target.
 */
#ifndef COLLECT_HANDOVER_H
#define COLLECT_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/live.h"
#include "util/error.h"

/* Two listening sockets of one name: an abstract one, which needs no file system that both sides see, and a file, which
 * can be reached from another network name space. `name` is what LIVE_ENV_SOCKET says: "@" and the file's path. */
enum { LISTENER_SOCKETS = 2 };
struct listener {
	int fd[LISTENER_SOCKETS]; /* -1 = closed; the file's also if there could be none */
	char name[64];
};
#define LISTENER_INIT ((struct listener){ .fd = { -1, -1 } })
int listener_open(struct listener *listener, struct error *error);
/* The one where whoever has taken that process over can be asked, under a name that follows from its number; abstract alone. */
int listener_open_for(struct listener *listener, pid_t pid, struct error *error);
void listener_name_for(char name[64], pid_t pid);
void listener_close(struct listener *listener);

/* The memory of one process. */
struct profile {
	void *memory; /* read-only here */
	uint64_t bytes;
	struct live_control *control;
	int memory_fd, control_fd; /* -1 once they were handed over */
};
#define PROFILE_INIT ((struct profile){ .memory_fd = -1, .control_fd = -1 })
/* address_limit as in live_hello; collector: the listener's name, for those who look into the process. */
int profile_make(struct profile *profile, uint64_t address_limit, const char *collector,
		 struct error *error);
void profile_release(struct profile *profile);
/* The number by which /proc/PID/maps names its memory; before it is handed over. */
uint64_t profile_inode(const struct profile *profile);

/* Accepts one connection of our own user (or of anybody, for root). -1: there is none to accept now. */
int handover_accept(int listening, pid_t *ret_pid);

enum handover_state { HANDOVER_WAIT, HANDOVER_HELLO, HANDOVER_REQUEST, HANDOVER_BAD };
union handover_message {
	struct live_hello hello;
	struct live_request request;
};
/* Takes the hello of a recorder, or the request of somebody else, from a connection. WAIT: it has not come yet. BAD: it never
 * will. */
enum handover_state handover_receive(int connection, union handover_message *ret);
/* The answer to a request. */
void handover_reply(int connection, bool granted);

/* Answers with the memory and closes the collector's descriptors of it; profile NULL: "not recorded". */
int handover_answer(int connection, struct profile *profile, struct error *error);

#endif

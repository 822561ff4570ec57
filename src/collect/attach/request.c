/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live profile of a process contains the name of its collector's socket; a collector that attached to a process listens on
 * a name derived from its pid. Anybody who can connect may send a request, which is handled in the loop's next iteration
 * without involving the recorded process. A collector in a container has its socket, and its pids, there.
 *
 * No state. Any thread.
 */
#include "collect/attach/request.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "collect/run/handover.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/recorded_processes.h"
#include "format/live/live.h"
#include "util/cleanup.h"

enum {
	TIMEOUT_MS = 5000,
	OVERFLOW_UID = 65534, /* users without a mapping in this user namespace */
};

/* Any user can listen on a predictable name: trusts only root and our own user, and, if we are root, the user of the process. */
static bool is_trusted(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.uid == OVERFLOW_UID)
		return false;
	return peer.uid == 0 || peer.uid == geteuid() ||
	       (geteuid() == 0 && peer.uid + 1 == procfs_user(pid));
}

static int connect_at(const struct sockaddr_un *address, size_t bytes, pid_t pid)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct timeval timeout = { .tv_sec = TIMEOUT_MS / 1000 };

	/* connect blocks while the backlog is full. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
	    connect(fd, (const struct sockaddr *)address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) < 0)
		return -1;
	if (!is_trusted(fd, pid)) {
		errno = EPERM;
		return -1;
	}
	return TAKE_FD(fd);
}

/* Like the recorder: "@PATH" is the abstract socket, or else the file; for a process in a container, its file. */
static int connect_to(const char *name, pid_t pid)
{
	struct sockaddr_un abstract = { .sun_family = AF_UNIX }, file = abstract, inside = abstract;
	size_t length = strlen(name + 1);
	int fd, needed;

	memcpy(abstract.sun_path + 1, name + 1, length);
	memcpy(file.sun_path, name + 1, length + 1);
	needed = snprintf(inside.sun_path, sizeof inside.sun_path, "/proc/%d/root%s", (int)pid,
			  name + 1);
	fd = connect_at(&abstract, 1 + length, pid);
	bool is_strange = fd < 0 && errno == EPERM;

	if (fd < 0)
		fd = connect_at(&file, length + 1, pid);
	if (fd < 0 && needed < (int)sizeof inside.sun_path)
		fd = connect_at(&inside, (size_t)needed + 1, pid);
	if (fd < 0 && is_strange)
		errno = EPERM;
	return fd;
}

struct query_options {
	char name[LIVE_SOCKET_BYTES];
	struct live_secret secret;
	bool own; /* the process was started by its collector; else one may have attached to it */
};

static int find_collector(pid_t pid, struct query_options *ret, struct error *error)
{
	struct recorded recorded;

	if (recorded_find(pid, &recorded, error) < 0)
		return -1;
	struct iovec here[] = { { ret->name, sizeof ret->name },
				{ &ret->secret, sizeof ret->secret } };
	struct iovec there[] = {
		{ (void *)(uintptr_t)(recorded.profile + offsetof(struct live_header, collector)),
		  sizeof ret->name },
		{ (void *)(uintptr_t)(recorded.profile + offsetof(struct live_header, own.secret)),
		  sizeof ret->secret },
	};

	if (process_vm_readv(pid, here, 2, there, 2, 0) !=
	    (ssize_t)(sizeof ret->name + sizeof ret->secret))
		return recorded_failed(pid, errno, error);
	ret->name[sizeof ret->name - 1] = '\0';
	ret->own = ret->name[0] == '@';
	if (!ret->own)
		listener_name_for(ret->name, pid);
	return 0;
}

enum { REQUEST_FAILED = -1, REQUEST_OTHER_USER = -2 };
/* 1: it will be taken; 0: the collector does not know the process; else one of the above with the error set. */
static int ask(const struct query_options *asked, pid_t pid, pid_t number, const char *name,
	       struct error *error)
{
	struct live_request request = { .pid = (uint32_t)number, .secret = asked->secret };
	struct live_answer answer = { 0 };
	AUTO_CLOSE int fd = connect_to(asked->name, pid);

	if (fd < 0 && errno == EPERM) {
		error_set(
			error,
			"another user listens in place of the collector of process %d: no request "
			"was sent",
			(int)pid);
		return REQUEST_OTHER_USER;
	}
	if (fd < 0)
		return error_errno(error, "the collector of process %d cannot be reached",
				   (int)pid);
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	memcpy(request.magic, LIVE_REQUEST_MAGIC, sizeof request.magic);
	snprintf(request.name, sizeof request.name, "%s", name);
	if (send(fd, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
	    poll(&wait, 1, TIMEOUT_MS) != 1 ||
	    recv(fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer)
		return error_set(
			error,
			"the collector of process %d does not answer: it belongs to another user, "
			"or is stopped",
			(int)pid);
	return answer.granted != 0;
}

int request_snapshot(pid_t pid, const char *name, struct error *error)
{
	struct query_options asked;
	int taken;

	if (strlen(name) >= sizeof((struct live_request *)0)->name)
		return error_set(error, "a name has at most %zu bytes",
				 sizeof((struct live_request *)0)->name - 1);
	if (find_collector(pid, &asked, error) < 0)
		return -1;
	taken = ask(&asked, pid, pid, name, error);
	/* In a container it has another pid. */
	if (taken == 0 && procfs_own_pid(pid) > 0 && procfs_own_pid(pid) != pid)
		taken = ask(&asked, pid, procfs_own_pid(pid), name, error);
	if (taken == REQUEST_FAILED && !asked.own)
		return error_set(
			error,
			"no collector is attached to process %d, which records itself: a snapshot "
			"needs a running 'heapgauge record --pid %d'",
			(int)pid, (int)pid);
	if (taken == 0)
		return error_set(error, "process %d has just ended", (int)pid);
	return taken < 0 ? -1 : 0;
}

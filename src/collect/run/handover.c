/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets and the folder. Names are random, the peer's user is checked, and every message must contain the secret, since
 * anybody can connect to an abstract name and the folder's name is visible. Nothing here blocks: a peer that is killed or
 * stopped in the middle of a message must not stop the clock of the others.
 *
 * The backlog is small: a descriptor in a queue counts against the sender's limit of open files.
 */
#include "collect/run/handover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif
enum { BACKLOG = 64 };
#define TMPFS_TYPE 0x01021994
#define SHARED_MEMORY "/dev/shm"
#define PREFIX "heapgauge-"
#define SOCKET_FILE "/socket"

/* ---- names ---- */

static int listen_at(const struct sockaddr_un *address, size_t bytes, struct error *error)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_errno(error, "cannot create a socket");
	if (bind(fd, (const struct sockaddr *)address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) < 0)
		return error_errno(error, "cannot name a socket");
	if (listen(fd, BACKLOG) < 0)
		return error_errno(error, "cannot listen on a socket");
	return TAKE_FD(fd);
}

/* An abstract name begins with a zero byte and is not terminated by one. */
static int listen_abstract(const char *path, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	memcpy(address.sun_path + 1, path, length);
	return listen_at(&address, 1 + length, error);
}

void listener_name_for(char name[static LIVE_SOCKET_BYTES], pid_t pid)
{
	snprintf(name, LIVE_SOCKET_BYTES, "@" P_tmpdir "/heapgauge-process-%d", (int)pid);
}

void listener_open_for(struct listener *listener, pid_t pid, struct live_secret secret)
{
	listener_name_for(listener->name, pid);
	listener->secret = secret;
	listener->fd[0] = listen_abstract(listener->name + 1, NULL);
}

/* ---- the folder ---- */

/* Whether a collector listens on the socket. */
static bool is_answered(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	return fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ||
	       errno == EAGAIN;
}

/* A collector that has created its folder but does not listen yet must not be swept; neither must one in another PID namespace,
 * whose pid may belong to any process here. After a minute it either listens or has ended. */
static bool may_be_starting(pid_t pid, const struct stat *folder)
{
	bool has_process = kill(pid, 0) == 0 || errno != ESRCH;

	return has_process && clock_real_ns() / NS_PER_S < (uint64_t)folder->st_mtime + 60;
}

/* Removes the socket of a dead collector's folder "heapgauge-PID-NONCE". If it left profiles, they stay, and so does the
 * folder. */
static void sweep_one(const char *name)
{
	char path[LIVE_SOCKET_BYTES + sizeof SOCKET_FILE], *rest;
	pid_t pid = (pid_t)strtol(name + strlen(PREFIX), &rest, 10);
	struct stat st;

	if (pid <= 0 || *rest != '-' || strlen(rest) != 17)
		return;
	snprintf(path, sizeof path, SHARED_MEMORY "/%.60s", name);
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    may_be_starting(pid, &st))
		return;
	snprintf(path, sizeof path, SHARED_MEMORY "/%.60s" SOCKET_FILE, name);
	if (is_answered(path))
		return;
	(void)unlink(path);
	snprintf(path, sizeof path, SHARED_MEMORY "/%.60s", name);
	(void)rmdir(path);
}

static void sweep(void)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(SHARED_MEMORY);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
			sweep_one(entry->d_name);
	}
}

/* If root records, targets may run as other users, who may create files here but not list them. Otherwise all targets run as
 * our user. */
static void make_folder(struct listener *listener, unsigned long long nonce)
{
	struct statfs system;
	char path[LIVE_SOCKET_BYTES];
	bool root = geteuid() == 0;

	snprintf(path, sizeof path, SHARED_MEMORY "/" PREFIX "%d-%016llx", (int)getpid(), nonce);
	if (statfs(SHARED_MEMORY, &system) < 0 || system.f_type != TMPFS_TYPE ||
	    mkdir(path, 0700) < 0)
		return;
	if (root && chmod(path, 01733) < 0) {
		(void)rmdir(path);
		return;
	}
	memcpy(listener->folder, path, sizeof path);
}

int listener_open(struct listener *listener, struct error *error)
{
	struct sockaddr_un file = { .sun_family = AF_UNIX };
	const char *path = listener->name + 1;
	uint64_t nonce = 0;

	if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce ||
	    getrandom(&listener->secret, sizeof listener->secret, 0) !=
		    (ssize_t)sizeof listener->secret)
		return error_errno(error, "cannot get random bytes");
	sweep();
	make_folder(listener, (unsigned long long)nonce);
	if (listener->folder[0])
		snprintf(listener->name, sizeof listener->name, "@%.80s" SOCKET_FILE,
			 listener->folder);
	else
		snprintf(listener->name, sizeof listener->name,
			 "@" P_tmpdir "/" PREFIX "%d-%016llx", (int)getpid(),
			 (unsigned long long)nonce);
	listener->fd[0] = listen_abstract(path, error);
	if (listener->fd[0] < 0)
		return -1;
	memcpy(file.sun_path, path, strlen(path) + 1);
	listener->fd[1] = listen_at(&file, strlen(path) + 1, NULL);
	if (listener->fd[1] >= 0)
		(void)chmod(path, geteuid() == 0 ? 0666 : 0600);
	return 0;
}

/* Also deletes profiles that were never taken over. */
static void remove_folder(const char *path)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(path);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (unlinkat(dirfd(folder), entry->d_name, 0) < 0)
			(void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	(void)rmdir(path);
}

void listener_close(struct listener *listener)
{
	if (listener->fd[1] >= 0)
		(void)unlink(listener->name + 1);
	for (size_t i = 0; i < LISTENER_SOCKETS; i++) {
		if (listener->fd[i] >= 0)
			close(TAKE_FD(listener->fd[i]));
	}
	if (listener->folder[0])
		remove_folder(listener->folder);
	listener->folder[0] = '\0';
}

/* ---- messages ---- */

/* From the connection. -1 before Linux 6.5 and for a process that has ended: the caller must handle both. */
static int pid_fd_of(int connection)
{
	int fd = -1;
	socklen_t length = sizeof fd;

	return getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0 ? fd : -1;
}

bool handover_is_from(int connection, uint32_t user)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid() || peer.uid + 1 == user);
}

int handover_accept(int listening, pid_t *ret_pid, int *ret_pid_fd)
{
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t length = sizeof peer;

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
	    (peer.uid != geteuid() && geteuid() != 0)) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	*ret_pid = peer.pid;
	*ret_pid_fd = pid_fd_of(fd);
	return fd;
}

/* The first descriptor of the message; -1: none. Any others are closed. */
static int take_descriptor(struct msghdr *message)
{
	int taken = -1;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof taken <= bytes; at += sizeof taken) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
			if (taken < 0)
				taken = fd;
			else
				close(fd);
		}
	}
	return taken;
}

static bool is_hello(const union handover_message *message, ssize_t got,
		     const struct live_secret *secret)
{
	const struct live_hello *hello = &message->hello;

	return got == (ssize_t)sizeof *hello &&
	       memcmp(hello->magic, LIVE_HELLO_MAGIC, sizeof hello->magic) == 0 &&
	       live_secret_equal(&hello->secret, secret);
}

static bool is_request(const union handover_message *message, ssize_t got,
		       const struct live_secret *secret)
{
	const struct live_request *request = &message->request;

	return got == (ssize_t)sizeof *request &&
	       memcmp(request->magic, LIVE_REQUEST_MAGIC, sizeof request->magic) == 0 &&
	       live_secret_equal(&request->secret, secret) &&
	       request->name[sizeof request->name - 1] == '\0';
}

enum handover_state handover_receive(int connection, const struct live_secret *secret,
				     union handover_message *ret, int *ret_fd)
{
	struct iovec part = { .iov_base = ret, .iov_len = sizeof *ret };
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} room;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = room.bytes,
				  .msg_controllen = sizeof room.bytes };
	ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*ret_fd = -1;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? HANDOVER_WAIT : HANDOVER_BAD;
	*ret_fd = take_descriptor(&message);
	/* MSG_CTRUNC: the kernel dropped a descriptor because we had none free. */
	if (is_hello(ret, got, secret))
		return message.msg_flags & MSG_CTRUNC && *ret_fd < 0 ? HANDOVER_LOST
								     : HANDOVER_HELLO;
	if (*ret_fd >= 0)
		close(TAKE_FD(*ret_fd));
	return is_request(ret, got, secret) ? HANDOVER_REQUEST : HANDOVER_BAD;
}

/* The kernel returns the lowest free number: while it has always been below half the limit, enough are free. */
static bool has_plenty(struct listener *listener, int lowest)
{
	struct rlimit limit;

	if (listener->descriptors == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		listener->descriptors = (int)MIN(limit.rlim_cur, (rlim_t)INT_MAX);
	listener->is_tight |= lowest >= listener->descriptors / 2;
	return !listener->is_tight;
}

bool handover_has_room(struct listener *listener, size_t needed)
{
	int fd[HANDOVER_NEEDED] = { fcntl(listener->fd[0], F_DUPFD_CLOEXEC, 0) };
	size_t count = fd[0] >= 0;

	ASSERT(needed <= ARRAY_SIZE(fd));
	if (count && has_plenty(listener, fd[0])) {
		close(fd[0]);
		return true;
	}
	while (count && count < needed &&
	       (fd[count] = fcntl(listener->fd[0], F_DUPFD_CLOEXEC, 0)) >= 0)
		count++;
	for (size_t i = 0; i < count; i++)
		close(fd[i]);
	return count == needed;
}

void handover_answer(int connection, bool granted)
{
	struct live_answer answer = { .granted = granted };

	memcpy(answer.magic, LIVE_REQUEST_MAGIC, sizeof answer.magic);
	(void)!send(connection, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The message to the collector's socket. The target never waits: connect fails at once if the queue is full, and a message to
 * a socket that is not accepted yet is queued with its descriptor, which outlives the sender.
 *
 * Anyone can listen on an abstract name, or take over one whose owner has died. So the listener's user is checked before
 * anything is sent: root, or our own. 65534 may be any user that is not mapped into our user namespace, even if it is our
 * own.
 *
 * No state. Once per process, raw system calls only. */
#include "recorder/process/handover.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "recorder/process/settings.h"
#include "recorder/sys.h"

enum { UNMAPPED_USER = 65534 };

/* SENT: it may know about us. BUSY: unknown, so only a file that other users cannot read may be left. */
static enum handover judge_listener(int fd)
{
	struct ucred peer = { .uid = UNMAPPED_USER };
	int bytes = sizeof peer;

	if (sys_failed(sys_call6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer,
				 (long)&bytes, 0)) ||
	    peer.uid == UNMAPPED_USER)
		return HANDOVER_BUSY;
	return peer.uid == 0 || (long)peer.uid == sys_call3(SYS_geteuid, 0, 0, 0) ? HANDOVER_SENT
										  : HANDOVER_NOBODY;
}

static enum handover send_on(int connection, int fd, const void *at, struct live_ticket ticket)
{
	struct live_hello hello = { .magic = LIVE_HELLO_MAGIC_CHARS,
				    .secret = settings.secret,
				    .ticket = ticket };
	struct iovec part = { &hello, sizeof hello };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof fd)];
	} rights = { .head = { .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof fd) } };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		__builtin_memcpy(CMSG_DATA(&rights.head), &fd, sizeof fd);
		message.msg_control = rights.bytes;
		message.msg_controllen = sizeof rights.bytes;
	} else {
		hello.at = (uintptr_t)at;
	}
	return sys_call3(SYS_sendmsg, connection, (long)&message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
			       (long)sizeof hello
		       ? HANDOVER_SENT
		       : HANDOVER_BUSY;
}

static enum handover send_to(const struct sockaddr_un *address, size_t bytes, int fd,
			     const void *at, struct live_ticket ticket)
{
	long connection =
		sys_call3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sys_failed(connection))
		return HANDOVER_BUSY;
	long ret = sys_call3(SYS_connect, connection, (long)address,
			     (long)(offsetof(struct sockaddr_un, sun_path) + bytes));
	enum handover done = ret == -EAGAIN || ret == -EINTR ? HANDOVER_BUSY : HANDOVER_NOBODY;

	if (!sys_failed(ret))
		done = judge_listener((int)connection);
	if (done == HANDOVER_SENT)
		done = send_on((int)connection, fd, at, ticket);
	sys_close((int)connection);
	return done;
}

/* The abstract socket belongs to a network namespace; from another one, the socket file is used. */
enum handover handover_send(int fd, const void *at, struct live_ticket ticket)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = 0;

	/* strlen is in another page of libc, which each forked child would have to map. */
	while (bytes < sizeof settings.collector && settings.collector[bytes])
		bytes++;
	if (bytes < 2 || settings.collector[0] != '@' || bytes >= sizeof address.sun_path)
		return HANDOVER_NOBODY;
	__builtin_memcpy(address.sun_path + 1, settings.collector + 1, bytes - 1);
	enum handover done = send_to(&address, bytes, fd, at, ticket);

	if (done != HANDOVER_NOBODY)
		return done;
	__builtin_memcpy(address.sun_path, settings.collector + 1, bytes);
	return send_to(&address, bytes, fd, at, ticket);
}

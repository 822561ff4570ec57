/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP does not tell who connects, but the kernel knows the owner of both sockets of a local connection: sock_diag looks up the
 * socket whose addresses are ours, exchanged. No state. Any thread.
 */
#include "serve/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/cleanup.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void set_end(const union address *from, __be32 to[4], __be16 *port)
{
	if (from->any.sa_family == AF_INET) {
		memcpy(to, &from->v4.sin_addr, sizeof from->v4.sin_addr);
		*port = from->v4.sin_port;
	} else {
		memcpy(to, &from->v6.sin6_addr, sizeof from->v6.sin6_addr);
		*port = from->v6.sin6_port;
	}
}

static bool is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static bool ask_kernel(const union address *own, const union address *peer, uid_t *ret)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 ask;
	} request = {
		.head = { .nlmsg_len = sizeof request,
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.ask = { .sdiag_family = (uint8_t)own->any.sa_family,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } }
	};
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} answer;
	AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	set_end(peer, request.ask.id.idiag_src, &request.ask.id.idiag_sport);
	set_end(own, request.ask.id.idiag_dst, &request.ask.id.idiag_dport);
	if (fd < 0 || send(fd, &request, sizeof request, 0) != (ssize_t)sizeof request)
		return false;
	ssize_t got = recv(fd, &answer, sizeof answer, 0);

	if (got < (ssize_t)(NLMSG_HDRLEN + sizeof(struct inet_diag_msg)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);

	/* A socket that listens on that port would be found where the connection is gone already; one that was closed has no inode,
	 * and its user is 0. */
	if (found->idiag_inode == 0 ||
	    memcmp(&found->id.idiag_dst, &request.ask.id.idiag_dst, sizeof found->id.idiag_dst) !=
		    0 ||
	    found->id.idiag_dport != request.ask.id.idiag_dport)
		return false;
	*ret = found->idiag_uid;
	return true;
}

bool peer_user(int fd, uid_t *ret)
{
	union address own = { 0 }, peer = { 0 };
	socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
	struct ucred user;
	socklen_t user_bytes = sizeof user;

	if (getsockname(fd, &own.any, &own_bytes) < 0)
		return false;
	if (own.any.sa_family == AF_UNIX) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_bytes) < 0)
			return false;
		*ret = user.uid;
		return true;
	}
	return getpeername(fd, &peer.any, &peer_bytes) == 0 && is_loopback(&own) &&
	       is_loopback(&peer) && ask_kernel(&own, &peer, ret);
}

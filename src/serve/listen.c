/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets: see listen.h. libmicrohttpd gets a ready descriptor, because by default it would bind every
 * interface of the machine.
 */
#include "serve/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/cleanup.h"

enum { BACKLOG = 64 };

static void free_addresses(struct addrinfo **list)
{
	if (*list)
		freeaddrinfo(*list);
}

static enum listen_reach reach_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof in);
		if (in.sin_addr.s_addr == INADDR_ANY)
			return LISTEN_ANY;
		return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? LISTEN_HERE
									 : LISTEN_OTHERS;
	}
	struct sockaddr_in6 in6;

	memcpy(&in6, address, sizeof in6);
	if (IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr))
		return LISTEN_ANY;
	return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) ? LISTEN_HERE : LISTEN_OTHERS;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage bound = { 0 };
	socklen_t size = sizeof bound;
	struct sockaddr_in in; /* sin_port has the same offset for IPv6 */

	if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0)
		return 0;
	memcpy(&in, &bound, sizeof in);
	return ntohs(in.sin_port);
}

static int bind_tcp(const struct addrinfo *address, const char *host, uint16_t port,
		    struct error *error)
{
	AUTO_CLOSE int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return error_errno(error, "cannot create a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		if (errno == EADDRINUSE)
			return error_set(error,
					 "port %u of %s is in use; name another, or leave out "
					 "--port for a free one",
					 port, host);
		return error_errno(error, "cannot listen on %s port %u", host, port);
	}
	return TAKE_FD(fd);
}

int listen_tcp(const char *host, uint16_t port, uint16_t *ret_port, enum listen_reach *ret_reach,
	       struct error *error)
{
	const struct addrinfo wanted = { .ai_family = AF_UNSPEC,
					 .ai_socktype = SOCK_STREAM,
					 .ai_flags = AI_NUMERICSERV };
	AUTO(free_addresses) struct addrinfo *list = NULL;
	char service[8];

	snprintf(service, sizeof service, "%u", port);
	int failed = getaddrinfo(host, service, &wanted, &list);

	if (failed || !list)
		return error_set(error, "cannot resolve the address '%s' (%s)", host,
				 gai_strerror(failed));
	int fd = bind_tcp(list, host, port, error);

	if (fd < 0)
		return -1;
	*ret_port = port_of(fd);
	*ret_reach = reach_of(list->ai_addr);
	return fd;
}

/* Whether the path is a stale socket: nobody listens on it any more. */
static bool is_left_over(const struct sockaddr_un *address)
{
	struct stat status;
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode) &&
	       connect(fd, (const struct sockaddr *)(const void *)address, sizeof *address) < 0 &&
	       errno == ECONNREFUSED;
}

int listen_unix(const char *path, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return error_errno(error, "cannot create a socket");
	if (strlen(path) >= sizeof address.sun_path)
		return error_set(error, "the socket's path is longer than %zu bytes: %s",
				 sizeof address.sun_path - 1, path);
	memcpy(address.sun_path, path, strlen(path));
	if (is_left_over(&address))
		unlink(path);
	/* Only the owner may connect, from the start: bind gives the file the mode of the descriptor. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address) < 0 ||
	    listen(fd, BACKLOG) < 0) {
		if (errno == EADDRINUSE)
			return error_set(error, "%s already exists; name another --socket", path);
		return error_errno(error, "cannot listen on %s", path);
	}
	return TAKE_FD(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live profile of a process names the socket of its collector; who may read that may ask. The collector takes the
 * request in its next turn: the recorded process has no part in it. No state. Any thread.
 */
#include "collect/request.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "collect/recorded.h"
#include "format/live.h"
#include "util/cleanup.h"

enum { PATIENCE_MS = 5000 };

/* As the recorder does: "@PATH" is the abstract socket, or else the file. */
static int connect_to(const char *name)
{
	for (int as_file = 0; as_file < 2; as_file++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		size_t length = strlen(name + 1);
		AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -1;
		memcpy(address.sun_path + !as_file, name + 1, length);
		if (connect(fd, (const struct sockaddr *)&address,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
			return TAKE_FD(fd);
	}
	return -1;
}

static int read_collector(pid_t pid, char name[64], struct error *error)
{
	struct recorded recorded;
	struct iovec here = { .iov_base = name, .iov_len = 64 }, there;

	if (recorded_find(pid, &recorded, error) < 0)
		return -1;
	there = (struct iovec){ .iov_base = (void *)(uintptr_t)(recorded.profile +
								offsetof(struct live_header,
									 collector)),
				.iov_len = 64 };
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) != 64)
		return recorded_failed(pid, errno, error);
	name[63] = '\0';
	if (name[0] != '@')
		return error_set(error, "process %d has no collector that could be asked",
				 (int)pid);
	return 0;
}

int request_snapshot(pid_t pid, const char *name, struct error *error)
{
	struct live_request request = { .pid = (uint32_t)pid };
	struct live_welcome answer = { 0 };
	char collector[64];

	if (strlen(name) >= sizeof request.name)
		return error_set(error, "a name has at most %zu bytes", sizeof request.name - 1);
	if (read_collector(pid, collector, error) < 0)
		return -1;
	AUTO_CLOSE int fd = connect_to(collector);

	if (fd < 0)
		return error_errno(error, "the collector of process %d cannot be reached",
				   (int)pid);
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	memcpy(request.magic, LIVE_REQUEST_MAGIC, sizeof request.magic);
	snprintf(request.name, sizeof request.name, "%s", name);
	if (send(fd, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
	    poll(&wait, 1, PATIENCE_MS) != 1 ||
	    recv(fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer)
		return error_set(
			error,
			"the collector of process %d does not answer: it is of another user, "
			"or is stopped",
			(int)pid);
	if (answer.total_bytes == 0)
		return error_set(error, "process %d has just ended", (int)pid);
	return 0;
}

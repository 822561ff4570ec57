/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets, memfds and seals. The sockets' name is random, and the peer's user is checked, since anybody may connect to an
 * abstract one. Nothing here blocks: a recorder that is killed or stopped
 * in the middle of its hello must not stop the clock of the others.
 *
 * Invariant: the profile's memfd is sealed against every change of size before anybody else sees it, so that no one
 * can raise SIGBUS in its readers; the target cannot write the control page.
 */
#include "collect/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/cleanup.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static int listen_at(const struct sockaddr_un *address, size_t bytes, struct error *error)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_errno(error, "cannot make a socket");
	if (bind(fd, (const struct sockaddr *)address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) < 0)
		return error_errno(error, "cannot name a socket");
	if (listen(fd, 1024) < 0)
		return error_errno(error, "cannot listen on a socket");
	return TAKE_FD(fd);
}

/* An abstract name begins with a zero byte, and does not end with one. */
static int listen_abstract(const char *path, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	memcpy(address.sun_path + 1, path, length);
	return listen_at(&address, 1 + length, error);
}

void listener_name_for(char name[64], pid_t pid)
{
	snprintf(name, 64, "@" P_tmpdir "/heapgauge-process-%d", (int)pid);
}

int listener_open_for(struct listener *listener, pid_t pid, struct error *error)
{
	listener_name_for(listener->name, pid);
	listener->fd[0] = listen_abstract(listener->name + 1, error);
	return listener->fd[0] < 0 ? -1 : 0;
}

int listener_open(struct listener *listener, struct error *error)
{
	struct sockaddr_un file = { .sun_family = AF_UNIX };
	const char *path = listener->name + 1;
	uint64_t nonce = 0;

	if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		return error_errno(error, "cannot get random bytes");
	snprintf(listener->name, sizeof listener->name, "@" P_tmpdir "/heapgauge-%d-%016llx",
		 (int)getpid(), (unsigned long long)nonce);
	listener->fd[0] = listen_abstract(path, error);
	if (listener->fd[0] < 0)
		return -1;
	memcpy(file.sun_path, path, strlen(path) + 1);
	listener->fd[1] = listen_at(&file, strlen(path) + 1, NULL);
	/* Root's programs may be of other users; anybody else's are their own. */
	if (listener->fd[1] >= 0)
		(void)chmod(path, geteuid() == 0 ? 0666 : 0600);
	return 0;
}

void listener_close(struct listener *listener)
{
	if (listener->fd[1] >= 0)
		(void)unlink(listener->name + 1);
	for (size_t i = 0; i < LISTENER_SOCKETS; i++) {
		if (listener->fd[i] >= 0)
			close(TAKE_FD(listener->fd[i]));
	}
}

int handover_accept(int listening, pid_t *ret_pid)
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
	return fd;
}

enum handover_state handover_receive(int connection, union handover_message *ret)
{
	ssize_t got = recv(connection, ret, sizeof *ret, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return HANDOVER_WAIT;
	if (got == (ssize_t)sizeof ret->hello &&
	    memcmp(ret->hello.magic, LIVE_HELLO_MAGIC, sizeof ret->hello.magic) == 0)
		return HANDOVER_HELLO;
	if (got == (ssize_t)sizeof ret->request &&
	    memcmp(ret->request.magic, LIVE_REQUEST_MAGIC, sizeof ret->request.magic) == 0 &&
	    ret->request.name[sizeof ret->request.name - 1] == '\0')
		return HANDOVER_REQUEST;
	return HANDOVER_BAD;
}

/* How large the memory may be: sparse, so as large as both sides can map. */
static uint64_t total_for(uint64_t address_limit)
{
	uint64_t total = LIVE_TOTAL_DEFAULT;
	struct rlimit limit;

	if (address_limit != UINT64_MAX)
		total = MIN(total, address_limit / 4);
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		total = MIN(total, (uint64_t)limit.rlim_cur / 4);
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		total = MIN(total, (uint64_t)limit.rlim_cur);
	return MAX(total & ~(uint64_t)(LIVE_PAGE - 1), LIVE_TOTAL_MIN);
}

/* Sizes the memory, writes its head and maps it for reading. */
static int fill_memory(struct profile *profile, const char *collector, struct error *error)
{
	struct live_header *header;

	if (ftruncate(profile->memory_fd, (off_t)profile->bytes) < 0)
		return error_errno(error, "cannot size the profile to %llu bytes",
				   (unsigned long long)profile->bytes);
	header = mmap(NULL, sizeof *header, PROT_READ | PROT_WRITE, MAP_SHARED, profile->memory_fd,
		      0);
	if (header == MAP_FAILED)
		return error_errno(error, "cannot map the profile");
	live_header_init(header, profile->bytes);
	snprintf(header->collector, sizeof header->collector, "%s", collector);
	munmap(header, sizeof *header);
	profile->memory = mmap(NULL, profile->bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE,
			       profile->memory_fd, 0);
	if (profile->memory == MAP_FAILED) {
		profile->memory = NULL;
		return error_errno(error, "cannot map %llu bytes for the profile",
				   (unsigned long long)profile->bytes);
	}
	return 0;
}

/* The same page read-only. Without /proc the seal alone keeps the target from writing. */
static int read_only_twin(int fd)
{
	char path[64];
	int twin;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	twin = open(path, O_RDONLY | O_CLOEXEC);
	return twin >= 0 ? twin : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int make_control(struct profile *profile, struct error *error)
{
	AUTO_CLOSE int fd = memfd_create("heapgauge-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, LIVE_PAGE) < 0)
		return error_errno(error, "cannot make the control page");
	profile->control = mmap(NULL, LIVE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (profile->control == MAP_FAILED) {
		profile->control = NULL;
		return error_errno(error, "cannot map the control page");
	}
	memcpy(profile->control->magic, LIVE_CONTROL_MAGIC, sizeof profile->control->magic);
	/* Kernels before 5.1 do not know it: there the read-only descriptor has to do. */
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return error_errno(error, "cannot seal the control page");
	profile->control_fd = read_only_twin(fd);
	if (profile->control_fd < 0)
		return error_errno(error, "cannot open the control page again");
	return 0;
}

int profile_make(struct profile *profile, uint64_t address_limit, const char *collector,
		 struct error *error)
{
	*profile = PROFILE_INIT;
	profile->bytes = total_for(address_limit);
	profile->memory_fd = memfd_create("heapgauge-profile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (profile->memory_fd < 0)
		return error_errno(error, "cannot make shared memory");
	if (fill_memory(profile, collector, error) < 0 || make_control(profile, error) < 0) {
		profile_release(profile);
		return -1;
	}
	if (fcntl(profile->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		error_errno(error, "cannot seal the profile");
		profile_release(profile);
		return -1;
	}
	return 0;
}

static void close_descriptors(struct profile *profile)
{
	if (profile->memory_fd >= 0)
		close(TAKE_FD(profile->memory_fd));
	if (profile->control_fd >= 0)
		close(TAKE_FD(profile->control_fd));
}

void profile_release(struct profile *profile)
{
	close_descriptors(profile);
	if (profile->memory)
		munmap(profile->memory, profile->bytes);
	if (profile->control)
		munmap(profile->control, LIVE_PAGE);
	*profile = PROFILE_INIT;
}

uint64_t profile_inode(const struct profile *profile)
{
	struct stat st;

	return fstat(profile->memory_fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* One answer; descriptor -1: none. */
static int send_welcome(int connection, uint64_t total_bytes, int descriptor, struct error *error)
{
	struct live_welcome welcome = { .total_bytes = total_bytes };
	struct iovec part = { .iov_base = &welcome, .iov_len = sizeof welcome };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} room = { { 0 } };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(welcome.magic, LIVE_HELLO_MAGIC, sizeof welcome.magic);
	if (descriptor >= 0) {
		struct cmsghdr *control;

		message.msg_control = room.bytes;
		message.msg_controllen = sizeof room.bytes;
		control = CMSG_FIRSTHDR(&message);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(sizeof descriptor);
		memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
	}
	if (sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof welcome)
		return error_errno(error, "cannot answer the recorder");
	return 0;
}

int handover_answer(int connection, struct profile *profile, struct error *error)
{
	if (!profile)
		return send_welcome(connection, 0, -1, error);
	if (send_welcome(connection, profile->bytes, profile->memory_fd, error) < 0 ||
	    send_welcome(connection, profile->bytes, profile->control_fd, error) < 0)
		return -1;
	close_descriptors(profile);
	return 0;
}

void handover_reply(int connection, bool granted)
{
	(void)send_welcome(connection, granted, -1, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent sends requests with descriptors over a socket pair, as many as one child shall read, and waits for the wait status of
 * the child. The results are in anonymous files that the agent made.
 *
 * Owns the reader's process and the socket. The lock protects the order of requests and answers.
 */
#include "agent/reading/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"

enum {
	READING_SECONDS = 30, /* a child that takes longer is killed */
	DYING_SECONDS = 2,    /* and one that does not die from it is left alone */
	STUCK_MAX = 8,
	TOO_LONG = -2, /* instead of its status */
	RESULT_MAX = 256 << 20,
	FDS_MAX = 3, /* result, profile, baseline */
};

struct message {
	uint32_t following; /* messages of the same batch */
	struct reading_request request;
};

struct answer {
	int status;
	uint64_t cpu_ns;
};

/* ---- the reader's side ---- */

static ssize_t receive(int socket, struct message *ret, int fds[FDS_MAX])
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { ret, sizeof *ret };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	ssize_t got;

	do
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	const struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	for (size_t i = 0; i < FDS_MAX; i++)
		fds[i] = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), FDS_MAX * sizeof(int)));
	return got;
}

/* The OOM killer shall choose this process, not the agent. */
static void limit_child(void)
{
	static const char most[] = "1000";
	const struct rlimit cpu = { READING_SECONDS, READING_SECONDS };
	const struct rlimit file = { RESULT_MAX, RESULT_MAX };
	FILE *oom = fopen("/proc/self/oom_score_adj", "we");

	if (oom) {
		(void)!fwrite(most, 1, sizeof most - 1, oom);
		(void)fclose(oom);
	}
	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_FSIZE, &file);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Not by an alarm of the child: its user may stop it, and then it gets none. Not even SIGKILL ends one that waits for a file system of its
 * user's own: it is left alone until that answers. */
static int end_of(pid_t pid, unsigned *stuck)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	bool is_late = fd >= 0 && poll(&end, 1, READING_SECONDS * 1000) == 0;
	int status = -1;

	if (is_late) {
		kill(pid, SIGKILL);
		if (poll(&end, 1, DYING_SECONDS * 1000) == 0) {
			(*stuck)++;
			return TOO_LONG;
		}
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return is_late ? TOO_LONG : status;
}

/* While too many are stuck, no files of users are opened, on which further ones could be. */
static void forgo_names(struct reading_task *tasks, size_t count, unsigned *stuck)
{
	while (*stuck && waitpid(-1, NULL, WNOHANG) > 0)
		(*stuck)--;
	for (size_t i = 0; i < count && *stuck >= STUCK_MAX; i++)
		tasks[i].request.names = false;
}

static int read_in_child(int socket, struct reading_task *tasks, size_t count)
{
	static unsigned stuck;

	forgo_names(tasks, count, &stuck);
	pid_t pid = fork();

	if (pid == 0) {
		close(socket);
		limit_child();
		reading_write_all(tasks, count);
		_exit(0);
	}
	return pid > 0 ? end_of(pid, &stuck) : -1;
}

static void receive_task(int socket, struct reading_task *task, uint32_t *following)
{
	struct message message;
	int fds[FDS_MAX];
	const int *next = fds + 1;

	if (receive(socket, &message, fds) != (ssize_t)sizeof message)
		_exit(0); /* the agent has ended */
	*following = message.following;
	task->request = message.request;
	task->out = fds[0];
	task->profile_fd = message.request.held ? *next++ : -1;
	task->baseline_fd = message.request.has_baseline ? *next : -1;
}

static uint64_t cpu_ns_of(int whose)
{
	struct rusage usage;

	getrusage(whose, &usage);
	return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * NS_PER_S +
	       ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * NS_PER_US;
}

_Noreturn static void serve_readings(int socket)
{
	static struct reading_task tasks[READING_BATCH_MAX];

	signal(SIGINT, SIG_IGN); /* a Ctrl-C goes to both: the agent decides */
	signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_NAME, "heapgauge-read");
	for (;;) {
		struct answer answer = { 0 };
		uint32_t following = 1;
		size_t count = 0;

		while (following && count < READING_BATCH_MAX)
			receive_task(socket, &tasks[count++], &following);
		answer.status = read_in_child(socket, tasks, count);
		for (size_t i = 0; i < count; i++) {
			cleanup_close(&tasks[i].out);
			cleanup_close(&tasks[i].profile_fd);
			cleanup_close(&tasks[i].baseline_fd);
		}
		answer.cpu_ns = cpu_ns_of(RUSAGE_SELF) + cpu_ns_of(RUSAGE_CHILDREN);
		if (write(socket, &answer, sizeof answer) != sizeof answer)
			_exit(0);
	}
}

/* ---- the agent's side ---- */

int reader_start(struct reader *reader, int stop_fd, struct error *error)
{
	int pair[2];
	pid_t agent = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(error, "cannot start the reader");
	reader->pid = fork();
	if (reader->pid == 0) {
		close(pair[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != agent)
			_exit(0);
		serve_readings(pair[1]);
	}
	close(pair[1]);
	reader->socket = pair[0];
	reader->stop_fd = stop_fd;
	pthread_mutex_init(&reader->lock, NULL);
	if (reader->pid < 0) {
		reader_stop(reader);
		return error_errno(error, "cannot start the reader");
	}
	return 0;
}

void reader_stop(struct reader *reader)
{
	close(reader->socket);
	if (reader->pid > 0) {
		kill(reader->pid, SIGKILL); /* and with it the child */
		waitpid(reader->pid, NULL, 0);
	}
	pthread_mutex_destroy(&reader->lock);
}

static int send_task(const struct reader *reader, const struct reading_task *task, size_t following,
		     struct error *error)
{
	const struct message sent = { (uint32_t)following, task->request };
	int fds[FDS_MAX] = { task->out };
	size_t fd_count = 1;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)&sent, sizeof sent };

	if (task->request.held)
		fds[fd_count++] = task->profile_fd;
	if (task->request.has_baseline)
		fds[fd_count++] = task->baseline_fd;
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = CMSG_SPACE(fd_count * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	return sendmsg(reader->socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof sent
		       ? 0
		       : error_errno(error, "the reader does not answer");
}

static int wait_for(struct reader *reader, struct error *error)
{
	struct pollfd either[] = { { .fd = reader->socket, .events = POLLIN },
				   { .fd = reader->stop_fd, .events = POLLIN } };
	struct answer answer;

	while (poll(either, ARRAY_SIZE(either), -1) < 0 && errno == EINTR)
		;
	if (either[1].revents)
		return error_set(error, "the agent ends");
	if (read(reader->socket, &answer, sizeof answer) != sizeof answer)
		return error_set(error, "the reader has ended");
	reader->cpu_ns = answer.cpu_ns;
	if (answer.status == TOO_LONG)
		return error_set(error, "reading it took longer than %d s", READING_SECONDS);
	if (WIFSIGNALED(answer.status))
		return error_set(error, "reading it was ended by signal %d (%s)",
				 WTERMSIG(answer.status), strsignal(WTERMSIG(answer.status)));
	return answer.status == 0 ? 0 : error_set(error, "reading it failed");
}

/* Sealed first: a hostile child may have left a process that could still write to it. */
static int take_result(int fd, struct reader_result *ret, struct error *error)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return error_errno(error, "cannot seal the reading");
	off_t size = lseek(fd, 0, SEEK_END);

	if (size <= 0 || size > RESULT_MAX)
		return error_set(error, "reading it failed: out of memory");
	void *mapped = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (mapped == MAP_FAILED)
		return error_errno(error, "cannot map the reading");
	ret->map.bytes = span_of(mapped, (size_t)size);
	if (reading_parse(ret->map.bytes, &ret->parts))
		return 0;
	reader_result_release(ret);
	return error_set(error, "reading it failed: the result is damaged");
}

static int make_files(struct reading_task *tasks, size_t count, struct error *error)
{
	for (size_t i = 0; i < count; i++)
		tasks[i].out = -1;
	for (size_t i = 0; i < count; i++) {
		tasks[i].out = memfd_create("heapgauge reading", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (tasks[i].out < 0)
			return error_errno(error, "cannot make a file for the reading");
	}
	return 0;
}

int reader_read_batch(struct reader *reader, struct reading_task *tasks, size_t count,
		      struct reader_result *ret, struct error *error)
{
	struct error unfinished = ERROR_INIT;
	int status = make_files(tasks, count, error);

	memset(ret, 0, count * sizeof *ret);
	if (status == 0) {
		pthread_mutex_lock(&reader->lock);
		for (size_t i = 0; i < count && status == 0; i++)
			status = send_task(reader, &tasks[i], count - 1 - i, error);
		if (status == 0)
			status = wait_for(reader, error);
		pthread_mutex_unlock(&reader->lock);
	}
	for (size_t i = 0; i < count; i++) {
		if (status == 0 || count > 1)
			(void)take_result(tasks[i].out, &ret[i], &unfinished);
		cleanup_close(&tasks[i].out);
	}
	if (status == 0 && count == 1 && !ret->parts.reading)
		return error_set(error, "%s", unfinished.message);
	return status;
}

int reader_read(struct reader *reader, const struct reading_request *request, int profile_fd,
		int baseline_fd, struct reader_result *ret, struct error *error)
{
	struct reading_task task = { *request, profile_fd, baseline_fd, -1 };

	return reader_read_batch(reader, &task, 1, ret, error);
}

void reader_result_release(struct reader_result *result)
{
	if (result->map.bytes.data)
		munmap((void *)(uintptr_t)result->map.bytes.data, result->map.bytes.size);
	*result = (struct reader_result){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-overs of profiles by the program, its forks and the programs that they exec: by a message on the socket, or by a file in
 * the folder. heapgauge never records itself, since it would wait for its own end.
 *
 * Called by the loop, in its thread; nothing here blocks. A peer is untrusted until it has presented the secret, and its
 * profile remains untrusted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/run/collector.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/ranks.h"
#include "collect/kernel/recorded_processes.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define MESSAGE_TIMEOUT_NS (1000 * NS_PER_MS)
#define FULL_TIMEOUT_NS (10000 * NS_PER_MS)
#define FOLDER_NS (20 * NS_PER_MS)
#define FOLDER_UNCHANGED_NS NS_PER_MS
enum { PENDING_MAX = 256, FOLDER_MAX = 4096, PATH_BYTES = 512 };

void pending_close(struct pending *pending)
{
	if (pending->fd >= 0)
		close(TAKE_FD(pending->fd));
	if (pending->pid_fd >= 0)
		close(TAKE_FD(pending->pid_fd));
}

/* A process that called exec hands over again: its previous target ends here. */
static void end_earlier_self(struct collector *c, pid_t pid, uint64_t now_ns)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (pid != 0 && target->pid == pid && target->ended_ns == 0)
			target_ended(target, now_ns, END_EXEC, 0);
	}
}

/* Whether this profile was taken over before: no process is recorded twice. */
static bool is_known(const struct collector *c, uint64_t id)
{
	return numbering_find(&c->taken, &id, sizeof id) != SIZE_MAX;
}

/* The process has connected: resolves the announcement that its ticket refers to. */
static void settle_ticket(struct collector *c, struct live_ticket ticket)
{
	struct target *announcer = NULL;

	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->id == ticket.profile)
			announcer = c->targets.at[i];
	}
	if (announcer)
		process_log_read(&c->process_log, announcer);
	if (!is_known(c, ticket.profile))
		process_log_connected_early(&c->process_log, ticket);
	else if (process_log_connected(&c->process_log, ticket) && announcer)
		announcer->has_become = true;
}

/* Counts a process that should have been recorded but is not. */
static void give_up(struct collector *c, pid_t pid, enum missed_reason reason,
		    const struct error *error)
{
	AUTO_FREE char *exe = pid ? procfs_exe(pid) : NULL;

	memcpy(c->last_error, error->message, sizeof c->last_error);
	process_log_miss(&c->process_log, reason, exe);
}

/* Whether the process does not belong to this recording; the caller dismisses it. */
static bool is_unwanted(struct collector *c, pid_t pid, const struct live_profile *profile)
{
	int rank = (int)profile->head->own.rank - 1;

	if (rank != RANK_NONE && !ranks_have(&c->options->ranks, rank)) {
		c->other_ranks++;
		return true;
	}
	return c->self.st_ino != 0 && pid != 0 && procfs_exe_is(pid, &c->self);
}

static bool exe_matches(const regex_t *regex, const struct target *target)
{
	const char *exe = target->known.exe;

	return exe && regexec(regex, exe, 0, NULL, 0) == 0;
}

/* Takes over a profile. pid 0: the process has ended. The target takes ownership of pid_fd. */
static void welcome(struct collector *c, struct live_profile *profile, pid_t pid, int pid_fd,
		    uint64_t now_ns)
{
	struct error error = ERROR_INIT;
	struct target *target;
	uint64_t inode = profile->inode;

	end_earlier_self(c, pid, now_ns);
	settle_ticket(c, profile->head->own.ticket);
	if (is_unwanted(c, pid, profile)) {
		live_profile_dismiss(profile);
		live_profile_release(profile);
		if (pid_fd >= 0)
			close(pid_fd);
		return;
	}
	target = target_take_over(profile, pid, pid_fd, c->options, &c->cgroups, c->start_ns,
				  now_ns, &error);
	if (!target || !vector_push(&c->targets, target)) {
		give_up(c, pid, MISSED_no_memory, &error);
		target_free(target);
		return;
	}
	if (c->options->only_exe && !exe_matches(c->options->only_exe, target)) {
		live_profile_make_dormant(&target->profile);
		target->left_out = true;
	}
	/* If ranks were selected, a process without a rank is the launcher. */
	if (!ranks_have(&c->options->ranks, (int)target->known.rank - 1))
		target->left_out = true;
	(void)vector_push(&c->unconnected.inodes, inode);
	(void)number_of(&c->taken, target->id);
	c->welcomed++;
	if (pid == c->child && c->child_ended)
		collector_end_child(c, target, now_ns);
	else if (pid == 0)
		collector_end_other(target, now_ns);
}

/* Returns true if the process started later than the profile, so that its pid was reused. The clocks of different time namespaces cannot be
 * compared. */
static bool is_too_young(pid_t pid, const struct live_profile *profile)
{
	uint64_t started_ns = profile->head->started_mono_ns;

	return started_ns <= clock_monotonic_ns() && procfs_started_after(pid, started_ns);
}

/* Opens a pidfd of the process that connected. -1 also if its pid was reused. */
static int pid_fd_by_number(pid_t pid, const struct live_profile *profile)
{
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd >= 0 && is_too_young(pid, profile))
		close(TAKE_FD(fd));
	return fd;
}

/* Takes over the profile of a hello message. */
static void take_hello(struct collector *c, struct pending *pending, const struct live_hello *hello,
		       int fd, uint64_t now_ns)
{
	struct live_profile profile = LIVE_PROFILE_INIT;
	struct error error = ERROR_INIT;
	bool gone;

	if (fd < 0 && hello->at == 0) { /* its rank was not selected */
		c->other_ranks++;
		settle_ticket(c, hello->ticket);
		return;
	}
	if ((fd >= 0 ? live_profile_take(&profile, fd, &error)
		     : live_profile_take_memory(&profile, pending->pid, hello->at, &error)) < 0) {
		settle_ticket(c, hello->ticket);
		give_up(c, pending->pid, MISSED_no_room, &error);
		return;
	}
	if (is_known(c, profile.head->own.id)) { /* a duplicate */
		live_profile_release(&profile);
		return;
	}
	if (pending->pid_fd < 0)
		pending->pid_fd = pid_fd_by_number(pending->pid, &profile);
	gone = pending->pid_fd < 0 && pending->pid != c->child;
	welcome(c, &profile, gone ? 0 : pending->pid, TAKE_FD(pending->pid_fd), now_ns);
}

/* No descriptor was free for the profile of a hello message. */
static void lose_hello(struct collector *c, pid_t pid, const struct live_hello *hello)
{
	struct error error = ERROR_INIT;

	error_set(&error, "heapgauge has no descriptor left for it: raise the limit (ulimit -n)");
	settle_ticket(c, hello->ticket);
	give_up(c, pid, MISSED_no_memory, &error);
}

/* Requests a snapshot of one process, or of all. False: there is no such process. */
static bool grant(struct collector *c, const struct live_request *request)
{
	bool found = false;

	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->ended_ns != 0 ||
		    (request->pid != 0 && (pid_t)request->pid != target->pid))
			continue;
		target_request(target, request->name);
		found = true;
	}
	return found;
}

/* A process that hands over must present the secret. A process that records itself has none, but its user may send requests. */
static bool is_admitted(const struct collector *c, int connection)
{
	return c->source->hands_over ||
	       (c->targets.count > 0 && handover_is_from(connection, c->targets.at[0]->known.uid));
}

void collector_accept(struct collector *c, uint64_t now_ns)
{
	struct pending pending = { .since_ns = now_ns };

	if (c->listener.fd[0] < 0)
		return;
	c->is_full = !handover_has_room(&c->listener, HANDOVER_NEEDED);
	for (size_t i = 0; i < LISTENER_SOCKETS; i++) {
		while (c->pending.count < PENDING_MAX && !c->is_full &&
		       (pending.fd = handover_accept(c->listener.fd[i], &pending.pid,
						     &pending.pid_fd)) >= 0) {
			if (!is_admitted(c, pending.fd) || !vector_push(&c->pending, pending))
				pending_close(&pending);
			c->is_full = !handover_has_room(&c->listener, HANDOVER_NEEDED);
		}
	}
}

void collector_serve(struct collector *c, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->pending.count; i++) {
		struct pending pending = c->pending.at[i];
		union handover_message message;
		int fd;

		if (!handover_has_room(&c->listener, HANDOVER_NEEDED / 2) &&
		    now_ns - pending.since_ns < FULL_TIMEOUT_NS) {
			c->is_full = true;
			c->pending.at[kept++] = pending;
			continue;
		}
		enum handover_state state =
			handover_receive(pending.fd, &c->listener.secret, &message, &fd);

		if (state == HANDOVER_WAIT && now_ns - pending.since_ns < MESSAGE_TIMEOUT_NS) {
			c->pending.at[kept++] = pending;
			continue;
		}
		if (state == HANDOVER_LOST && c->source->hands_over)
			lose_hello(c, pending.pid, &message.hello);
		if (state == HANDOVER_HELLO && c->source->hands_over)
			take_hello(c, &pending, &message.hello, TAKE_FD(fd), now_ns);
		if (fd >= 0)
			close(fd);
		if (state == HANDOVER_REQUEST)
			handover_answer(pending.fd, grant(c, &message.request));
		pending_close(&pending);
	}
	c->pending.count = kept;
}

/* ---- the folder ---- */

/* Returns true if it exists, but hides from its own user (PR_SET_DUMPABLE). */
static bool is_hidden(pid_t pid)
{
	AUTO_CLOSE int fd = open(procfs_path(pid, "maps").text, O_RDONLY | O_CLOEXEC);

	return fd < 0 && errno == EACCES;
}

/* Whether our child, which has ended, is the one whose profile this is: wait(2) tells how it ended. */
static bool is_of_ended_child(const struct collector *c, pid_t pid)
{
	if (pid != c->child || !collector_child_has_ended(c))
		return false;
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->pid == pid)
			return false; /* before or after an exec */
	}
	return true;
}

/* Returns true if everything fits that a process shows which hides from its own user: the user who created the file, the pid in its own
 * namespace, and a start between ours and the profile's. */
static bool fits_hidden(pid_t pid, const struct live_profile *profile, const struct stat *file)
{
	return is_hidden(pid) && procfs_own_pid(pid) == (pid_t)profile->head->pid &&
	       procfs_user(pid) == file->st_uid + 1 &&
	       procfs_started_ticks(pid) >= procfs_started_ticks(getpid()) &&
	       !is_too_young(pid, profile);
}

/* Its forks map the file too. */
static bool maps_own(pid_t pid, const struct live_profile *profile, const struct stat *file)
{
	return recorded_maps(pid, file) && procfs_own_pid(pid) == (pid_t)profile->head->pid;
}

static bool is_owner(pid_t pid, const struct live_profile *profile, const struct stat *file)
{
	return maps_own(pid, profile, file) || fits_hidden(pid, profile, file);
}

static bool is_target(const struct collector *c, pid_t pid)
{
	for (size_t i = 0; i < c->targets.count; i++)
		if (c->targets.at[i]->pid == pid && c->targets.at[i]->ended_ns == 0)
			return true;
	return false;
}

/* Searches all processes for the owner. 0: there is none, or several hide and fit. */
static pid_t search_owner(const struct collector *c, const struct live_profile *profile,
			  const struct stat *file)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir("/proc");
	bool is_fork = profile->head->own.begin == LIVE_BEGIN_FORK;
	size_t hidden = 0;
	pid_t pid, found = 0;

	while ((pid = procfs_next(folder)) != 0) {
		if (maps_own(pid, profile, file))
			return pid;
		if (!fits_hidden(pid, profile, file) || (is_fork && is_target(c, pid)))
			continue;
		hidden++;
		found = pid;
	}
	return hidden == 1 ? found : 0;
}

static bool has_ended(int pid_fd)
{
	struct pollfd poll_fd = { .fd = pid_fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0;
}

/* The process that owns a profile file, with its pidfd; 0: it has ended, or is unknown. The pid in the profile has a meaning only in the pid
 * namespace of the process. */
static pid_t owner_of(const struct collector *c, const struct live_profile *profile,
		      const struct stat *file, int *ret_fd)
{
	pid_t pid = (pid_t)profile->head->pid;
	uint64_t namespace = procfs_pid_namespace(getpid());

	*ret_fd = -1;
	if (namespace == 0 || namespace != profile->head->own.pid_namespace)
		pid = search_owner(c, profile, file);
	else if (is_of_ended_child(c, pid))
		return pid;
	if (pid <= 0)
		return 0;
	/* Checked while the pidfd is open: the pid cannot be reused before the process ends. */
	errno = 0;
	*ret_fd = pid_fd_by_number(pid, profile);
	bool has_pid_fd = *ret_fd >= 0 || errno == ENOSYS;

	if (has_pid_fd && is_owner(pid, profile, file) && (*ret_fd < 0 || !has_ended(*ret_fd)))
		return pid;
	if (*ret_fd >= 0)
		close(TAKE_FD(*ret_fd));
	return 0;
}

/* Takes over a profile file once its process has initialized it. False: not initialized yet, or it does not belong to this
 * recording. */
static bool take_file(struct collector *c, const char *path, uint64_t now_ns)
{
	struct live_profile profile = LIVE_PROFILE_INIT;
	struct error error = ERROR_INIT;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int pid_fd;
	pid_t pid;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) < 0 || (st.st_uid != geteuid() && geteuid() != 0)) {
		close(fd);
		return false;
	}
	if (live_profile_take_file(&profile, fd, path, &error) < 0)
		return false;
	if (!live_profile_is_ready(&profile) ||
	    !live_secret_equal(&profile.head->own.secret, &c->listener.secret) ||
	    is_known(c, profile.head->own.id)) {
		bool known = is_known(c, profile.head->own.id);

		free(TAKE(profile.file)); /* keeps the file */
		live_profile_release(&profile);
		return known;
	}
	pid = owner_of(c, &profile, &st, &pid_fd);
	welcome(c, &profile, pid, pid_fd, now_ns);
	return true;
}

/* Whether the folder has changed since the last scan. A file that is not initialized yet counts as a change. */
static bool has_changed(struct collector *c)
{
	struct stat st;

	if (stat(c->listener.folder, &st) < 0)
		return false;
	if (!c->folder_is_unsettled && st.st_mtim.tv_sec == c->folder_mtime.tv_sec &&
	    st.st_mtim.tv_nsec == c->folder_mtime.tv_nsec)
		return false;
	c->folder_mtime = st.st_mtim;
	return true;
}

void collector_search_folder(struct collector *c, uint64_t now_ns)
{
	AUTO_CLOSE_FOLDER DIR *folder = NULL;
	const struct dirent *entry;
	unsigned seen = 0;

	if (!c->listener.folder[0] || now_ns < c->next_folder_ns)
		return;
	c->next_folder_ns = now_ns + FOLDER_UNCHANGED_NS;
	if (!has_changed(c))
		return;
	c->next_folder_ns = now_ns + FOLDER_NS;
	c->folder_is_unsettled = false;
	folder = opendir(c->listener.folder);
	while (folder && (entry = readdir(folder)) && seen++ < FOLDER_MAX) {
		char path[PATH_BYTES];

		snprintf(path, sizeof path, "%s/%s", c->listener.folder, entry->d_name);
		if (!recorded_file_name(path))
			continue;
		if (!handover_has_room(&c->listener, HANDOVER_NEEDED))
			c->is_full = c->folder_is_unsettled = true;
		else if (!take_file(c, path, now_ns))
			c->folder_is_unsettled = true;
	}
}

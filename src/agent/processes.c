/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is the same as long as its pid maps its profile at the same address: a new program (exec) or another process has
 * another one. Owned by the agent's loop.
 */
#include "agent/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/openat2.h"
#include "collect/kernel/container.h"
#include "collect/kernel/mapped_file.h"
#include "collect/kernel/oom.h"
#include "collect/kernel/procfs.h"
#include "collect/profile/profile_copy.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

enum { ID_AT = offsetof(struct live_header, own) + offsetof(struct live_own, id) };

/* Connections, the queue, files of /proc: what must go on however many processes there are. */
enum { RESERVED_FDS = 512 };
enum { FDS_OF_READING = 8 }; /* what is reserved for each process that is read at once */

void processes_init(struct processes *processes, const struct agent_settings *settings)
{
	struct rlimit limit = { 1024, 1024 };

	getrlimit(RLIMIT_NOFILE, &limit);
	rlim_t reserved = MIN(limit.rlim_cur / 2, (rlim_t)RESERVED_FDS);

	*processes = (struct processes){
		.settings = settings,
		.held_max = limit.rlim_cur - reserved,
		.batch_max = reserved / FDS_OF_READING,
	};
	cgroups_init(&processes->cgroups, "");
}

static void process_free(struct processes *processes, struct agent_process *process)
{
	processes->held -= process->profile_fd >= 0;
	cleanup_close(&process->profile_fd);
	free(process->leftover);
	free(process->group);
	free(process->reading);
	free(process->tags);
	free(process);
}

void processes_release(struct processes *processes)
{
	for (size_t i = 0; i < processes->at.count; i++)
		process_free(processes, processes->at.at[i]);
	vector_release(&processes->at);
	cgroups_release(&processes->cgroups);
}

struct agent_process *processes_find(const struct processes *processes, pid_t pid)
{
	for (size_t i = 0; i < processes->at.count; i++)
		if (processes->at.at[i]->recorded.pid == pid &&
		    processes->at.at[i]->fate == FATE_RUNS)
			return processes->at.at[i];
	return NULL;
}

struct process_key process_key(const struct agent_process *process)
{
	struct process_key key;

	snprintf(key.text, sizeof key.text, "%016llx_%u", (unsigned long long)process->id,
		 process->uid);
	return key;
}

const char *process_fate_name(enum process_fate fate)
{
	static const char *const names[] = { NULL, "exited", "killed", "oom" };

	return names[fate];
}

/* ---- new processes ---- */

/* The control group in the agent's view: version 2, or the memory controller of version 1. malloc'd; NULL: none. */
static char *group_of(pid_t pid)
{
	AUTO_FREE char *text = procfs_file(pid, "cgroup", NULL);
	const char *found = NULL;

	for (const char *line = text; line && *line;) {
		const char *end = strchrnul(line, '\n'),
			   *path = memchr(line, '/', (size_t)(end - line));

		if (path && (strncmp(line, "0::", 3) == 0
				     ? !found
				     : strstr(line, ":memory:") && strstr(line, ":memory:") < path))
			found = path;
		line = *end ? end + 1 : end;
	}
	return found ? strndup(found, strcspn(found, "\n")) : NULL;
}

bool process_is_unheld(const struct agent_process *process)
{
	return process->profile_fd < 0 && process->file.inode != 0 && process->fate == FATE_RUNS;
}

/* -1 with errno set; ENOENT: it has ended, or runs another program. */
static int process_open(const struct agent_process *process)
{
	struct profile_copy held = PROFILE_COPY_INIT;
	AUTO_CLOSE int fd = profile_copy_hold(&held, &process->recorded) ? held.fd : -1;
	struct stat file;

	if (fd < 0)
		return -1;
	if (fstat(fd, &file) < 0 ||
	    (process->file.inode &&
	     (file.st_ino != process->file.inode || file.st_dev != process->file.device))) {
		errno = ENOENT;
		return -1;
	}
	return TAKE_FD(fd);
}

bool process_borrow(const struct agent_process *process, int *ret_fd)
{
	*ret_fd = process->profile_fd >= 0 ? fcntl(process->profile_fd, F_DUPFD_CLOEXEC, 0)
		  : process->file.inode	   ? process_open(process)
					   : -1;
	return *ret_fd >= 0 || process->file.inode == 0;
}

/* Takes ownership of the descriptor, and keeps it if there are enough. */
static void hold(struct processes *processes, struct agent_process *process, int fd)
{
	struct stat file;

	if (fd < 0)
		return;
	if (fstat(fd, &file) == 0)
		process->file = (struct recorded_file){ file.st_dev, file.st_ino };
	if (processes->held < processes->held_max) {
		process->profile_fd = fd;
		processes->held++;
	} else {
		close(fd);
	}
}

/* Those for which there were no descriptors when they were found. */
static void hold_more(struct processes *processes)
{
	for (size_t i = 0; i < processes->at.count && processes->held < processes->held_max; i++)
		if (process_is_unheld(processes->at.at[i]))
			hold(processes, processes->at.at[i], process_open(processes->at.at[i]));
}

/* What the process wrote about itself; fd -1: nothing. */
static void read_own(int fd, struct live_own *own)
{
	if (pread(fd, own, sizeof *own, offsetof(struct live_header, own)) != (ssize_t)sizeof *own)
		*own = (struct live_own){ 0 };
	own->host[sizeof own->host - 1] = own->cgroup[sizeof own->cgroup - 1] = '\0';
	own->exe[sizeof own->exe - 1] = '\0';
}

/* fd -1: it could not be opened. */
static uint64_t read_id(const struct agent_process *process, int fd)
{
	uint64_t id = 0;
	struct iovec local = { &id, sizeof id };
	struct iovec remote = { (void *)(uintptr_t)(process->recorded.profile + ID_AT), sizeof id };
	ssize_t got = fd >= 0 ? pread(fd, &id, sizeof id, ID_AT)
			      : process_vm_readv(process->recorded.pid, &local, 1, &remote, 1, 0);

	return got == sizeof id ? id : 0;
}

/* UINT64_MAX: unknown. */
static uint64_t group_kills_now(const struct processes *processes,
				const struct agent_process *process)
{
	return process->group ? cgroups_oom_kills(&processes->cgroups, process->group) : UINT64_MAX;
}

/* NULL if it has ended meanwhile, is refused, or out of memory. */
static struct agent_process *process_new(struct processes *processes,
					 const struct recorded *recorded, uint64_t now_ns)
{
	struct agent_process *process = calloc(1, sizeof *process);
	AUTO_FREE char *exe = procfs_exe(recorded->pid);
	struct procfs_owner owner;
	struct live_own own;

	if (!process)
		return NULL;
	*process = (struct agent_process){ .recorded = *recorded,
					   .profile_fd = -1,
					   .started_ticks = procfs_started_ticks(recorded->pid),
					   .group = group_of(recorded->pid),
					   .seen_ns = now_ns,
					   .first_ns = now_ns,
					   .next_ns = now_ns };
	AUTO_CLOSE int fd = process_open(process);
	bool is_refused = fd < 0 && errno == ENOTSUP;

	processes->refused += is_refused;
	process->id = is_refused ? 0 : read_id(process, fd);
	if (process->id == 0 || !procfs_owner(recorded->pid, &owner)) {
		process_free(processes, process);
		return NULL;
	}
	read_own(fd, &own);
	hold(processes, process, TAKE_FD(fd));
	process->group_kills = group_kills_now(processes, process);
	process->uid = process->reader_uid = owner.uid;
	process->reader_gid = owner.gid;
	process->is_local = container_is_ours(recorded->pid);
	labels_of(&process->labels, recorded->pid, exe && *exe ? path_base(exe) : NULL, own.host,
		  processes->settings);
	return process;
}

/* ---- the end ---- */

/* A process that exits removes the file of its profile. */
enum profile_file { PROFILE_FILE_UNKNOWN, PROFILE_FILE_REMOVED, PROFILE_FILE_LEFT };

static enum profile_file profile_file_of(const struct agent_process *process)
{
	struct stat file;

	if (process->profile_fd < 0 || !process->recorded.file[0] ||
	    fstat(process->profile_fd, &file) < 0)
		return PROFILE_FILE_UNKNOWN;
	return file.st_nlink ? PROFILE_FILE_LEFT : PROFILE_FILE_REMOVED;
}

/* Its pid may be another's by now. */
static bool has_ended(const struct agent_process *process)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, process->recorded.pid, 0);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return errno == ESRCH || errno == EINVAL;
	return poll(&poll_fd, 1, 0) > 0 ||
	       procfs_started_ticks(process->recorded.pid) != process->started_ticks;
}

/* Its memory is gone, and how it ended is known in a moment. On a busy machine a scan may come between the two. */
static bool is_ending(const struct agent_process *process)
{
	AUTO_CLOSE int statm = procfs_statm_open(process->recorded.pid);

	return procfs_rss(statm) == 0;
}

/* Returns true if the count of its group rose by a kill that explains no other end. Pre: the process was killed. */
static bool take_group_kill(struct processes *processes, const struct agent_process *process)
{
	uint64_t kills = group_kills_now(processes, process);

	if (kills == UINT64_MAX || process->group_kills == UINT64_MAX ||
	    kills <= process->group_kills)
		return false;
	for (size_t i = 0; i < processes->at.count; i++) {
		struct agent_process *other = processes->at.at[i];

		if (other->group && strcmp(other->group, process->group) == 0 &&
		    other->group_kills != UINT64_MAX)
			other->group_kills++;
	}
	return true;
}

/* One in a collector's memory leaves no file: only the kernel's log tells how it ended. */
static enum process_fate fate_of(struct processes *processes, const struct agent_process *process)
{
	AUTO(oom_log_release) struct oom_log log = { 0 };
	const struct oom_victim victim = { .pid = process->recorded.pid,
					   .pid_namespace = procfs_pid_namespace(getpid()),
					   .name = process->reading ? process->reading->program
								    : "",
					   .started_ns = process->first_ns,
					   .seen_ns = process->seen_ns };
	enum profile_file file = profile_file_of(process);

	if (file == PROFILE_FILE_REMOVED)
		return FATE_EXITED;
	oom_log_read(&log);
	if (oom_log_find(&log, &victim))
		return FATE_OOM;
	if (file == PROFILE_FILE_UNKNOWN)
		return FATE_EXITED;
	return !oom_log_is_complete(&log, &victim) && take_group_kill(processes, process)
		       ? FATE_OOM
		       : FATE_KILLED;
}

bool process_is_empty(const struct agent_process *process)
{
	uint32_t ready = 0;

	return pread(process->profile_fd, &ready, sizeof ready,
		     offsetof(struct live_header, ready)) != (ssize_t)sizeof ready ||
	       ready == 0;
}

/* ---- files of processes that were never seen, or not by this agent ---- */

static bool is_of(const struct agent_process *process, const struct stat *file)
{
	return process->file.inode && process->file.inode == file->st_ino &&
	       process->file.device == file->st_dev;
}

static struct agent_process *owner_of(const struct processes *processes, const struct stat *file)
{
	for (size_t i = 0; i < processes->at.count; i++)
		if (is_of(processes->at.at[i], file))
			return processes->at.at[i];
	return NULL;
}

/* Others may write to the folder, and mount on what is theirs there: no link is followed, and no other file system asked, which
 * may not answer (mapped_file.h). -1 with errno set; EXDEV: something is mounted there. */
static int look_at(int folder, const char *name, struct stat *ret)
{
	const struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				      .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS };
	AUTO_CLOSE int fd = openat2_call(folder, name, &how);

	return fd >= 0 && fstat(fd, ret) == 0 ? TAKE_FD(fd) : -1;
}

/* -1: it is gone, or another one is there. */
static int folder_of_leftover(const struct agent_process *process)
{
	AUTO_FREE char *path = process->leftover ? path_folder(process->leftover) : NULL;
	AUTO_CLOSE int folder = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct stat file;
	AUTO_CLOSE int fd = folder >= 0 ? look_at(folder, path_base(process->leftover), &file) : -1;

	return fd >= 0 && is_of(process, &file) ? TAKE_FD(folder) : -1;
}

int process_remove_file(const struct agent_process *process, struct error *error)
{
	AUTO_CLOSE int folder = folder_of_leftover(process);

	return folder < 0 || unlinkat(folder, path_base(process->leftover), 0) == 0 ||
			       errno == ENOENT
		       ? 0
		       : error_errno(error, "cannot remove %s", process->leftover);
}

static int open_leftover(DIR *folder, const char *name, struct stat *ret)
{
	AUTO_CLOSE int pinned = look_at(dirfd(folder), name, ret);
	char path[64];

	if (pinned < 0 || !S_ISREG(ret->st_mode))
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", pinned);
	return file_open_regular(path, ret, NULL);
}

/* The labels that a process without /proc can have: those of the settings, and what it wrote about itself. */
static void label_leftover(struct processes *processes, struct agent_process *process,
			   const struct live_own *own)
{
	char uid[40], host[65] = "";

	gethostname(host, sizeof host - 1);
	labels_of(&process->labels, 0, path_base(own->exe), "", processes->settings);
	labels_set(&process->labels, "pid", "");
	if (strcmp(own->host, host) != 0)
		labels_set(&process->labels, "container", own->host);
	if (labels_pod_uid(own->cgroup, uid, sizeof uid))
		labels_set(&process->labels, "pod_uid", uid);
}

/* Only the log tells: the count of its group since it began may be of siblings. */
static bool is_in_oom_log(int fd, const struct live_own *own)
{
	AUTO(oom_log_release) struct oom_log log = { 0 };
	struct live_control control;
	uint64_t total, started_ns;
	uint32_t pid;

	if (pread(fd, &pid, sizeof pid, offsetof(struct live_header, pid)) != sizeof pid ||
	    pread(fd, &started_ns, sizeof started_ns,
		  offsetof(struct live_header, started_mono_ns)) != sizeof started_ns ||
	    pread(fd, &total, sizeof total, offsetof(struct live_header, total_bytes)) !=
		    sizeof total ||
	    pread(fd, &control, sizeof control, (off_t)total) != sizeof control)
		return false;
	const struct oom_victim victim = {
		.pid = (pid_t)pid,
		.pid_namespace = own->pid_namespace,
		.name = path_base(own->exe),
		.started_ns = started_ns,
		.seen_ns = saturating_add(started_ns, saturating_mul(control.clock_ms, NS_PER_MS)),
	};

	oom_log_read(&log);
	return oom_log_find(&log, &victim);
}

/* Takes ownership of the descriptor. */
static void add_leftover(struct processes *processes, int fd, const struct stat *file,
			 const char *path, uint64_t now_ns)
{
	struct agent_process *process = calloc(1, sizeof *process);
	struct live_own own;

	if (!process) {
		close(fd);
		return;
	}
	read_own(fd, &own);
	*process = (struct agent_process){ .profile_fd = fd,
					   .file = { file->st_dev, file->st_ino },
					   .leftover = strdup(path),
					   .id = own.id,
					   .uid = file->st_uid,
					   .reader_uid = file->st_uid,
					   .reader_gid = file->st_gid,
					   .fate = FATE_KILLED,
					   .first_ns = now_ns,
					   .next_ns = now_ns,
					   .seen_ns = now_ns };
	processes->held++;
	if (is_in_oom_log(fd, &own))
		process->fate = FATE_OOM;
	label_leftover(processes, process, &own);
	if (!process->leftover || !vector_push(&processes->at, process))
		process_free(processes, process);
}

/* The file of a process that was seen while it ran. Takes ownership of the descriptor. */
static void adopt(struct processes *processes, struct agent_process *process, int fd,
		  const char *path)
{
	AUTO_CLOSE int own = fd;

	if (process->profile_fd < 0 && processes->held >= processes->held_max) {
		process->is_counted = true; /* as soon as there is a descriptor, with its file */
		return;
	}
	process->leftover = strdup(path);
	if (process->profile_fd >= 0)
		return;
	hold(processes, process, TAKE_FD(own));
	if (process->fate == FATE_EXITED)
		process->fate = FATE_KILLED;
}

static void see_file(struct processes *processes, const struct recorded_list *list, DIR *folder,
		     const char *name, const char *path, uint64_t now_ns)
{
	struct stat file;

	errno = 0;
	AUTO_CLOSE int fd = open_leftover(folder, name, &file);
	struct agent_process *known = fd >= 0 ? owner_of(processes, &file) : NULL;

	processes->refused += fd < 0 && errno == EXDEV;
	if (known && known->fate != FATE_RUNS && !known->leftover)
		adopt(processes, known, TAKE_FD(fd), path);
	if (fd >= 0 && !known && processes->held < processes->held_max &&
	    !recorded_list_has_file(list, &file) && !file_has_writer(fd))
		add_leftover(processes, TAKE_FD(fd), &file, path, now_ns);
}

static void scan_leftovers(struct processes *processes, const struct recorded_list *list,
			   uint64_t now_ns)
{
	AUTO_FREE char *folders =
		processes->settings->leftovers ? strdup(processes->settings->leftovers) : NULL;
	char *rest = folders;

	for (const char *folder; (folder = strsep(&rest, ":"));) {
		AUTO_CLOSE_FOLDER DIR *stream = opendir(folder);
		const struct dirent *entry;

		while (stream && (entry = readdir(stream))) {
			AUTO_FREE char *path = path_join(folder, entry->d_name);

			if (path && recorded_file_name(path) &&
			    processes->at.count < processes->settings->max_processes)
				see_file(processes, list, stream, entry->d_name, path, now_ns);
		}
	}
}

/* ---- all ---- */

/* Those that run, by pid: a scan must not search all processes for each process. */
struct running {
	VECTOR(struct agent_process *) by_pid;
};

static int compare_pids(const void *left, const void *right)
{
	const struct agent_process *const *a = left, *const *b = right;

	return ((*a)->recorded.pid > (*b)->recorded.pid) -
	       ((*a)->recorded.pid < (*b)->recorded.pid);
}

static bool running_sort(struct running *ret, const struct processes *processes)
{
	if (!vector_reserve(&ret->by_pid, processes->at.count + 1))
		return false;
	for (size_t i = 0; i < processes->at.count; i++)
		if (processes->at.at[i]->fate == FATE_RUNS)
			ret->by_pid.at[ret->by_pid.count++] = processes->at.at[i];
	qsort(ret->by_pid.at, ret->by_pid.count, sizeof *ret->by_pid.at, compare_pids);
	return true;
}

static int compare_pid_of_process(const void *pid, const void *process)
{
	pid_t wanted = *(const pid_t *)pid,
	      own = (*(struct agent_process *const *)process)->recorded.pid;

	return (wanted > own) - (wanted < own);
}

static struct agent_process *running_find(const struct running *running, pid_t pid)
{
	struct agent_process **found = bsearch(&pid, running->by_pid.at, running->by_pid.count,
					       sizeof *running->by_pid.at, compare_pid_of_process);

	return found ? *found : NULL;
}

/* Compares the mapping with the profile. Without privileges it reads the ID from memory, which the kernel may not allow either. */
static enum mapped_file_match profile_match(const struct agent_process *process)
{
	const struct recorded *recorded = &process->recorded;
	enum mapped_file_match match =
		mapped_file_match(recorded->pid, recorded->profile, recorded->profile_end,
				  recorded->mapped.device, recorded->mapped.inode);

	if (match != MAPPED_FILE_UNKNOWN)
		return match;
	errno = 0;
	uint64_t id = read_id(process, -1);

	if (id == 0 && errno == EPERM)
		return MAPPED_FILE_UNKNOWN;
	return id == process->id ? MAPPED_FILE_SAME : MAPPED_FILE_OTHER;
}

bool process_is_replaced(const struct agent_process *process)
{
	return profile_match(process) == MAPPED_FILE_OTHER;
}

/* A process without a reading may still show the profile of the process that forked it. */
static bool is_unchanged(void *context, pid_t pid)
{
	struct agent_process *process = running_find(context, pid);

	if (!process || !process->reading)
		return false;
	process->is_unchanged = profile_match(process) == MAPPED_FILE_SAME;
	return process->is_unchanged;
}

static int compare_pid_of_recorded(const void *pid, const void *recorded)
{
	pid_t wanted = *(const pid_t *)pid, own = ((const struct recorded *)recorded)->pid;

	return (wanted > own) - (wanted < own);
}

static const struct recorded *listed(const struct recorded_list *list, pid_t pid)
{
	return list->found.count ? bsearch(&pid, list->found.at, list->found.count,
					   sizeof *list->found.at, compare_pid_of_recorded)
				 : NULL;
}

/* A daemon that has given up root since: what it writes is to be read with what it has left. */
static void see_owner(struct agent_process *process)
{
	struct procfs_owner owner;

	if (process->reader_uid != 0 || !procfs_owner(process->recorded.pid, &owner))
		return;
	process->reader_uid = owner.uid;
	process->reader_gid = owner.gid;
}

static void see_ends(struct processes *processes, const struct recorded_list *list, uint64_t now_ns)
{
	for (size_t i = 0; i < processes->at.count; i++) {
		struct agent_process *process = processes->at.at[i];

		if (process->fate != FATE_RUNS)
			continue;
		const struct recorded *now = process->is_unchanged
						     ? &process->recorded
						     : listed(list, process->recorded.pid);

		bool is_same = process->is_unchanged;

		process->is_unchanged = false;
		if (!is_same && has_ended(process))
			process->fate = fate_of(processes, process);
		else if (!now && is_ending(process))
			continue;
		else if (!now || now->profile != process->recorded.profile ||
			 now->mapped.inode != process->recorded.mapped.inode ||
			 now->mapped.device != process->recorded.mapped.device)
			process->fate = FATE_EXITED; /* it runs another program */
		else
			process->seen_ns = now_ns;
		if (process->fate == FATE_RUNS)
			see_owner(process);
		else
			process->next_ns = now_ns;
	}
}

/* After see_ends: what its group counts from here on may explain the end of a process. */
static void refresh_group_kills(struct processes *processes)
{
	for (size_t i = 0; i < processes->at.count; i++) {
		struct agent_process *process = processes->at.at[i];

		if (process->fate == FATE_RUNS && process->recorded.file[0])
			process->group_kills = group_kills_now(processes, process);
	}
}

static void add_new(struct processes *processes, const struct running *running,
		    const struct recorded_list *list, uint64_t now_ns)
{
	for (size_t i = 0; i < list->found.count; i++) {
		const struct agent_process *known = running_find(running, list->found.at[i].pid);

		if (known && known->fate == FATE_RUNS)
			continue;
		if (processes->at.count >= processes->settings->max_processes) {
			processes->left_out++;
			continue;
		}
		struct agent_process *process = process_new(processes, &list->found.at[i], now_ns);

		if (process && !vector_push(&processes->at, process))
			process_free(processes, process);
	}
}

int processes_scan(struct processes *processes, uint64_t now_ns, struct error *error)
{
	AUTO(recorded_list_release) struct recorded_list list = { 0 };
	struct running running = { 0 };
	int status = running_sort(&running, processes) ? 0 : error_set(error, "out of memory");

	if (status == 0)
		status = recorded_list_new(&list, is_unchanged, &running, error);
	if (status == 0) {
		see_ends(processes, &list, now_ns);
		refresh_group_kills(processes);
		processes->hidden = list.hidden;
		processes->left_out = processes->refused = 0;
		hold_more(processes);
		add_new(processes, &running, &list, now_ns);
		scan_leftovers(processes, &list, now_ns);
	}
	vector_release(&running.by_pid);
	return status;
}

/* As long as its file is there, it must not be taken for a new one. */
static bool is_over(const struct agent_process *process)
{
	AUTO_CLOSE int folder = process->is_handled ? folder_of_leftover(process) : -1;

	return process->is_handled && folder < 0;
}

void processes_sweep(struct processes *processes)
{
	size_t kept = 0;

	for (size_t i = 0; i < processes->at.count; i++) {
		if (processes->at.at[i]->is_handled && processes->at.at[i]->profile_fd >= 0) {
			close(TAKE_FD(processes->at.at[i]->profile_fd));
			processes->held--;
		}
		if (is_over(processes->at.at[i]))
			process_free(processes, processes->at.at[i]);
		else
			processes->at.at[kept++] = processes->at.at[i];
	}
	processes->at.count = kept;
}

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collect/kernel/oom.h"
#include "collect/kernel/procfs.h"
#include "collect/profile/profile_copy.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

enum { ID_AT = offsetof(struct live_header, own) + offsetof(struct live_own, id) };

void processes_init(struct processes *processes, const struct agent_settings *settings)
{
	*processes = (struct processes){ .settings = settings };
	cgroups_init(&processes->cgroups, "");
}

static void process_free(struct agent_process *process)
{
	cleanup_close(&process->profile_fd);
	cleanup_close(&process->pid_fd);
	free(process->leftover);
	free(process->group);
	free(process->reading);
	free(process->tags);
	free(process);
}

void processes_release(struct processes *processes)
{
	for (size_t i = 0; i < processes->at.count; i++)
		process_free(processes->at.at[i]);
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

static uint64_t read_id(const struct agent_process *process)
{
	uint64_t id = 0;
	struct iovec local = { &id, sizeof id };
	struct iovec remote = { (void *)(uintptr_t)(process->recorded.profile + ID_AT), sizeof id };
	ssize_t got = process->profile_fd >= 0
			      ? pread(process->profile_fd, &id, sizeof id, ID_AT)
			      : process_vm_readv(process->recorded.pid, &local, 1, &remote, 1, 0);

	return got == sizeof id ? id : 0;
}

/* NULL if it has ended meanwhile, or out of memory. */
static struct agent_process *process_new(const struct processes *processes,
					 const struct recorded *recorded, uint64_t now_ns)
{
	struct agent_process *process = calloc(1, sizeof *process);
	struct profile_copy held = PROFILE_COPY_INIT;
	AUTO_FREE char *exe = procfs_exe(recorded->pid);
	struct procfs_owner owner;
	struct stat file;

	if (!process)
		return NULL;
	*process = (struct agent_process){ .recorded = *recorded,
					   .profile_fd = -1,
					   .pid_fd = (int)syscall(SYS_pidfd_open, recorded->pid, 0),
					   .group = group_of(recorded->pid),
					   .seen_ns = now_ns,
					   .first_ns = now_ns,
					   .next_ns = now_ns };
	if (profile_copy_hold(&held, recorded))
		process->profile_fd = TAKE_FD(held.fd);
	if (process->profile_fd >= 0 && fstat(process->profile_fd, &file) == 0)
		process->file = (struct recorded_file){ file.st_dev, file.st_ino };
	profile_copy_release(&held);
	process->group_kills = process->group
				       ? cgroups_oom_kills(&processes->cgroups, process->group)
				       : UINT64_MAX;
	process->id = read_id(process);
	if (process->pid_fd < 0 || process->id == 0 || !procfs_owner(recorded->pid, &owner)) {
		process_free(process);
		return NULL;
	}
	process->uid = process->reader_uid = owner.uid;
	process->reader_gid = owner.gid;
	labels_of(&process->labels, recorded->pid, exe && *exe ? path_base(exe) : NULL,
		  processes->settings);
	return process;
}

/* ---- the end ---- */

bool process_left_file(const struct agent_process *process)
{
	struct stat file;

	return process->profile_fd >= 0 && (process->leftover || process->recorded.file[0]) &&
	       fstat(process->profile_fd, &file) == 0 && file.st_nlink > 0;
}

static bool has_ended(const struct agent_process *process)
{
	struct pollfd poll_fd = { .fd = process->pid_fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0;
}

static bool was_oom_killed(const struct processes *processes, const struct agent_process *process)
{
	AUTO(oom_log_release) struct oom_log log = { 0 };
	const struct oom_victim victim = { .pid = process->recorded.pid,
					   .name = process->reading ? process->reading->program
								    : "",
					   .started_ns = process->first_ns,
					   .seen_ns = process->seen_ns };
	uint64_t kills = process->group ? cgroups_oom_kills(&processes->cgroups, process->group)
					: UINT64_MAX;

	oom_log_read(&log);
	return oom_log_find(&log, &victim) ||
	       (kills != UINT64_MAX && process->group_kills != UINT64_MAX &&
		kills > process->group_kills);
}

/* A process that exits removes the file of its profile. Of one in a collector's memory nothing is known. */
static enum process_fate fate_of(const struct processes *processes,
				 const struct agent_process *process)
{
	if (was_oom_killed(processes, process))
		return FATE_OOM;
	return process_left_file(process) ? FATE_KILLED : FATE_EXITED;
}

/* ---- files of processes that were never seen, or not by this agent ---- */

static bool is_of(const struct agent_process *process, const struct stat *file)
{
	return process->profile_fd >= 0 && process->file.inode == file->st_ino &&
	       process->file.device == file->st_dev;
}

static struct agent_process *owner_of(const struct processes *processes, const struct stat *file)
{
	for (size_t i = 0; i < processes->at.count; i++)
		if (is_of(processes->at.at[i], file))
			return processes->at.at[i];
	return NULL;
}

int process_remove_file(const struct agent_process *process, struct error *error)
{
	AUTO_FREE char *path = process->leftover ? path_folder(process->leftover) : NULL;
	AUTO_CLOSE int folder = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	const char *name = process->leftover ? path_base(process->leftover) : "";
	struct stat file;

	if (folder < 0 || fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_of(process, &file))
		return 0; /* it is gone, or another one is there */
	return unlinkat(folder, name, 0) == 0 || errno == ENOENT
		       ? 0
		       : error_errno(error, "cannot remove %s", process->leftover);
}

/* Others may write to the folder: no link is followed, and nothing is opened that is no file. */
static int open_leftover(DIR *folder, const char *name, struct stat *ret)
{
	AUTO_CLOSE int fd = -1;

	if (fstatat(dirfd(folder), name, ret, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(ret->st_mode))
		return -1;
	fd = openat(dirfd(folder), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) ? TAKE_FD(fd) : -1;
}

static void read_own(int fd, struct live_own *own)
{
	if (pread(fd, own, sizeof *own, offsetof(struct live_header, own)) != (ssize_t)sizeof *own)
		*own = (struct live_own){ 0 };
	own->host[sizeof own->host - 1] = own->cgroup[sizeof own->cgroup - 1] = '\0';
	own->exe[sizeof own->exe - 1] = '\0';
}

/* The labels that a process without /proc can have: those of the settings, and what it wrote about itself. */
static void label_leftover(struct processes *processes, struct agent_process *process,
			   const struct live_own *own)
{
	char uid[40], host[65] = "";

	gethostname(host, sizeof host - 1);
	labels_of(&process->labels, 0, path_base(own->exe), processes->settings);
	labels_set(&process->labels, "pid", "");
	if (strcmp(own->host, host) != 0)
		labels_set(&process->labels, "container", own->host);
	if (labels_pod_uid(own->cgroup, uid, sizeof uid))
		labels_set(&process->labels, "pod_uid", uid);
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
					   .pid_fd = -1,
					   .leftover = strdup(path),
					   .id = own.id,
					   .uid = file->st_uid,
					   .reader_uid = file->st_uid,
					   .reader_gid = file->st_gid,
					   .fate = FATE_KILLED,
					   .first_ns = now_ns,
					   .next_ns = now_ns,
					   .seen_ns = now_ns };
	uint64_t kills = cgroups_oom_kills(&processes->cgroups, own.cgroup);

	if (kills != UINT64_MAX && own.oom_kills != UINT64_MAX && kills > own.oom_kills)
		process->fate = FATE_OOM;
	label_leftover(processes, process, &own);
	if (!process->leftover || process->id == 0 || !vector_push(&processes->at, process))
		process_free(process);
}

static void see_file(struct processes *processes, const struct recorded_list *list, DIR *folder,
		     const char *name, const char *path, uint64_t now_ns)
{
	struct stat file;
	AUTO_CLOSE int fd = open_leftover(folder, name, &file);
	struct agent_process *known = fd >= 0 ? owner_of(processes, &file) : NULL;

	if (known && known->fate != FATE_RUNS && !known->leftover)
		known->leftover = strdup(path); /* it was seen while it ran */
	if (fd >= 0 && !known && !recorded_list_has_file(list, &file) && !file_has_writer(fd))
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

/* The profile's id at its address: neither another program nor another process has it. A process that was never read may still
 * show the profile of the one that forked it. */
static bool is_unchanged(void *context, pid_t pid)
{
	struct agent_process *process = running_find(context, pid);
	uint64_t id = 0;

	if (!process || !process->reading)
		return false;
	struct iovec local = { &id, sizeof id };
	struct iovec remote = { (void *)(uintptr_t)(process->recorded.profile + ID_AT), sizeof id };

	process->is_unchanged =
		process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof id && id == process->id;
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

		process->is_unchanged = false;
		if (has_ended(process))
			process->fate = fate_of(processes, process);
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
			process_free(process);
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
		processes->hidden = list.hidden;
		processes->left_out = 0;
		add_new(processes, &running, &list, now_ns);
		scan_leftovers(processes, &list, now_ns);
	}
	vector_release(&running.by_pid);
	return status;
}

/* As long as its file is there, it must not be taken for a new one. */
static bool is_over(const struct agent_process *process)
{
	return process->is_handled && !process_left_file(process);
}

void processes_sweep(struct processes *processes)
{
	size_t kept = 0;

	for (size_t i = 0; i < processes->at.count; i++) {
		if (is_over(processes->at.at[i]))
			process_free(processes->at.at[i]);
		else
			processes->at.at[kept++] = processes->at.at[i];
	}
	processes->at.count = kept;
}

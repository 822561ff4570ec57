/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded process has the header of its profile mapped for writing; only its forks have it mapped too. No state. Any thread.
 */
#include "collect/kernel/recorded_processes.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collect/kernel/core_file.h"
#include "collect/kernel/map_line.h"
#include "collect/kernel/mapped_file.h"
#include "collect/kernel/procfs.h"
#include "format/live/live.h"
#include "util/cleanup.h"

#define DELETED " (deleted)"

/* ---- reasons for failure ---- */

static long ptrace_scope(void)
{
	char text[16];

	if (procfs_small("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text) == 0)
		return 0;
	return strtol(text, NULL, 10);
}

static int not_permitted(pid_t pid, struct error *error)
{
	long scope = ptrace_scope();

	if (scope >= 3)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is %ld, which "
			"forbids it to all users until the next boot",
			(int)pid, scope);
	if (scope == 2)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is 2, which leaves it to root; "
			"run this as root",
			(int)pid);
	if (scope == 1)
		return error_set(
			error,
			"process %d may not be read: kernel.yama.ptrace_scope is 1, which allows it for "
			"descendants only; run this as root, or set it to 0",
			(int)pid);
	return error_set(
		error,
		"process %d may not be read: it belongs to another user, or has privileges that you do not "
		"have; run this as root",
		(int)pid);
}

int recorded_failed(pid_t pid, int number, struct error *error)
{
	if (number == ESRCH || number == ENOENT || (kill(pid, 0) < 0 && errno == ESRCH))
		return error_set(error, "process %d does not exist", (int)pid);
	if (number == EPERM || number == EACCES)
		return not_permitted(pid, error);
	errno = number;
	return error_errno(error, "cannot read the memory of process %d", (int)pid);
}

/* ---- mappings ---- */

static bool begins(const struct map_line *map, const char *name)
{
	return strncmp(map->name, name, strlen(name)) == 0;
}

bool recorded_file_name(const char *name)
{
	size_t length = strcspn(name, "\n");
	const char *base = memrchr(name, '/', length);
	size_t suffix = strlen(LIVE_FILE_SUFFIX);

	if (length > strlen(DELETED) &&
	    strncmp(name + length - strlen(DELETED), DELETED, strlen(DELETED)) == 0)
		length -= strlen(DELETED);
	return base && strncmp(base + 1, LIVE_FILE_PREFIX, strlen(LIVE_FILE_PREFIX)) == 0 &&
	       length > suffix && strncmp(name + length - suffix, LIVE_FILE_SUFFIX, suffix) == 0;
}

/* Anonymous shared memory: recognized by its first bytes. Without privileges, the process is our own. */
static bool has_magic(pid_t pid, const struct map_line *map)
{
	AUTO_CLOSE int fd = mapped_file_open(pid, map->start, map->end);
	bool is_own = fd < 0 && (errno == EPERM || errno == EACCES);
	char magic[sizeof LIVE_MAGIC - 1];
	struct iovec local = { magic, sizeof magic };
	struct iovec remote = { (void *)(uintptr_t)map->start, sizeof magic };
	ssize_t got = fd >= 0  ? pread(fd, magic, sizeof magic, 0)
		      : is_own ? process_vm_readv(pid, &local, 1, &remote, 1, 0)
			       : -1;

	return got == (ssize_t)sizeof magic && memcmp(magic, LIVE_MAGIC, sizeof magic) == 0;
}

static bool is_profile(pid_t pid, const struct map_line *map)
{
	return map->permissions[1] == 'w' && map->permissions[3] == 's' &&
	       (begins(map, "/memfd:heapgauge-profile") || recorded_file_name(map->name) ||
		(begins(map, "/dev/zero") && has_magic(pid, map)));
}

static void take_profile(struct recorded *recorded, const struct map_line *map)
{
	size_t length = strcspn(map->name, "\n");

	recorded->profile = map->start;
	recorded->profile_end = map->end;
	recorded->mapped = (struct recorded_file){ map->device, map->inode };
	recorded->file[0] = '\0';
	if (recorded_file_name(map->name) && length < sizeof recorded->file) {
		memcpy(recorded->file, map->name, length);
		recorded->file[length] = '\0';
	}
}

/* Takes the last mapping that starts with a header: a forked child may still have its parent's before its own. */
static void find_mappings(const char *maps, struct recorded *ret)
{
	struct map_line map;

	while (map_line_next(&maps, &map))
		if (map.offset == 0 && is_profile(ret->pid, &map))
			take_profile(ret, &map);
}

/* Whether other threads run on without it. */
static bool is_main_gone(pid_t pid)
{
	AUTO_FREE char *status = procfs_file(pid, "status", NULL);
	const char *line =
		status && strstr(status, "\nState:\tZ") ? strstr(status, "\nThreads:") : NULL;

	return line && strtol(line + sizeof "\nThreads:" - 1, NULL, 10) > 1;
}

/* ---- core files ---- */

static bool core_has_magic(const struct core_file *core, uint64_t at)
{
	char magic[sizeof LIVE_MAGIC - 1];

	return core_file_read(core, at, magic, sizeof magic) == sizeof magic &&
	       memcmp(magic, LIVE_MAGIC, sizeof magic) == 0;
}

/* By its name, even if its memory is not there; or by its first bytes: names are missing if the core file was cut off. */
static void find_in_core(const struct core_file *core, const char *maps, struct recorded *ret)
{
	struct map_line map;

	for (const char *at = maps; map_line_next(&at, &map);)
		if (map.offset == 0 && map.permissions[3] == 's' &&
		    (begins(&map, "/memfd:heapgauge-profile") || recorded_file_name(map.name)))
			take_profile(ret, &map);
	for (const char *at = maps; ret->profile == 0 && map_line_next(&at, &map);)
		if (map.permissions[1] == 'w' && core_has_magic(core, map.start))
			take_profile(ret, &map);
}

static int not_in_core(const struct core_file *core, const struct recorded *recorded,
		       struct error *error)
{
	if (recorded->profile == 0)
		return error_set(
			error, core->is_cut
				       ? "it was cut off, and there is no profile in what is left"
				       : "the program was not recorded: there is no profile in it");
	if (recorded->file[0])
		return error_set(
			error,
			"process %d kept its profile in %s, which is not part of core files unless bit 3 of "
			"/proc/PID/coredump_filter is set: try 'heapgauge report' with that file",
			(int)recorded->pid, recorded->file);
	return error_set(
		error,
		"the profile of process %d is not in it: record the program with 'heapgauge record --core', or set "
		"HEAPGAUGE_CORE=1 if it records itself",
		(int)recorded->pid);
}

int recorded_find_core(const struct core_file *core, struct recorded *ret, struct error *error)
{
	AUTO_FREE char *maps = core_file_maps(core);

	*ret = (struct recorded){ .pid = core->pid };
	if (!maps)
		return error_set(error, "out of memory");
	find_in_core(core, maps, ret);
	return ret->profile != 0 && core_has_magic(core, ret->profile)
		       ? 0
		       : not_in_core(core, ret, error);
}

int recorded_find(pid_t pid, struct recorded *ret, struct error *error)
{
	AUTO_FREE char *maps = NULL;

	*ret = (struct recorded){ .pid = pid };
	errno = 0;
	maps = procfs_file(pid, "maps", NULL);
	if (!maps)
		return recorded_failed(pid, errno, error);
	find_mappings(maps, ret);
	if (ret->profile == 0 && maps[0] == '\0' && is_main_gone(pid))
		return error_set(
			error,
			"process %d cannot be read: its main thread has ended by pthread_exit while others run, and then the kernel shows nothing of its memory; let that thread wait for the others (pthread_join) instead",
			(int)pid);
	if (ret->profile == 0)
		return error_set(
			error,
			"process %d is not recorded: it holds no profile. Start it with 'heapgauge record "
			"PROGRAM', or with LD_PRELOAD=libheapgauge.so",
			(int)pid);
	return 0;
}

/* ---- all of them ---- */

static int compare_pids(const void *left, const void *right)
{
	const struct recorded *a = left, *b = right;

	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static bool add_files(struct recorded_list *list, const char *maps)
{
	struct map_line map;

	while (map_line_next(&maps, &map)) {
		const struct recorded_file file = { map.device, map.inode };

		if (map.permissions[1] == 'w' && recorded_file_name(map.name) &&
		    !vector_push(&list->files, file))
			return false;
	}
	return true;
}

bool recorded_list_has_file(const struct recorded_list *list, const struct stat *file)
{
	for (size_t i = 0; i < list->files.count; i++)
		if (list->files.at[i].inode == file->st_ino &&
		    list->files.at[i].device == file->st_dev)
			return true;
	return false;
}

static int add_if_recorded(struct recorded_list *list, pid_t pid, struct error *error)
{
	struct recorded one = { .pid = pid };
	AUTO_FREE char *maps = NULL;

	errno = 0;
	maps = procfs_file(pid, "maps", NULL);
	if (!maps && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return error_errno(error, "cannot look at the processes"); /* not: it has ended */
	if (!maps) {
		list->hidden += errno == EACCES || errno == EPERM;
		return 0;
	}
	find_mappings(maps, &one);
	if ((one.profile != 0 && !vector_push(&list->found, one)) || !add_files(list, maps))
		return error_set(error, "out of memory");
	return 0;
}

int recorded_list_new(struct recorded_list *ret, recorded_is_known *is_known, void *context,
		      struct error *error)
{
	struct recorded_list list = { 0 };
	AUTO_CLOSE_FOLDER DIR *folder = opendir("/proc");
	pid_t pid;

	if (!folder)
		return error_errno(error, "cannot list the processes in /proc");
	while ((pid = procfs_next(folder)) != 0) {
		if (pid != getpid() && !is_known(context, pid) &&
		    add_if_recorded(&list, pid, error) < 0) {
			recorded_list_release(&list);
			return -1;
		}
	}
	if (list.found.count)
		qsort(list.found.at, list.found.count, sizeof *list.found.at, compare_pids);
	*ret = list;
	return 0;
}

static bool none_is_known(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
	return false;
}

int recorded_list(struct recorded_list *ret, struct error *error)
{
	return recorded_list_new(ret, none_is_known, NULL, error);
}

bool recorded_maps(pid_t pid, const struct stat *file)
{
	AUTO_FREE char *maps = pid > 0 ? procfs_file(pid, "maps", NULL) : NULL;
	const char *at = maps ? maps : "";
	struct map_line map;

	while (map_line_next(&at, &map))
		if (map.inode == file->st_ino && map.device == file->st_dev &&
		    map.permissions[1] == 'w')
			return true;
	return false;
}

pid_t recorded_by(const struct stat *file)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir("/proc");
	pid_t pid;

	while ((pid = procfs_next(folder)) != 0 && !recorded_maps(pid, file))
		;
	return pid;
}

void recorded_list_release(struct recorded_list *list)
{
	vector_release(&list->found);
	vector_release(&list->files);
}

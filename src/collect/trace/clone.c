/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone(2) with exit signal 0: a child that wait, waitpid and SIGCHLD do not show (only __WALL and __WCLONE do). It shares the table of
 * descriptors: with one of its own, what the process closes would stay open, and locked, for as long as the copy exists. It is traced
 * from its first moment and stays stopped, so it runs nothing; it is killed when its tracer ends. The kernel hides the end of a traced
 * process from its parent until its tracer has taken note of it, which we do while the parent is stopped: so not even a thread that
 * waits with __WALL sees it. Its status then remains in the process table until the second remote call waits for it. That call also
 * waits for the zombies of earlier copies, whose tracers were killed.
 *
 * Each page that the process writes while the copy exists is copied by the kernel, so the memory must be there.
 */
#include "collect/trace/clone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/kernel/cgroup.h"
#include "collect/kernel/map_line.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text/units.h"
#include "util/version.h"

enum {
	HEADROOM_PART = 4,	     /* of the resident memory */
	KERNEL_ERESTARTNOINTR = 513, /* a signal arrived meanwhile: SIGSTOP */
	CLONE_TRIES = 8,
	THREAD_BYTES =
		16
		<< 10, /* above the thread pointer, at most: what the C library keeps of a thread */
	REAP_PAUSE_NS = 5000000, /* doubled by each try */
	REAP_PAUSE_MAX_NS = 250000000,
	WAIT_FLAGS = WNOHANG | __WALL,
	WIPED_USUAL_BYTES = 1 << 20, /* the recorder has a word for each thread */
};

#define REAP_NS (2 * NS_PER_S)
#define WAY_OUT "; --stop examines it while it is stopped instead"

/* A thread of the process may have to take note of each fork before that returns: all are stopped, and we could choose that one. */
static bool waits_for_events(pid_t pid)
{
	static const char kind[] = "anon_inode:[userfaultfd]";
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(pid, "fd").text);
	bool found = false;

	for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
		char link[sizeof kind], text[512], name[64];
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof link);

		if (length != sizeof kind - 1 || memcmp(link, kind, sizeof kind - 1) != 0)
			continue;
		snprintf(name, sizeof name, "fdinfo/%.20s", entry->d_name);
		text[procfs_small(procfs_path(pid, name).text, text, sizeof text)] = '\0';
		const char *features = strstr(text, "API:\t");

		features = features ? strchr(features, ':') : NULL;
		features = features ? strchr(features + 1, ':') : NULL;
		found = !features || strtoull(features + 1, NULL, 16) & UFFD_FEATURE_EVENT_FORK;
	}
	return found;
}

/* If a page is copied for a fork while the kernel reads into it with O_DIRECT, the process may get the copy, without what was read (open(2)).
 * Since Linux 6.5 the kernel does not do that. */
static bool loses_direct_reads(void)
{
	struct utsname name;

	return uname(&name) < 0 || !version_is_from(name.release, 6, 5);
}

static bool reads_directly(pid_t pid)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(pid, "fdinfo").text);
	bool found = false;

	for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
		char text[512], name[64];

		snprintf(name, sizeof name, "fdinfo/%.20s", entry->d_name);
		text[procfs_small(procfs_path(pid, name).text, text, sizeof text)] = '\0';
		const char *flags = strstr(text, "flags:\t");

		found = flags && strtoul(flags + sizeof "flags:", NULL, 8) & O_DIRECT;
	}
	return found;
}

static int check_memory(pid_t pid, struct error *error)
{
	AUTO(cgroups_release) struct cgroups cgroups = { 0 };
	AUTO_CLOSE int statm = procfs_statm_open(pid);
	uint64_t least = procfs_rss(statm) / HEADROOM_PART, available = procfs_free_memory();
	char overcommit[16];

	if (procfs_small("/proc/sys/vm/overcommit_memory", overcommit, sizeof overcommit) > 0 &&
	    overcommit[0] == '2')
		return error_set(
			error,
			"this machine does not overcommit memory (vm.overcommit_memory = 2), so a copy of the process may fail" WAY_OUT);
	cgroups_init(&cgroups, "");
	struct cgroup_memory group = cgroups_memory(&cgroups, pid);

	if (group.limit_bytes)
		available = MIN(available, saturating_sub(group.limit_bytes, group.usage_bytes));
	if (available < least)
		return error_set(
			error,
			"only %s are left for the pages that the process changes meanwhile; a quarter of its memory, %s, must be" WAY_OUT,
			units_bytes(available).text, units_bytes(least).text);
	return 0;
}

/*
 * Memory that is not copied (MADV_DONTFORK) or empty in the copy (MADV_WIPEONFORK): the only pointer to a block may be there. Little of the
 * latter tells a program that it was forked, and has none; the recorder has some, too. 0: none. UINT64_MAX: not known.
 */
static uint64_t not_inherited(pid_t pid)
{
	AUTO_FREE char *text = procfs_file(pid, "smaps", NULL);
	uint64_t bytes = 0, resident = 0;
	struct map_line map = { 0 }, next;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (map_line_parse(line, &next)) {
			map = next;
			resident = 0;
		} else if (strncmp(line, "Rss:", 4) == 0) {
			resident = strtoull(line + 4, NULL, 10) * 1024;
		} else if (strncmp(line, "VmFlags:", 8) == 0 && map.permissions &&
			   strncmp(map.permissions, "rw-p", 4) == 0 && !strstr(line, " io")) {
			if (strstr(line, " dc") ||
			    (strstr(line, " wf") && resident > WIPED_USUAL_BYTES))
				bytes += map.end - map.start;
		}
	}
	return text ? bytes : UINT64_MAX;
}

static int check_inherited(pid_t pid, struct error *error)
{
	uint64_t bytes = not_inherited(pid);

	if (bytes == UINT64_MAX)
		return error_set(error, "its mappings cannot be read" WAY_OUT);
	if (bytes > 0)
		return error_set(
			error,
			"a copy of the process lacks %s of its memory (madvise: MADV_DONTFORK, MADV_WIPEONFORK)" WAY_OUT,
			units_bytes(bytes).text);
	return 0;
}

static int cannot_clone(struct error *error)
{
	struct error reason = error ? *error : ERROR_INIT;

	return error_set(error, "it cannot be cloned: %s" WAY_OUT, reason.message);
}

int clone_prepare(pid_t pid, struct process_clone *ret, struct error *error)
{
	*ret = (struct process_clone){ .parent = pid };
#ifndef __x86_64__
	return error_set(error, "only x86-64 processes can be cloned" WAY_OUT);
#endif
	if (remote_has_filter(pid))
		return error_set(error,
				 "a seccomp filter may forbid the process to clone itself" WAY_OUT);
	if (waits_for_events(pid))
		return error_set(error,
				 "the process waits for a userfaultfd event at each fork" WAY_OUT);
	if (loses_direct_reads() && reads_directly(pid))
		return error_set(
			error,
			"the process has a file open with O_DIRECT, and a copy of it could lose what is being read (before Linux 6.5)" WAY_OUT);
	if (check_memory(pid, error) < 0 || check_inherited(pid, error) < 0)
		return -1;
	return remote_code_find(pid, &ret->code, error) < 0 ? cannot_clone(error) : 0;
}

/* ---- which thread ---- */

static bool is_between(uint64_t at, uint64_t start, uint64_t end)
{
	return at >= start && at < end;
}

/*
 * Whether nothing but its stack is below the stack pointer of a thread. If we are killed during the call, what we wrote there stays. Below
 * the stack of a coroutine is other memory; so only stacks are used of which the end is known: that of the main thread, and those in one
 * mapping with the thread pointer, as the C libraries make them. Without guard pages stacks are neighbours, and the thread pointer of the
 * next one is where ours ends.
 */
static bool has_space(const struct stopped *stopped, const struct stopped_thread *thread,
		      const struct map_line *map)
{
	uint64_t lowest = map->start;
	bool is_main = thread->tid == stopped->pid && strncmp(map->name, "[stack]", 7) == 0;
	bool is_own = is_main || (thread->thread_pointer > thread->stack_pointer &&
				  thread->thread_pointer < map->end);

	for (size_t i = 0; i < stopped->threads.count; i++) {
		uint64_t other = stopped->threads.at[i].thread_pointer;

		if (is_between(other, map->start, thread->stack_pointer))
			lowest = MAX(lowest, other + THREAD_BYTES);
		/* A coroutine in the stack of another thread. */
		if (is_between(other, thread->stack_pointer, thread->thread_pointer))
			return false;
	}
	return is_own && thread->stack_pointer >= lowest + REMOTE_STACK_BYTES;
}

/* For each thread whether it has. malloc'd; NULL: out of memory, or it has ended. */
static bool *find_usable(const struct stopped *stopped)
{
	AUTO_FREE char *text = procfs_file(stopped->pid, "maps", NULL);
	bool *usable = text ? calloc(stopped->threads.count + 1, sizeof *usable) : NULL;
	const char *at = text;
	struct map_line map;

	while (usable && map_line_next(&at, &map)) {
		if (strncmp(map.permissions, "rw", 2) != 0)
			continue;
		for (size_t i = 0; i < stopped->threads.count; i++) {
			const struct stopped_thread *thread = &stopped->threads.at[i];

			if (is_between(thread->stack_pointer, map.start, map.end))
				usable[i] = has_space(stopped, thread, &map);
		}
	}
	return usable;
}

/* Calls it for the threads that may be used until it returns anything but 0, and returns that. */
static int with_threads(const struct stopped *stopped, struct process_clone *clone,
			int (*call)(struct process_clone *, pid_t, struct error *),
			struct error *error)
{
	AUTO_FREE bool *usable = find_usable(stopped);
	int status = 0;

	error_set(error, "no thread is on a stack of its own, with space below it");
	for (size_t i = 0; usable && i < stopped->threads.count && status == 0; i++)
		if (usable[i])
			status = call(clone, stopped->threads.at[i].tid, error);
	return status;
}

/* ---- making it ---- */

/* A first child in a new PID namespace would be its init, which takes the namespace along when it ends; one in a new time namespace fixes its
 * clocks. Both are of the thread that has called unshare. */
static bool has_children_elsewhere(pid_t tid)
{
	static const char *const names[] = { "ns/pid", "ns/time" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[32], own[64], children[64];

		snprintf(path, sizeof path, "%s_for_children", names[i]);
		ssize_t length = readlink(procfs_path(tid, names[i]).text, own, sizeof own);

		if (length > 0 &&
		    (readlink(procfs_path(tid, path).text, children, sizeof children) != length ||
		     memcmp(own, children, (size_t)length) != 0))
			return true;
	}
	return false;
}

/* 1: done; 0: not in this thread; -1: in none, since this one has not returned from the call. */
static int clone_by(struct process_clone *clone, pid_t tid, struct error *error)
{
	if (has_children_elsewhere(tid)) {
		error_set(error, "its next child begins a new namespace (unshare, setns)");
		return 0;
	}
	struct remote_thread *thread = remote_begin(clone->parent, tid, &clone->code, error);
	int64_t result = 0;

	if (!thread)
		return 0;
	const uint64_t words[7] = { SYS_clone, CLONE_FILES, remote_exit_stack(thread) };
	int status, tries = 0;

	do
		status = remote_call(thread, words, &result, &clone->pid, error);
	while (status == 0 && result == -KERNEL_ERESTARTNOINTR && ++tries < CLONE_TRIES);
	clone->own_pid = (pid_t)result;
	if (!remote_end(thread) || clone->pid)
		return status == 0 && result > 0 ? 1 : -1;
	if (status == 0) {
		errno = (int)-result;
		error_errno(error, "clone");
	}
	return 0;
}

/* If memory gets scarce, the kernel shall end the copy and not the process, which is as large. */
static void be_killed_first(pid_t pid)
{
	AUTO_CLOSE int fd = open(procfs_path(pid, "oom_score_adj").text, O_WRONLY | O_CLOEXEC);

	(void)!write(fd, "1000", 4);
}

int clone_make(const struct stopped *stopped, struct process_clone *clone, struct error *error)
{
	if (with_threads(stopped, clone, clone_by, error) <= 0)
		return cannot_clone(error);
	be_killed_first(clone->pid);
	return 0;
}

/* ---- ending it ---- */

enum { NOT_RETURNED = INT_MIN };

/* The result of wait4 for that child; NOT_RETURNED: the thread is still in the call. */
static int64_t wait_by(struct remote_thread *thread, pid_t own_pid, struct error *error)
{
	const uint64_t words[7] = { SYS_wait4, (uint64_t)own_pid, 0, WAIT_FLAGS };
	int64_t result = 0;

	return remote_call(thread, words, &result, NULL, error) < 0 ? NOT_RETURNED : result;
}

/* Makes one thread wait for the copy and the earlier ones. 1: done; 0: not this time; -1: this thread has not returned from the call. */
static int reap_by(struct process_clone *clone, pid_t tid, struct error *error)
{
	struct remote_thread *thread = remote_begin(clone->parent, tid, &clone->code, error);

	if (!thread)
		return 0;
	int64_t result = wait_by(thread, clone->own_pid, error);
	bool done = result == clone->own_pid || result == -ECHILD;

	for (size_t i = 0; result != NOT_RETURNED && i < clone->leftovers.count; i++) {
		pid_t pid = clone->leftovers.at[i], own_pid = procfs_own_pid(pid);

		if (!leftover_is_copy(pid, clone->parent))
			continue;
		result = wait_by(thread, own_pid, error);
		clone->collected += result == own_pid;
	}
	return remote_end(thread) ? done : -1;
}

/* Init collects the copy then. */
static bool has_ended(pid_t pid)
{
	AUTO_CLOSE int statm = procfs_statm_open(pid);

	return procfs_rss(statm) == 0;
}

static void take_note(struct process_clone *clone)
{
	int status;

	while (clone->pid != 0 && waitpid(clone->pid, &status, __WALL) == clone->pid &&
	       WIFSTOPPED(status))
		;
	clone->pid = 0;
}

/* All threads are stopped meanwhile: one that runs could end up in the stack that is used, or wait for the copy itself. */
static bool reap(struct process_clone *clone, struct error *error)
{
	struct stopped stopped;

	if (stop_all(clone->parent, &stopped, error) < 0)
		return false;
	take_note(clone);
	int reaped = with_threads(&stopped, clone, reap_by, error);

	stop_resume(&stopped);
	return reaped > 0;
}

void clone_kill(struct process_clone *clone)
{
	siginfo_t info;

	if (clone->pid == 0)
		return;
	kill(clone->pid, SIGKILL);
	while (waitid(P_PID, (id_t)clone->pid, &info, WEXITED | WNOWAIT | __WALL) < 0 &&
	       errno == EINTR)
		;
}

static int try_to_reap(struct process_clone *clone, struct error *error)
{
	uint64_t deadline_ns = clock_monotonic_ns() + REAP_NS;
	struct timespec pause = { .tv_nsec = REAP_PAUSE_NS };
	struct error ignored = ERROR_INIT;

	while (!reap(clone, error) && !has_ended(clone->parent)) {
		if (clock_monotonic_ns() > deadline_ns)
			return error_wrap(error, "process %d keeps a zombie", clone->parent);
		/* It may have executed another program, which has its code elsewhere. */
		(void)remote_code_find(clone->parent, &clone->code, &ignored);
		nanosleep(&pause, NULL);
		pause.tv_nsec = MIN(2 * pause.tv_nsec, (long)REAP_PAUSE_MAX_NS);
	}
	return 0;
}

int clone_end(struct process_clone *clone, struct error *error)
{
	if (clone->pid == 0)
		return 0;
	clone_kill(clone);
	/* Without memory for the list they remain for the next time. */
	(void)leftovers_find(clone->parent, &clone->leftovers);
	int status = try_to_reap(clone, error);

	take_note(clone);
	vector_release(&clone->leftovers);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the processes that are younger than this one, only when no target is left. A run thus costs one scan at its end, over
 * the few pids above our own.
 *
 * Invariant: a process stays in `found` until it has ended or has not looked like ours for a while. In between it may be in the
 * middle of an exec, where it has neither mappings nor an environment. A process that is first seen in that state may be
 * unrelated: it counts only briefly, and stays in the list so that it is not found again.
 */
#include "collect/run/unconnected_children.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define CHECK_NS (20 * NS_PER_MS)
#define STRANGER_NS (1000 * NS_PER_MS)
#define EXEC_NS (100 * NS_PER_MS)
enum { SCANS_MAX = 8 };

void unconnected_release(struct unconnected_children *unconnected)
{
	vector_release(&unconnected->inodes);
	vector_release(&unconnected->found);
}

static bool is_taken_over(const struct unconnected_children *unconnected, uint64_t inode)
{
	for (size_t i = unconnected->inodes.count; i-- > 0;) {
		if (unconnected->inodes.at[i] == inode)
			return true;
	}
	return false;
}

/* "start-end perms offset dev inode   /memfd:heapgauge-profile (deleted)" */
static bool maps_profile(const struct unconnected_children *unconnected, pid_t pid)
{
	AUTO_FREE char *text = procfs_file(pid, "maps", NULL);

	for (const char *at = text; at && (at = strstr(at, "/memfd:heapgauge-profile")); at++) {
		const char *end = at;

		while (end > text && end[-1] == ' ')
			end--;
		while (end > text && end[-1] >= '0' && end[-1] <= '9')
			end--;
		if (is_taken_over(unconnected, strtoull(end, NULL, 10)))
			return true;
	}
	return false;
}

static bool has_socket(pid_t pid, const char *socket_name)
{
	size_t bytes = 0;
	AUTO_FREE char *text = procfs_file(pid, "environ", &bytes);

	return text && memmem(text, bytes, socket_name, strlen(socket_name)) != NULL;
}

/* Whether it may be in the middle of an exec: its environment is empty or not set up yet. */
static bool has_no_environment(pid_t pid)
{
	size_t bytes = 0;
	AUTO_FREE char *text = procfs_file(pid, "environ", &bytes);

	return text && bytes == 0;
}

static bool is_dead(pid_t pid)
{
	char target[8];

	/* Neither a zombie nor a kernel thread has an executable. */
	return kill(pid, 0) < 0 ||
	       readlink(procfs_path(pid, "exe").text, target, sizeof target) < 0;
}

static bool is_ours(const struct unconnected_children *unconnected, pid_t pid,
		    const char *socket_name, uint64_t now_ns)
{
	/* A process that has our socket in its environment and does not connect soon never will: it was dismissed, or has
	 * closed all its descriptors. */
	return maps_profile(unconnected, pid) ||
	       (now_ns - unconnected->since_ns < STRANGER_NS && has_socket(pid, socket_name));
}

/* The last pid that the kernel assigned; 0 = unknown. */
static pid_t last_pid(void)
{
	char text[128];
	const char *last;

	if (procfs_small("/proc/loadavg", text, sizeof text) == 0)
		return 0;
	last = strrchr(text, ' ');
	return last ? (pid_t)strtol(last, NULL, 10) : 0;
}

static bool is_younger(pid_t pid, pid_t last)
{
	pid_t own = getpid();

	if (last >= own)
		return pid > own && pid <= last;
	return pid > own || pid <= last; /* pids have wrapped around since we started */
}

static bool is_found(const struct unconnected_children *unconnected, pid_t pid)
{
	for (size_t i = 0; i < unconnected->found.count; i++) {
		if (unconnected->found.at[i].pid == pid)
			return true;
	}
	return false;
}

static void scan(struct unconnected_children *unconnected, const char *socket_name, uint64_t now_ns,
		 pid_t last)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir("/proc");
	pid_t pid;

	while ((pid = procfs_next(folder)) != 0) {
		struct unconnected_process one = { .pid = pid, .until_ns = now_ns + STRANGER_NS };

		if (!is_younger(pid, last) || is_found(unconnected, pid) || is_dead(pid))
			continue;
		if (!is_ours(unconnected, pid, socket_name, now_ns)) {
			one.doubtful = has_no_environment(pid);
			one.until_ns = now_ns + EXEC_NS;
			if (!one.doubtful)
				continue;
		}
		(void)vector_push(&unconnected->found, one);
	}
}

static void forget(struct unconnected_children *unconnected, const char *socket_name,
		   uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < unconnected->found.count; i++) {
		struct unconnected_process one = unconnected->found.at[i];

		if (is_dead(one.pid))
			continue;
		if (is_ours(unconnected, one.pid, socket_name, now_ns))
			one = (struct unconnected_process){ .pid = one.pid,
							    .until_ns = now_ns + STRANGER_NS };
		if (one.doubtful || now_ns < one.until_ns)
			unconnected->found.at[kept++] = one;
	}
	unconnected->found.count = kept;
}

/* The number that may still connect. */
static size_t count(const struct unconnected_children *unconnected, uint64_t now_ns)
{
	size_t some = 0;

	for (size_t i = 0; i < unconnected->found.count; i++)
		some += now_ns < unconnected->found.at[i].until_ns;
	return some;
}

size_t unconnected_count(struct unconnected_children *unconnected, const char *socket_name,
			 uint64_t now_ns)
{
	unsigned tries = 0;
	pid_t last;

	if (unconnected->since_ns == 0)
		unconnected->since_ns = now_ns;
	if (unconnected->checked_ns != 0 && now_ns - unconnected->checked_ns < CHECK_NS)
		return count(unconnected, now_ns);
	unconnected->checked_ns = now_ns;
	forget(unconnected, socket_name, now_ns);
	/* A process that was scanned may have forked and died meanwhile: repeat until no new pid was assigned. */
	do {
		last = last_pid();
		scan(unconnected, socket_name, now_ns, last);
	} while (count(unconnected, now_ns) == 0 && last != last_pid() && tries++ < SCANS_MAX);
	return count(unconnected, now_ns);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes copies from the program's own children. A copy has no exit signal: fork, vfork, system and posix_spawn set one, and so
 * does exec. A copy has used no CPU time in user mode. It was killed before it touched a page, which the first instruction of any other
 * process does, or it has the exit status that only copies have (remote_call.c).
 */
#include "collect/trace/leftovers.h"

#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "collect/kernel/procfs.h"
#include "collect/trace/remote_call.h"
#include "util/cleanup.h"

/* Fields of /proc/PID/stat, as proc(5) counts them. */
enum { STAT_MINOR_FAULTS = 10, STAT_MAJOR_FAULTS = 12, STAT_USER_TIME = 14, STAT_EXIT_SIGNAL = 38 };

bool leftover_is_copy(pid_t pid, pid_t parent)
{
	int status;

	if (!procfs_zombie_status(pid, &status) || procfs_parent(pid) != parent ||
	    procfs_stat_field(pid, STAT_EXIT_SIGNAL) != 0 ||
	    procfs_stat_field(pid, STAT_USER_TIME) != 0)
		return false;
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == REMOTE_EXIT_STATUS;
	return WTERMSIG(status) == SIGKILL && procfs_stat_field(pid, STAT_MINOR_FAULTS) == 0 &&
	       procfs_stat_field(pid, STAT_MAJOR_FAULTS) == 0;
}

bool leftovers_find(pid_t parent, leftover_list *list)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(parent, "task").text);

	for (pid_t tid; folder && (tid = procfs_next(folder)) != 0;) {
		char name[40];

		snprintf(name, sizeof name, "task/%d/children", tid);
		AUTO_FREE char *children = procfs_file(parent, name, NULL);

		for (char *at = children, *end; at; at = end) {
			pid_t pid = (pid_t)strtol(at, &end, 10);

			if (end == at)
				break;
			if (leftover_is_copy(pid, parent) && !vector_push(list, pid))
				return false;
		}
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If a descriptor of the profile can be opened, the last state is read after the end of the process; otherwise the last copy is
 * used. Neither stops the process, nor signals it, nor writes to it.
 *
 * Owned by one thread.
 * Invariant: while the target is here, its memory is that of the copy.
 */
#include "collect/attach/copied_target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/run/collector.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/clock.h"

/* The target reads the copy until it is encoded. */
static void lend_copy(struct copied_target *other)
{
	live_profile_lend(&other->target->profile, &other->copied);
}

bool copied_target_copy(struct copied_target *other, enum profile_copy_parts parts)
{
	struct error error = ERROR_INIT;
	bool held = other->copied.fd >= 0;

	if (profile_copy_take(held ? &other->copied : &other->spare, &other->recorded, parts,
			      &error) < 0)
		return false;
	if (!held) {
		struct profile_copy last = other->copied;

		other->copied = other->spare;
		other->spare = last;
	}
	lend_copy(other);
	return true;
}

void copied_target_copy_last(struct copied_target *other, bool gone)
{
	struct error error = ERROR_INIT;

	if (!gone) {
		(void)copied_target_copy(other, PROFILE_COPY_ALL);
	} else if (other->copied.fd >= 0) {
		(void)profile_copy_take_held(&other->copied, PROFILE_COPY_ALL, &error);
		lend_copy(other);
	}
}

bool copied_target_is_gone(const struct copied_target *other)
{
	struct pollfd poll_fd = { .fd = other->target->pid_fd, .events = POLLIN };

	if (poll_fd.fd >= 0)
		return poll(&poll_fd, 1, 0) > 0;
	return kill(other->target->pid, 0) < 0 && errno == ESRCH;
}

static int new_target(struct copied_target *other, uint64_t now_ns, struct error *error)
{
	const struct live_header *head = profile_copy_head(&other->copied);
	struct live_profile profile = LIVE_PROFILE_INIT;
	pid_t pid = other->recorded.pid;

	profile.control = other->copied.control;
	live_profile_lend(&profile, &other->copied);
	other->target = target_new(&profile, pid, (int)syscall(SYS_pidfd_open, pid, 0),
				   &other->cgroups, error);
	if (!other->target)
		return -1;
	target_start(other->target, MIN(head->started_mono_ns, now_ns), now_ns);
	other->target->known = (struct process_row){ .pid = (uint32_t)pid,
						     .uid = procfs_user(pid),
						     .ppid = (uint32_t)procfs_parent(pid),
						     .command = procfs_command(pid),
						     .exe = procfs_exe(pid),
						     .depth_limit = head->depth_limit };
	return 0;
}

int copied_target_begin(struct copied_target *other, pid_t pid, struct error *error)
{
	cgroups_init(&other->cgroups, "");
	if (recorded_find(pid, &other->recorded, error) < 0)
		return -1;
	profile_copy_hold(&other->copied, &other->recorded);
	if (profile_copy_take(&other->copied, &other->recorded, PROFILE_COPY_COUNTERS, error) < 0)
		return -1;
	return new_target(other, clock_monotonic_ns(), error);
}

void copied_target_release(struct copied_target *other)
{
	target_free(TAKE(other->target));
	profile_copy_release(&other->copied);
	profile_copy_release(&other->spare);
	cgroups_release(&other->cgroups);
}

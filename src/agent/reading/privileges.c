/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a process of root the reader keeps the user, and of the capabilities those that the process has: root in a container has
 * few. One that has ended left only a file, so nothing is kept but to read files. No state.
 */
#include "agent/reading/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/kernel/procfs.h"

static bool keep_capabilities(uint64_t wanted)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(wanted >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) == 0;
}

static bool become(const struct procfs_owner *owner)
{
	if (setgroups(0, NULL) < 0)
		return false;
	if (owner->uid == 0)
		return keep_capabilities(owner->capabilities);
	return setresgid(owner->gid, owner->gid, owner->gid) == 0 &&
	       setresuid(owner->uid, owner->uid, owner->uid) == 0;
}

void privileges_make_folder(const struct reading_request *request)
{
	if (geteuid() == 0 && mkdir(request->cache, 0700) == 0)
		(void)!lchown(request->cache, request->uid, request->gid);
}

bool privileges_drop(const struct reading_request *request)
{
	struct procfs_owner owner = { request->uid, request->gid, 1 << CAP_DAC_READ_SEARCH }, now;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return false;
	if (owner.uid == 0 && request->recorded.pid && procfs_owner(request->recorded.pid, &now))
		owner = now;
	if (geteuid() == 0 && !become(&owner))
		return false;
	/* A change of the user resets both: its owner must not trace it, and it must not outlive the reader. */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	       prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader is never root: root of a container without a user namespace is root here, and so would be what its profile can make
 * of a mistake in the decoder. Of a process of root outside of containers the reader may still read every file, since programs of
 * root may be readable to nobody else; such a process could do more itself. No state.
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

static bool become(uint32_t uid, uint32_t gid, bool reads_all_files)
{
	if (setgroups(0, NULL) < 0 || (reads_all_files && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0))
		return false;
	return setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0 &&
	       keep_capabilities(reads_all_files ? 1ull << CAP_DAC_READ_SEARCH : 0);
}

void privileges_make_folder(const struct reading_request *request)
{
	if (geteuid() == 0 && mkdir(request->cache, 0700) == 0)
		(void)!lchown(request->cache, request->uid, request->gid);
}

bool privileges_drop(const struct reading_request *request, struct procfs_owner *ret_owner)
{
	struct procfs_owner owner = { request->uid, request->gid, 0 };
	bool is_known = request->recorded.pid && procfs_owner(request->recorded.pid, &owner);
	bool reads_all_files = request->reads_all_files &&
			       (!request->recorded.pid || (is_known && owner.uid == 0));

	*ret_owner = owner;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return false;
	if (geteuid() == 0 && !become(request->uid, request->gid, reads_all_files))
		return false;
	/* A change of the user resets both: its owner must not trace it, and it must not outlive the reader. */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	       prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
}

bool privileges_are_of(const struct reading_request *request, const struct procfs_owner *owner)
{
	struct procfs_owner now;

	return procfs_owner(request->recorded.pid, &now) && now.uid == owner->uid &&
	       now.gid == owner->gid &&
	       (now.uid != 0 || (owner->capabilities & ~now.capabilities) == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernel will treat a program as privileged (AT_SECURE), so that ld.so ignores LD_PRELOAD: the rules of
 * cap_bprm_creds_from_file in security/commoncap.c. Security modules may add others. Before Linux 6.16 only the caller's real ids counted: a
 * program that sets an effective id back to the real one is taken for privileged there although it is not. */
#ifndef BASE_PRIVILEGE_H
#define BASE_PRIVILEGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum privilege {
	PRIVILEGE_NONE,
	PRIVILEGE_SET_USER_ID,
	PRIVILEGE_SET_GROUP_ID,
	PRIVILEGE_CAPABILITIES,
	PRIVILEGE_OF_CALLER, /* its effective user or group is not the real one */
};

struct privilege_facts {
	uint32_t uid, euid, gid, egid; /* of the calling process */
	uint32_t mode, file_uid, file_gid;
	bool capable;		 /* the file has capabilities */
	bool privileges_ignored; /* no_new_privs, or mounted nosuid: the file's privileges do not apply */
};

static inline enum privilege privilege_of(const struct privilege_facts *facts)
{
	bool counts = !facts->privileges_ignored;
	bool sets_uid = counts && facts->mode & S_ISUID;
	/* Without group execute permission, the bit once meant mandatory locking. */
	bool sets_gid = counts && facts->mode & S_ISGID && facts->mode & S_IXGRP;

	if (sets_uid && (facts->file_uid != facts->uid || facts->file_uid != facts->euid))
		return PRIVILEGE_SET_USER_ID;
	if (sets_gid && (facts->file_gid != facts->gid || facts->file_gid != facts->egid))
		return PRIVILEGE_SET_GROUP_ID;
	if (facts->uid != facts->euid || facts->gid != facts->egid)
		return PRIVILEGE_OF_CALLER;
	return counts && facts->capable && facts->uid != 0 ? PRIVILEGE_CAPABILITIES
							   : PRIVILEGE_NONE;
}
#endif

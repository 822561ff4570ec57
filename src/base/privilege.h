/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the kernel will call a program privileged (AT_SECURE), so that ld.so ignores LD_PRELOAD: as cap_bprm_creds_from_file
 * of security/commoncap.c judges it. What a security module adds is not known. */
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
	PRIVILEGE_OF_CALLER, /* whose effective user or group is not the real one */
};

struct privilege_facts {
	uint32_t uid, euid, gid, egid; /* of who starts it */
	uint32_t mode, file_uid, file_gid;
	bool capable; /* the file has capabilities */
	bool held_down; /* no_new_privs, or a file system that is mounted nosuid: the file's rights do not count */
};

static inline enum privilege privilege_of(const struct privilege_facts *facts)
{
	bool counts = !facts->held_down;
	bool sets_uid = counts && facts->mode & S_ISUID;
	/* Without the group's x it once meant mandatory locking. */
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

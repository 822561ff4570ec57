/* SPDX-License-Identifier: Apache-2.0 */
/* openat2, which glibc has no function for, and 2.31 not even the number. */
#ifndef BASE_OPENAT2_H
#define BASE_OPENAT2_H

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437 /* on all processors */
#endif

static inline int openat2_call(int folder, const char *path, const struct open_how *how)
{
	return (int)syscall(SYS_openat2, folder, path, how, sizeof *how);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What an older glibc does not have. Its programs make such system calls themselves, past the recorder. */
#ifndef OLDER_GLIBC_H
#define OLDER_GLIBC_H

#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
#if !__GLIBC_PREREQ(2, 34)
#include <sys/syscall.h>
#define _SC_MINSIGSTKSZ 249 /* unknown to its sysconf */
#define sysconf(name) ((name) == _SC_MINSIGSTKSZ ? 4096L : sysconf(name))
#define execveat(folder, path, argv, envp, flags)                                                  \
	((int)syscall(SYS_execveat, folder, path, argv, envp, flags))
#endif
#if !__GLIBC_PREREQ(2, 32)
#define strerrorname_np strerror
#endif
#endif

#endif

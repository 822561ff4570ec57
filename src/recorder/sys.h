/* SPDX-License-Identifier: Apache-2.0 */
/* The one door to the kernel. Raw system calls: they cannot be interposed, take no lock and leave errno alone.
 * Each returns the kernel's value: negative is -errno. */
#ifndef RECORDER_SYS_H
#define RECORDER_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "recorder/arch/arch.h"
#include "recorder/checks/chaos.h"
#include "recorder/checks/check.h"

/* That no lock is held meanwhile. A test may have its own. */
#ifndef SYS_CHECK
#define SYS_CHECK(number)                                                                          \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			check_system_call();                                                       \
	} while (0)
#endif

static inline long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	long refused = 0;

	SYS_CHECK(nr);
	if (CHECKED)
		refused = chaos_refuses_call(nr);
	return refused != 0 ? refused : arch_syscall(nr, a, b, c, d, e, f);
}

static inline long sys_call3(long nr, long a, long b, long c)
{
	return sys_call6(nr, a, b, c, 0, 0, 0);
}

/* What the kernel passed to the process at its start; 0: nothing, which libc makes an error of. */
static inline uintptr_t sys_auxiliary(unsigned long type)
{
	int before = errno;
	uintptr_t value = getauxval(type);

	errno = before;
	return value;
}

static inline int sys_failed(long ret)
{
	enum { ERRNO_MAX = 4095 }; /* of the kernel */

	return (unsigned long)ret >= (unsigned long)-ERRNO_MAX;
}

/* Our system calls by what they are for. Before the program gives up some of its own (seccomp), those groups are marked as
 * forbidden, of which one call would harm it; from then on none of them is made, whatever it costs. */
enum sys_group {
	SYS_MEMORY = 1,	 /* opening the next piece of memory */
	SYS_PROBE = 2,	 /* whether a page can be read */
	SYS_THREADS = 4, /* what a thread's first call needs */
	SYS_OTHERS = 8,	 /* programs that it starts, children, libraries, limits */
	SYS_WAIT = 16,	 /* for a lock whose owner has no processor */
	SYS_READ = 32,	 /* this process' own memory, where it may not be there */
	SYS_ALL = 63,
};
extern unsigned sys_forbidden;

/* groups: enum sys_group, as bits. */
static inline bool sys_may(unsigned groups)
{
	return !(__atomic_load_n(&sys_forbidden, __ATOMIC_RELAXED) & groups);
}

/* Not in the headers that we build with, or not under a name that can be used. */
enum {
	SYS_POPULATE_WRITE = 23, /* madvise, Linux 5.14 */
	SYS_WIPE_ON_FORK = 18,	 /* madvise, Linux 4.14 */
	SYS_READ_QUIETLY = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	SYS_MAKE_FILE = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	SYS_MEMFD_FLAGS = 1 | 2, /* CLOEXEC, ALLOW_SEALING */
	SYS_MEMFD_NOEXEC = 8,	 /* NOEXEC_SEAL, Linux 6.3 */
	SYS_ADD_SEALS = 1033,	 /* fcntl */
	SYS_SEALS = 1 | 2 | 4,	 /* SEAL, SHRINK, GROW */
};

static inline long sys_mmap(void *at, size_t bytes, int protection, int flags, int fd, long offset)
{
	return sys_call6(SYS_mmap, (long)at, (long)bytes, protection, flags, fd, offset);
}

static inline long sys_mprotect(void *at, size_t bytes, int protection)
{
	return sys_call3(SYS_mprotect, (long)at, (long)bytes, protection);
}

static inline long sys_madvise(void *at, size_t bytes, int advice)
{
	return sys_call3(SYS_madvise, (long)at, (long)bytes, advice);
}

/* Has the pages of a writable range now: "no memory" is an error here, and no SIGBUS at the first touch. An older kernel
 * (before 5.14) does not know how, and pages come by themselves. */
static inline bool sys_populate(void *at, size_t bytes)
{
	enum { EINVAL_ = 22 };
	long ret = sys_madvise(at, bytes, SYS_POPULATE_WRITE);

	return !sys_failed(ret) || ret == -EINVAL_;
}

static inline long sys_munmap(void *at, size_t bytes)
{
	return sys_call3(SYS_munmap, (long)at, (long)bytes, 0);
}

static inline long sys_close(int fd)
{
	return sys_call3(SYS_close, fd, 0, 0);
}

static inline long sys_access(const char *path, int mode)
{
	return ARCH_ACCESS(sys_call6, path, mode);
}

static inline long sys_unlink(const char *path)
{
	return ARCH_UNLINK(sys_call6, path);
}

static inline long sys_readlink(const char *path, char *to, size_t bytes)
{
	return ARCH_READLINK(sys_call6, path, to, bytes);
}

static inline int sys_gettid(void)
{
	return (int)sys_call3(SYS_gettid, 0, 0, 0);
}

static inline int sys_getpid(void)
{
	return (int)sys_call3(SYS_getpid, 0, 0, 0);
}

/* Whether the page at `address` can be read, without touching it: the kernel reads the new mask before it checks
 * `how`, which no kernel knows. EFAULT = not readable, EINVAL = readable. */
static inline int sys_readable(uintptr_t address)
{
	enum { EINVAL_ = 22, SIGSET_BYTES = 8 };
	if (!sys_may(SYS_PROBE))
		return 0;
	long ret = sys_call6(SYS_rt_sigprocmask, ~0L, (long)(address & ~(uintptr_t)7), 0,
			     SIGSET_BYTES, 0, 0);

	return ret == -EINVAL_;
}
#endif

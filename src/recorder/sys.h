/* SPDX-License-Identifier: Apache-2.0 */
/* The only access to the kernel. Raw system calls: they cannot be interposed, take no lock and leave errno alone. Each
 * returns the kernel's value: negative is -errno. */
#ifndef RECORDER_SYS_H
#define RECORDER_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "recorder/arch/arch.h"
#include "recorder/checks/chaos.h"
#include "recorder/checks/check.h"

/* Checks that no lock is held meanwhile. Tests may override it. */
#ifndef SYS_CHECK
#define SYS_CHECK(number)                                                                          \
	do {                                                                                       \
		if (CHECKED)                                                                       \
			check_system_call();                                                       \
	} while (0)
#endif

/* The kernel's page size, which mappings are changed by. Memory is probed by ARCH_PAGE, which is right for larger pages too. */
extern uintptr_t sys_page_bytes;
static inline uintptr_t sys_page(void)
{
	return ARCH_PAGE_MAX == ARCH_PAGE ? (uintptr_t)ARCH_PAGE : sys_page_bytes;
}

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

/* A value of the auxiliary vector; 0: not present, for which libc sets errno. */
static inline uintptr_t sys_auxiliary(unsigned long type)
{
	int before = errno;
	uintptr_t value = getauxval(type);

	errno = before;
	return value;
}

static inline int sys_failed(long ret)
{
	enum { ERRNO_MAX = 4095 }; /* the kernel's limit */

	return (unsigned long)ret >= (unsigned long)-ERRNO_MAX;
}

/* Our system calls by purpose. Before the program gives up system calls (seccomp), every group with a call that would harm
 * it is marked as forbidden; from then on we make no call of that group, whatever it costs. */
enum sys_group {
	SYS_MEMORY = 1,	 /* opening the next piece of memory */
	SYS_PROBE = 2,	 /* checking whether a page is readable */
	SYS_THREADS = 4, /* a thread's first call */
	SYS_OTHERS = 8,	 /* exec, children, libraries, limits */
	SYS_WAIT = 16,	 /* waiting for a lock whose owner is not running */
	SYS_READ = 32,	 /* reading our own memory at addresses that may be unmapped */
	SYS_ALL = 63,
	SYS_HOLD = 64,	/* waiting at exit, until the collector has read our memory */
	SYS_DUMP = 128, /* adding an opened piece to core files */
};
extern unsigned sys_forbidden;

/* groups: bits of enum sys_group. */
static inline bool sys_may(unsigned groups)
{
	return !(__atomic_load_n(&sys_forbidden, __ATOMIC_RELAXED) & groups);
}

/* Missing in the headers that we build with, or their names are unusable. */
enum {
	SYS_POPULATE_WRITE = 23, /* madvise, Linux 5.14 */
	SYS_WIPE_ON_FORK = 18,	 /* madvise, Linux 4.14 */
	SYS_READ_QUIETLY = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	SYS_MAKE_FILE = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	SYS_MEMFD_FLAGS = 1 | 2,  /* CLOEXEC, ALLOW_SEALING */
	SYS_MEMFD_NOEXEC = 8,	  /* NOEXEC_SEAL, Linux 6.3 */
	SYS_ADD_SEALS = 1033,	  /* fcntl */
	SYS_SEALS = 1 | 2 | 4,	  /* SEAL, SHRINK, GROW */
	SYS_SET_VMA = 0x53564d41, /* prctl, Linux 5.17 */
	SYS_SET_VMA_NAME = 0,
	SYS_PRCTL_DISPATCH = 59, /* prctl, Linux 5.11 */
	SYS_PRCTL_DISPATCH_OFF = 0,
	SYS_FUTEX_ADD_0 = FUTEX_OP_ADD << 28, /* of FUTEX_WAKE_OP */
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

/* Populates a writable range now: lack of memory is an error here instead of SIGBUS on first access. Kernels before 5.14 have no request
 * for it. There a futex adds 0 to a word of each page, because another thread may already use the page. */
static inline bool sys_populate(char *at, size_t bytes)
{
	long ret = sys_madvise(at, bytes, SYS_POPULATE_WRITE);

	if (ret != -EINVAL)
		return !sys_failed(ret);
	for (size_t i = 0; i < bytes; i += ARCH_PAGE)
		if (!sys_may(SYS_WAIT) ||
		    sys_failed(sys_call6(SYS_futex, (long)at, FUTEX_WAKE_OP_PRIVATE, 0, 0,
					 (long)(at + i), SYS_FUTEX_ADD_0)))
			return false;
	return true;
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

struct stat;
static inline bool sys_stat(const char *path, struct stat *ret)
{
	return !sys_failed(sys_call6(SYS_newfstatat, AT_FDCWD, (long)path, (long)ret, 0, 0, 0));
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

/* True if the page at `address` is readable, without touching it: the kernel reads the new mask before it checks `how`,
 * which is invalid. EFAULT = not readable, EINVAL = readable. */
static inline int sys_readable(uintptr_t address)
{
	enum { EINVAL_ = 22, SIGSET_BYTES = 8 };
	if (!sys_may(SYS_PROBE))
		return 0;
	long ret = sys_call6(SYS_rt_sigprocmask, ~0L, (long)(address & ~(uintptr_t)7), 0,
			     SIGSET_BYTES, 0, 0);

	return ret == -EINVAL_;
}

/* Copies from this process' own memory where it may be unmapped. False: part of it is unreadable. */
static inline bool sys_read_safely(long pid, uintptr_t from, void *to, size_t bytes)
{
	struct iovec here = { to, bytes }, there = { (void *)from, bytes };

	return sys_may(SYS_READ) && sys_call6(SYS_process_vm_readv, pid, (long)&here, 1,
					      (long)&there, 1, 0) == (long)bytes;
}
#endif

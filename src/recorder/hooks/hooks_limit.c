/* SPDX-License-Identifier: Apache-2.0 */
/* setrlimit, prlimit and mlockall: a program that limits its address space, or locks it under a limit, expects only its
 * own memory to count, not our reservation. Before the limit takes effect, we release all reserved memory that is not
 * open, except a small part. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "recorder/hooks/hook.h"
#include "recorder/libc/libc.h"
#include "recorder/sys.h"

static void before_limit(const uintptr_t *frame, int resource, const struct rlimit *limit)
{
	if (resource != RLIMIT_AS || !sys_may(SYS_OTHERS) || !sys_readable((uintptr_t)limit) ||
	    !sys_readable((uintptr_t)(limit + 1) - 1) || limit->rlim_cur == RLIM_INFINITY)
		return;
	struct slot *slot = hook_enter(frame);

	/* Even if this thread has no slot. */
	if (memory.head != NULL && !hook_in_new_child() &&
	    __atomic_load_n(&memory.head->ready, __ATOMIC_ACQUIRE))
		memory_shrink(limit->rlim_cur);
	if (slot != NULL)
		hook_leave();
}

EXPORT int setrlimit(libc_limited resource, const struct rlimit *limit)
{
	before_limit(HOOK_FRAME(), (int)resource, limit);
	return next_found()->setrlimit((int)resource, limit);
}

EXPORT int setrlimit64(libc_limited resource, const struct rlimit64 *limit)
{
	before_limit(HOOK_FRAME(), (int)resource, (const struct rlimit *)limit);
	return next_found()->setrlimit((int)resource, (const struct rlimit *)limit);
}

static ALWAYS_INLINE int limit_process(pid_t pid, int resource, const struct rlimit *limit,
				       struct rlimit *old, const uintptr_t *frame)
{
	if (pid == 0 || (sys_may(SYS_THREADS) && pid == sys_getpid()))
		before_limit(frame, resource, limit);
	return next_found()->prlimit(pid, resource, limit, old);
}

EXPORT int prlimit(pid_t pid, libc_limited resource, const struct rlimit *limit, struct rlimit *old)
{
	return limit_process(pid, (int)resource, limit, old, HOOK_FRAME());
}

EXPORT int prlimit64(pid_t pid, libc_limited resource, const struct rlimit64 *limit,
		     struct rlimit64 *old)
{
	return limit_process(pid, (int)resource, (const struct rlimit *)limit, (struct rlimit *)old,
			     HOOK_FRAME());
}

/* The kernel compares everything mapped with the limit, including reservations. */
EXPORT int mlockall(int flags)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	if (sys_may(SYS_OTHERS))
		sys_call6(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)&limit, 0, 0);
	before_limit(frame, RLIMIT_AS, &limit);
	return next_found()->mlockall(flags);
}

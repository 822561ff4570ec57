/* SPDX-License-Identifier: Apache-2.0 */
/* setrlimit and prlimit: a program that limits its own address space reckons with what it uses, not with what we have
 * reserved. Before a limit comes into force, what is reserved and not open is given back, but for a small part. */
#include <sys/resource.h>

#include "recorder/hook.h"

static void before_limit(const uintptr_t *frame, int resource, const struct rlimit *limit)
{
	if (resource != RLIMIT_AS || limit == NULL || limit->rlim_cur == RLIM_INFINITY)
		return;
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return;
	memory_shrink(limit->rlim_cur);
	hook_leave();
}

EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	before_limit(HOOK_FRAME(), (int)resource, limit);
	return next_ready() ? next.setrlimit((int)resource, limit) : -1;
}

EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	before_limit(HOOK_FRAME(), (int)resource, (const struct rlimit *)limit);
	return next_ready() ? next.setrlimit((int)resource, (const struct rlimit *)limit) : -1;
}

EXPORT int prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *limit,
		   struct rlimit *old)
{
	if (pid == 0 || (memory.head != NULL && (uint32_t)pid == memory.head->pid))
		before_limit(HOOK_FRAME(), (int)resource, limit);
	return next_ready() ? next.prlimit(pid, (int)resource, limit, old) : -1;
}

EXPORT int prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *limit,
		     struct rlimit64 *old)
{
	return prlimit(pid, resource, (const struct rlimit *)limit, (struct rlimit *)old);
}

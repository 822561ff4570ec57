/* SPDX-License-Identifier: Apache-2.0 */
/* prctl and syscall, for a few requests: a program that disables the time-stamp counter (cpu_limit.h), and one that gives up system
 * calls by seccomp. Strict mode leaves four system calls, none of which we use; a filter is evaluated for each of ours
 * (seccomp_filter.h). From then on we skip every call that the filter would punish; if that includes opening memory, some is opened
 * ahead. The third is the publication of OpenTelemetry's process context, whose last step is to name a mapping (key_table.h). All
 * requests are forwarded unchanged. */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/process/seccomp_filter.h"
#include "recorder/hooks/hook.h"
#include "recorder/otel/key_table.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/sys.h"

/* The next definition of syscall; NULL: not looked up yet. */
__attribute__((used, visibility("hidden"))) void *seal_forward;

/* Accumulates: each of several filters may forbid something. */
static void before_seccomp(const uintptr_t *frame, unsigned forbidden)
{
	struct slot *slot = hook_enter(frame);

	if (CHECKED)
		chaos_seccomp();
	if (slot != NULL && forbidden & SYS_MEMORY)
		memory_open_ahead();
	__atomic_or_fetch(&sys_forbidden, forbidden, __ATOMIC_RELAXED);
	if (slot != NULL)
		hook_leave();
}

/* The mapping's content is ready; whether the kernel supports names does not matter. */
static void before_naming(const uintptr_t *frame, uintptr_t mapping, uintptr_t name)
{
	if (hook_enter(frame) == NULL)
		return;
	otel_mapping_is_named(mapping, name);
	hook_leave();
}

/* The kernel may reject the filter; then we have only given up those system calls needlessly. */
EXPORT int prctl(int option, ...)
{
	unsigned long argument[4];
	va_list rest;

	va_start(rest, option);
	for (int i = 0; i < 4; i++)
		argument[i] = va_arg(rest, unsigned long);
	va_end(rest);
	if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_STRICT)
		before_seccomp(HOOK_FRAME(), SYS_ALL);
	if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_FILTER)
		before_seccomp(HOOK_FRAME(),
			       filter_forbids((const struct sock_fprog *)argument[1]));
	if (option == SYS_SET_VMA && argument[0] == SYS_SET_VMA_NAME && otel_key_count != 0)
		before_naming(HOOK_FRAME(), argument[1], argument[3]);
	if (option == PR_SET_TSC)
		cpu_limit_stop();
	return next_found()->prctl(option, argument[0], argument[1], argument[2], argument[3]);
}

/* syscall() can also vfork: the child returns from it on its parent's stack, so we must not leave a frame there. Hence a jump; we
 * call a function only for the one number that matters, or before the next definition is known. */
__attribute__((used, visibility("hidden"))) void *seccomp_next_syscall(long number,
								       const uintptr_t *frame,
								       long operation,
								       const void *program);
void *seccomp_next_syscall(long number, const uintptr_t *frame, long operation, const void *program)
{
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_STRICT)
		before_seccomp(frame, SYS_ALL);
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_FILTER)
		before_seccomp(frame, filter_forbids(program));
	seal_forward = (void *)(uintptr_t)next_found()->syscall;
	return seal_forward;
}

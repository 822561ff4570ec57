/* SPDX-License-Identifier: Apache-2.0 */
/* prctl and syscall, for a few requests: a program that disables the time-stamp counter (cpu_limit.h), and one that gives up system
 * calls. Strict seccomp mode leaves four, none of which we use; a seccomp filter is evaluated for each of ours (seccomp_filter.h); and
 * syscall user dispatch turns those made outside of a range of code into a signal, whose handler takes them for the program's. From then
 * on we skip every call that would be punished; if that includes opening memory, some is opened ahead. The third is the publication of OpenTelemetry's process context, whose last step is to name a mapping (key_table.h). All
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
#include "recorder/sampling/timed_calls.h"
#include "recorder/sys.h"

/* The next definition of syscall; NULL: not looked up yet. */
__attribute__((used, visibility("hidden"))) void *seal_forward;

static void counter_stop(void)
{
	cpu_limit_stop();
	timed_calls_stop();
}

/* Accumulates: each of several filters may forbid something. */
static void before_seccomp(const uintptr_t *frame, unsigned forbidden)
{
	struct slot *slot = hook_enter(frame);

	if (CHECKED)
		chaos_seccomp();
	if (forbidden == SYS_ALL)
		counter_stop(); /* strict mode disables it, too */
	if (slot != NULL && forbidden & SYS_MEMORY)
		memory_open_ahead();
	__atomic_or_fetch(&sys_forbidden, forbidden, __ATOMIC_RELAXED);
	if (slot != NULL)
		hook_leave();
}

static void before_prctl(const uintptr_t *frame, long option, unsigned long mode,
			 const void *program)
{
	if (option == PR_SET_TSC)
		counter_stop();
	if ((option == SYS_PRCTL_DISPATCH && mode != SYS_PRCTL_DISPATCH_OFF) ||
	    (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_STRICT))
		before_seccomp(frame, SYS_ALL);
	if (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_FILTER)
		before_seccomp(frame, filter_forbids((const struct sock_fprog *)program));
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
	before_prctl(HOOK_FRAME(), option, argument[0], (const void *)argument[1]);
	if (option == SYS_SET_VMA && argument[0] == SYS_SET_VMA_NAME && otel_key_count != 0)
		before_naming(HOOK_FRAME(), argument[1], argument[3]);
	return next_found()->prctl(option, argument[0], argument[1], argument[2], argument[3]);
}

/* syscall() can also vfork: the child returns from it on its parent's stack, so we must not leave a frame there. Hence a jump; we
 * call a function only for the two numbers that matter, or before the next definition is known. */
__attribute__((used, visibility("hidden"))) void *seccomp_next_syscall(long number,
								       const uintptr_t *frame,
								       long operation,
								       const void *program,
								       unsigned long mode);
void *seccomp_next_syscall(long number, const uintptr_t *frame, long operation, const void *program,
			   unsigned long mode)
{
	if (number == SYS_prctl)
		before_prctl(frame, operation, mode, program);
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_STRICT)
		before_seccomp(frame, SYS_ALL);
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_FILTER)
		before_seccomp(frame, filter_forbids(program));
	seal_forward = (void *)(uintptr_t)next_found()->syscall;
	return seal_forward;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A normal exit: exit, which runs our destructor, and those which do not. What is left of a process that
 * is killed shows why; of one that ends by itself nothing is to be left. The data never depends on this. */
#include "recorder/hooks/hook.h"
#include "recorder/process/profile.h"

/* The names themselves may not be called in here. */
EXPORT __attribute__((noreturn)) void hook_exit_now(int status) __asm__("_exit");
EXPORT __attribute__((noreturn)) void hook_exit_as_c99(int status) __asm__("_Exit");
EXPORT __attribute__((noreturn)) void hook_exit_quickly(int status) __asm__("quick_exit");

void hook_exit_now(int status)
{
	profile_end();
	next_found()->exit_now(status);
	__builtin_unreachable();
}

void hook_exit_as_c99(int status)
{
	profile_end();
	next_found()->exit_now(status);
	__builtin_unreachable();
}

void hook_exit_quickly(int status)
{
	profile_end();
	next_found()->exit_quickly(status);
	__builtin_unreachable();
}

__attribute__((destructor)) static void end(void)
{
	profile_end();
}

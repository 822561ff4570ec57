/* SPDX-License-Identifier: Apache-2.0 */
/* Normal process exit: exit, which runs our destructor, and the functions that do not. The file that a killed process
 * leaves behind shows why it died; a process that exits normally must leave none. The data never depends on this. */
#include "recorder/hooks/hook.h"
#include "recorder/process/profile.h"

/* Their real names must not be called in this file. */
EXPORT __attribute__((noreturn)) void hook_exit_now(int status) __asm__("_exit");
EXPORT __attribute__((noreturn)) void hook_exit_as_c99(int status) __asm__("_Exit");
EXPORT __attribute__((noreturn)) void hook_exit_quickly(int status) __asm__("quick_exit");

void hook_exit_now(int status)
{
	profile_exit();
	next_found()->exit_now(status);
	__builtin_unreachable();
}

void hook_exit_as_c99(int status)
{
	profile_exit();
	next_found()->exit_now(status);
	__builtin_unreachable();
}

void hook_exit_quickly(int status)
{
	profile_exit();
	next_found()->exit_quickly(status);
	__builtin_unreachable();
}

__attribute__((destructor)) static void end(void)
{
	profile_exit();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fork and _Fork. A child starts its own profile on its first hook call and needs nothing here, except that shells which other
 * threads of its parent were starting are not its own. But a child that a signal handler forks inside a hook continues that hook
 * when the handler returns, still using the parent's profile: it gets a private copy, taken before the fork. */
#include "recorder/hooks/hook.h"
#include "recorder/process/shell_environment.h"
#include "recorder/sys.h"

/* The names themselves may be macros or poisoned. */
EXPORT pid_t hook_fork(void) __asm__("fork");
EXPORT pid_t hook_fork_alone(void) __asm__("_Fork");

/* The interrupted hook may hold a lock, in the parent and in the child. */
static COLD pid_t fork_inside_hook(pid_t (*fork_next)(void))
{
	const struct lock *held = CHECKED ? check_lock_set_aside() : NULL;
	struct memory_copy copy = memory_copy_take();
	pid_t pid = fork_next();

	if (pid == 0 && hook_in_new_child())
		memory_copy_use(&copy);
	memory_copy_drop(&copy);
	if (CHECKED)
		check_lock_put_back(held);
	return pid;
}

static ALWAYS_INLINE pid_t fork_by(pid_t (*fork_next)(void))
{
	bool inside = thread_state.guard != 0 && thread_state.token == *fork_token;

	pid_t pid = UNLIKELY(inside) ? fork_inside_hook(fork_next) : fork_next();

	if (pid == 0)
		shell_environment_forked();
	return pid;
}

pid_t hook_fork(void)
{
	return fork_by(next_found()->fork);
}

pid_t hook_fork_alone(void)
{
	return fork_by(next_found()->fork_alone);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* exec, posix_spawn, system, popen: forwarded with an environment in which a program that can be recorded finds the
 * recorder. The hook is left before the call: it may not come back, and a vfork's child shares its parent's guard.
 * Where there is no slot, the call is forwarded as it is. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/exec.h"
#include "recorder/hook.h"
#include "recorder/sys.h"

enum { SEARCH = 1 };

static char *const *environment_for(const uintptr_t *frame, const char *path, bool search,
				    char *const *envp)
{
	if (hook_in_new_child())
		return exec_environment(NULL, path, search, envp);
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return envp;
	hook_record(frame);
	envp = exec_environment(slot, path, search, envp);
	hook_leave();
	return envp;
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	char *const *with = environment_for(HOOK_FRAME(), path, false, envp);

	return next_ready() ? next.execve(path, argv, with) : -1;
}

EXPORT int execv(const char *path, char *const argv[])
{
	char *const *with = environment_for(HOOK_FRAME(), path, false, exec_environ());

	return next_ready() ? next.execve(path, argv, with) : -1;
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	char *const *with = environment_for(HOOK_FRAME(), file, SEARCH, envp);

	return next_ready() ? next.execvpe(file, argv, with) : -1;
}

EXPORT int execvp(const char *file, char *const argv[])
{
	char *const *with = environment_for(HOOK_FRAME(), file, SEARCH, exec_environ());

	return next_ready() ? next.execvpe(file, argv, with) : -1;
}

/* "/proc/self/fd/N": the file that a descriptor names. */
static void path_of(int fd, char ret[static 32])
{
	static const char folder[] = "/proc/self/fd/";
	char digits[12];
	size_t n = 0, at = sizeof folder - 1;

	__builtin_memcpy(ret, folder, at);
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10) != 0);
	while (n > 0)
		ret[at++] = digits[--n];
	ret[at] = 0;
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[32];

	path_of(fd, path);
	char *const *with = environment_for(HOOK_FRAME(), path, false, envp);

	return next_ready() ? next.fexecve(fd, argv, with) : -1;
}

EXPORT int execveat(int folder, const char *path, char *const argv[], char *const envp[], int flags)
{
	bool plain = path[0] == '/';
	char *const *with = plain ? environment_for(HOOK_FRAME(), path, false, envp) : envp;

	if (next_ready() && next.execveat != NULL)
		return next.execveat(folder, path, argv, with, flags);
	errno = ENOSYS;
	return -1;
}

/* The arguments of execl and its kin as an array. Without a slot: in memory that the next program takes with it. */
static char **gather(struct slot *slot, size_t count)
{
	size_t bytes = (count + 1) * sizeof(char *);

	if (slot != NULL)
		return exec_arguments(slot, bytes);
	long at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sys_failed(at) ? NULL : (char **)at;
}

enum list_kind { LIST_PATH, LIST_SEARCH, LIST_WITH_ENVIRONMENT };

static int execute_list(enum list_kind kind, const char *path, const char *first, va_list rest,
			const uintptr_t *frame)
{
	bool new_child = hook_in_new_child();
	struct slot *slot = new_child ? NULL : hook_enter(frame);
	char *const *envp = exec_environ();
	va_list again;
	size_t count = 0;

	va_copy(again, rest);
	for (const char *word = first; word != NULL; word = va_arg(again, const char *))
		count++;
	va_end(again);
	char **argv = gather(slot, count);

	if (argv != NULL) {
		size_t n = 0;

		for (const char *word = first; word != NULL; word = va_arg(rest, const char *))
			argv[n++] = (char *)(uintptr_t)word;
		argv[n] = NULL;
		if (kind == LIST_WITH_ENVIRONMENT)
			envp = va_arg(rest, char *const *);
	}
	if (slot != NULL || new_child)
		envp = exec_environment(slot, path, kind == LIST_SEARCH, envp);
	if (slot != NULL)
		hook_leave();
	if (argv == NULL || !next_ready()) {
		errno = ENOMEM;
		return -1;
	}
	return kind == LIST_SEARCH ? next.execvpe(path, argv, envp) : next.execve(path, argv, envp);
}

EXPORT int execl(const char *path, const char *first, ...)
{
	va_list rest;

	va_start(rest, first);
	int status = execute_list(LIST_PATH, path, first, rest, HOOK_FRAME());

	va_end(rest);
	return status;
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list rest;

	va_start(rest, first);
	int status = execute_list(LIST_SEARCH, file, first, rest, HOOK_FRAME());

	va_end(rest);
	return status;
}

EXPORT int execle(const char *path, const char *first, ...)
{
	va_list rest;

	va_start(rest, first);
	int status = execute_list(LIST_WITH_ENVIRONMENT, path, first, rest, HOOK_FRAME());

	va_end(rest);
	return status;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	char *const *with =
		environment_for(HOOK_FRAME(), path, false, envp != NULL ? envp : exec_environ());

	return next_ready() ? next.posix_spawn(pid, path, actions, attributes, argv, with) : ENOMEM;
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	char *const *with =
		environment_for(HOOK_FRAME(), file, SEARCH, envp != NULL ? envp : exec_environ());

	return next_ready() ? next.posix_spawnp(pid, file, actions, attributes, argv, with)
			    : ENOMEM;
}

/* libc starts the shell itself, with `environ`: ours are in it for as long as that takes. */
static char **lend_environment(const uintptr_t *frame, char ***ret_before)
{
	*ret_before = environ;
	char **with = (char **)(uintptr_t)environment_for(frame, "/bin/sh", false, environ);

	if (with != *ret_before)
		environ = with;
	return with;
}

static void take_back(char **with, char **before)
{
	if (environ == with)
		environ = before;
}

EXPORT int system(const char *command)
{
	char **before;
	char **with = lend_environment(HOOK_FRAME(), &before);
	int status = next_ready() ? next.system(command) : -1;

	take_back(with, before);
	return status;
}

EXPORT FILE *popen(const char *command, const char *mode)
{
	char **before;
	char **with = lend_environment(HOOK_FRAME(), &before);
	FILE *stream = next_ready() ? next.popen(command, mode) : NULL;

	take_back(with, before);
	return stream;
}

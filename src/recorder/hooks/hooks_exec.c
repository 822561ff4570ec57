/* SPDX-License-Identifier: Apache-2.0 */
/* exec, posix_spawn, system, popen: forwarded with an environment that loads the recorder, if the program can be
 * recorded. The hook is left before the call, because the call may not return and a vfork child shares its parent's
 * guard. Without a slot, the call is forwarded unchanged. Every start is logged before the call and retracted if the
 * call fails. A NULL environment is an empty one, as for the kernel. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/process/exec.h"
#include "recorder/hooks/hook.h"
#include "recorder/libc/libc.h"
#include "recorder/process/profile.h"
#include "recorder/process/process_log.h"
#include "recorder/process/shell_environment.h"
#include "recorder/sys.h"

/* How the program is found, and whether it replaces the caller. */
enum {
	SEARCH = 1,  /* in PATH */
	BECOMES = 2, /* the caller execs it */
};

static struct exec_start begin(const uintptr_t *frame, const char *path, int how, char *const *envp)
{
	bool search = how & SEARCH, becomes = how & BECOMES;

	if (becomes)
		profile_becomes(path, search);
	if (hook_in_new_child())
		return exec_begin(NULL, path, search, becomes, envp);
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return exec_begin_unrecorded(MISSED_busy, "", becomes, envp);
	hook_record(frame);
	struct exec_start start = exec_begin(slot, path, search, becomes, envp);

	hook_leave();
	return start;
}

/* An exec failed and returned. */
static int after_failed_exec(struct exec_start start, int status)
{
	exec_end(&start, true);
	return status;
}

/* True if the arguments fit only without our variables: retry unrecorded. */
static bool is_too_long(struct exec_start *start, int error, const char *path, bool becomes,
			char *const *envp)
{
	if (error != E2BIG || !start->recorded)
		return false;
	exec_end(start, true);
	*start = exec_begin_unrecorded(MISSED_busy, path, becomes, envp);
	return true;
}

static int execute(const uintptr_t *frame, const char *path, char *const argv[], char *const envp[])
{
	struct exec_start start = begin(frame, path, BECOMES, envp);
	int status;

	do
		status = next_found()->execve(path, argv, start.envp);
	while (is_too_long(&start, errno, path, true, envp));
	return after_failed_exec(start, status);
}

static int search(const uintptr_t *frame, const char *file, char *const argv[], char *const envp[])
{
	struct exec_start start = begin(frame, file, SEARCH | BECOMES, envp);
	int status;

	do
		status = next_found()->execvpe(file, argv, start.envp);
	while (is_too_long(&start, errno, file, true, envp));
	return after_failed_exec(start, status);
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return execute(HOOK_FRAME(), path, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execute(HOOK_FRAME(), path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return search(HOOK_FRAME(), file, argv, envp);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return search(HOOK_FRAME(), file, argv, environ);
}

/* "/proc/self/fd/N": the file of a descriptor. */
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
	int status;

	if (envp == NULL) /* libc rejects NULL, the kernel would not */
		return next_found()->fexecve(fd, argv, envp);
	path_of(fd, path);
	struct exec_start start = begin(HOOK_FRAME(), path, BECOMES, envp);

	do
		status = next_found()->fexecve(fd, argv, start.envp);
	while (is_too_long(&start, errno, path, true, envp));
	return after_failed_exec(start, status);
}

EXPORT int execveat(int folder, const char *path, char *const argv[], char *const envp[], int flags)
{
	bool readable = sys_readable((uintptr_t)path); /* if not, the kernel will fail the call */
	bool plain = readable && path[0] == '/';
	struct exec_start start = plain ? begin(HOOK_FRAME(), path, BECOMES, envp)
					: exec_begin_unrecorded(MISSED_unreadable,
								readable ? path : NULL, true, envp);

	int status = -1;

	if (next_found()->execveat == NULL) {
		errno = ENOSYS;
		return after_failed_exec(start, status);
	}
	do
		status = next.execveat(folder, path, argv, start.envp, flags);
	while (is_too_long(&start, errno, path, true, envp));
	return after_failed_exec(start, status);
}

/* In a forked child, alone in its address space. */
static char *forked_arguments[1024];

/* Returns an array for the arguments of execl and its variants. Without a slot it is mapped, and goes away with the exec. */
static char **gather(struct slot *slot, bool new_child, size_t count)
{
	size_t bytes = (count + 1) * sizeof(char *);

	if (slot != NULL)
		return exec_arguments(slot, bytes);
	if (new_child && count < ARRAY_SIZE(forked_arguments))
		return forked_arguments;
	long at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sys_failed(at) ? NULL : (char **)at;
}

enum list_kind { LIST_PATH, LIST_SEARCH, LIST_WITH_ENVIRONMENT };

static int execute_list(enum list_kind kind, const char *path, const char *first, va_list rest,
			const uintptr_t *frame)
{
	bool new_child = hook_in_new_child();
	struct slot *slot = new_child ? NULL : hook_enter(frame);
	char *const *envp = environ;
	struct exec_start start = { .envp = envp };
	va_list again;
	size_t count = 0;
	int status = -1;

	profile_becomes(path, kind == LIST_SEARCH);

	va_copy(again, rest);
	for (const char *word = first; word != NULL; word = va_arg(again, const char *))
		count++;
	va_end(again);
	char **argv = gather(slot, new_child, count);
	bool mapped = slot == NULL && argv != NULL && argv != forked_arguments;

	if (argv != NULL) {
		size_t n = 0;

		for (const char *word = first; word != NULL; word = va_arg(rest, const char *))
			argv[n++] = (char *)(uintptr_t)word;
		argv[n] = NULL;
		if (kind == LIST_WITH_ENVIRONMENT)
			start.envp = envp = va_arg(rest, char *const *);
	}
	if (slot != NULL || new_child)
		start = exec_begin(slot, path, kind == LIST_SEARCH, true, envp);
	else
		start = exec_begin_unrecorded(MISSED_busy, "", true, envp);
	if (slot != NULL)
		hook_leave();
	if (argv == NULL) {
		errno = ENOMEM;
		return after_failed_exec(start, status);
	}
	do
		status = kind == LIST_SEARCH ? next_found()->execvpe(path, argv, start.envp)
					     : next_found()->execve(path, argv, start.envp);
	while (is_too_long(&start, errno, path, true, envp));
	if (mapped)
		sys_munmap(argv, (count + 1) * sizeof(char *));
	return after_failed_exec(start, status);
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

static int spawn(spawn_fn *forward, struct exec_start start, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const argv[], char *const envp[])
{
	int error;

	do
		error = forward(pid, path, actions, attributes, argv, start.envp);
	while (is_too_long(&start, error, path, false, envp));
	exec_end(&start, error != 0);
	return error;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	struct exec_start start = begin(HOOK_FRAME(), path, 0, envp);

	return spawn(next_found()->posix_spawn, start, pid, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	struct exec_start start = begin(HOOK_FRAME(), file, SEARCH, envp);

	return spawn(next_found()->posix_spawnp, start, pid, file, actions, attributes, argv, envp);
}

/* libc starts the shell itself, with `environ`: our variables are in it during the call. */
static struct shell_start begin_shell(const uintptr_t *frame)
{
	if (hook_in_new_child()) {
		shell_environment_forked();
		return shell_environment_begin();
	}
	if (hook_enter(frame) == NULL)
		return (struct shell_start){ exec_announce(MISSED_busy, "", false), false };
	hook_record(frame);
	struct shell_start start = shell_environment_begin();

	hook_leave();
	return start;
}

static void end_shell(struct shell_start start, bool failed)
{
	shell_environment_end(start);
	if (failed)
		process_log_retract(start.number);
}

/* If the shell cannot be started, system returns as if it had exited with 127: errno tells the difference. */
EXPORT int system(const char *command)
{
	enum { NOT_FOUND = 127 << 8 };
	int before = errno;
	struct shell_start start = begin_shell(HOOK_FRAME());

	errno = 0;
	int status = next_found()->system(command);

	bool too_long = status == NOT_FOUND && errno == E2BIG;

	end_shell(start, status == -1 || too_long);
	if (errno == 0 || too_long)
		errno = before;
	return too_long && start.extended ? next.system(command) : status;
}

EXPORT FILE *popen(const char *command, const char *mode)
{
	struct shell_start start = begin_shell(HOOK_FRAME());
	FILE *stream = next_found()->popen(command, mode);

	end_shell(start, stream == NULL);
	/* popen does not say why it failed; our variables may have been too long. */
	return stream == NULL && start.extended ? next.popen(command, mode) : stream;
}

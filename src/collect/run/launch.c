/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork and exec. The child gets the signal mask and dispositions that the collector itself was started with, the whole
 * environment plus two variables, and none of our descriptors: all are close-on-exec. A failed exec sends its errno through a
 * pipe that a successful exec closes.
 *
 * Between fork and exec nothing is allocated. Called from the collector's only thread.
 */
#include "collect/run/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/live/live.h"
#include "util/cleanup.h"

static const int taken[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT };

int launch_signals_take(struct launch_signals *saved, const struct triggers *triggers,
			struct error *error)
{
	struct sigaction standard = { .sa_handler = SIG_DFL }, ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&set, taken[i]);
	for (size_t i = 0; i < triggers->list.count; i++) {
		if (triggers->list.at[i].kind == TRIGGER_SIGNAL)
			sigaddset(&set, (int)triggers->list.at[i].limit);
	}
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_errno(error, "cannot handle signals");
	sigprocmask(SIG_BLOCK, &set, &saved->mask);
	/* If SIGCHLD were inherited as ignored, the kernel would reap the program before its status is read. */
	sigaction(SIGCHLD, &standard, &saved->child);
	sigaction(SIGPIPE, &ignore, &saved->pipe);
	/* RLIMIT_FSIZE also applies to shared memory: an error is enough. */
	sigaction(SIGXFSZ, &ignore, &saved->file_size);
	return fd;
}

void launch_signals_give_back(const struct launch_signals *saved)
{
	sigaction(SIGCHLD, &saved->child, NULL);
	sigaction(SIGPIPE, &saved->pipe, NULL);
	sigaction(SIGXFSZ, &saved->file_size, NULL);
	sigprocmask(SIG_SETMASK, &saved->mask, NULL);
}

static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

struct environment {
	char **entries; /* NULL-terminated; the last two are ours, the others belong to environ */
	char *preload, *handover;
};

static void environment_release(struct environment *env)
{
	free(env->entries);
	free(env->preload);
	free(env->handover);
}

static int environment_init(struct environment *env, const struct launch *launch,
			    struct error *error)
{
	const char *before = getenv("LD_PRELOAD");
	char ticket[LIVE_TICKET_TEXT + 1] = "", settings[LIVE_SETTINGS_TEXT + 1];
	size_t count = 0, used = 0;

	live_ticket_write(ticket, (struct live_ticket){ 0 });
	live_settings_write(settings, launch->settings);

	while (environ && environ[count])
		count++;
	env->entries = calloc(count + 3, sizeof *env->entries);
	if (!env->entries ||
	    asprintf(&env->preload, "LD_PRELOAD=%s%s%s", launch->recorder,
		     before && *before ? ":" : "", before && *before ? before : "") < 0 ||
	    asprintf(&env->handover, "%s=%s,%s", LIVE_ENV_HANDOVER, ticket, settings) < 0)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (!is_variable(environ[i], LIVE_ENV_HANDOVER))
			env->entries[used++] = environ[i];
	}
	/* Last: ld.so uses the last LD_PRELOAD; the recorder removes these two and leaves the rest unchanged. */
	env->entries[used++] = env->preload;
	env->entries[used++] = env->handover;
	return 0;
}

/* Runs in the child. Does not return. */
static _Noreturn void become(const struct launch *launch, const struct environment *env,
			     int failure_fd)
{
	int number;

	launch_signals_give_back(launch->signals);
	execvpe(launch->argv[0], launch->argv, env->entries);
	number = errno;
	(void)!write(failure_fd, &number, sizeof number);
	_exit(127);
}

/* 0 if the exec succeeded, else its errno. */
static int wait_for_exec(int fd)
{
	int number = 0;
	ssize_t got;

	do
		got = read(fd, &number, sizeof number);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof number ? number : 0;
}

pid_t launch_start(const struct launch *launch, int *ret_status, struct error *error)
{
	AUTO(environment_release) struct environment env = { 0 };
	AUTO_CLOSE int read_end = -1;
	AUTO_CLOSE int write_end = -1;
	int ends[2], number;
	pid_t pid;

	*ret_status = 126;
	if (environment_init(&env, launch, error) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(error, "cannot create a pipe");
	read_end = ends[0];
	write_end = ends[1];
	pid = fork();
	if (pid < 0)
		return error_errno(error, "cannot fork");
	if (pid == 0)
		become(launch, &env, write_end);
	close(TAKE_FD(write_end));
	number = wait_for_exec(read_end);
	if (number == 0)
		return pid;
	/* Nothing else waits for this zombie. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret_status = number == ENOENT || number == ENOTDIR ? 127 : 126;
	errno = number;
	return error_errno(error, "cannot run %s", launch->argv[0]);
}

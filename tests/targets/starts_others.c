/* SPDX-License-Identifier: Apache-2.0 */
/* R7: starts argv[1] in every way that libc has, without an environment or without arguments, and after clearenv; tells
 * what does not start. Then how much environment each way can carry at most: argv[2] is a program that does nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older_glibc.h"

static char *words[] = { "shown", "word", NULL };
static const char *path, *name;

static int by_execve(char **argv, char **envp)
{
	return execve(path, argv, envp);
}
static int by_execvpe(char **argv, char **envp)
{
	return execvpe(name, argv, envp);
}
static int by_execle(char **argv, char **envp)
{
	(void)argv; /* one that is NULL is no argument */
	return execle(path, words[0], words[1], NULL, envp);
}
static int by_fexecve(char **argv, char **envp)
{
	return fexecve(open(path, O_RDONLY), argv, envp);
}
static int by_execveat(char **argv, char **envp)
{
	return execveat(AT_FDCWD, path, argv, envp, 0);
}
static int by_posix_spawn(char **argv, char **envp)
{
	pid_t pid;

	errno = posix_spawn(&pid, path, NULL, NULL, argv, envp);
	if (errno == 0) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	return -1;
}
static int by_posix_spawnp(char **argv, char **envp)
{
	pid_t pid;

	errno = posix_spawnp(&pid, name, NULL, NULL, argv, envp);
	if (errno == 0) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	return -1;
}

/* Those that take the environment from the process. */
static int by_execv(char **argv, char **envp)
{
	environ = envp;
	return execv(path, argv);
}
static int by_execvp(char **argv, char **envp)
{
	environ = envp;
	return execvp(path, argv);
}
static int by_execl(char **argv, char **envp)
{
	(void)argv;
	environ = envp;
	return execl(path, words[0], words[1], NULL);
}
static int by_execlp(char **argv, char **envp)
{
	(void)argv;
	environ = envp;
	return execlp(path, words[0], words[1], NULL);
}
static int by_system(char **argv, char **envp)
{
	char command[4096];

	(void)argv;
	snprintf(command, sizeof command, "exec %s word", path);
	environ = envp;
	int status = system(command);

	if (status == 0 && environ == envp)
		_exit(0);
	return -1;
}
static int by_popen(char **argv, char **envp)
{
	char command[4096], line[4096];

	(void)argv;
	snprintf(command, sizeof command, "exec %s word", path);
	environ = envp;
	FILE *stream = popen(command, "r");

	if (stream == NULL || environ != envp)
		return -1;
	while (fgets(line, sizeof line, stream) != NULL)
		fputs(line, stdout);
	fflush(stdout);
	_exit(pclose(stream) != 0);
}

static const struct way {
	const char *name;
	int (*start)(char **argv, char **envp);
} ways[] = {
	{ "execve", by_execve },
	{ "execvpe", by_execvpe },
	{ "execle", by_execle },
	{ "fexecve", by_fexecve },
	{ "execveat", by_execveat },
	{ "posix_spawn", by_posix_spawn },
	{ "posix_spawnp", by_posix_spawnp },
	{ "execv", by_execv },
	{ "execvp", by_execvp },
	{ "execl", by_execl },
	{ "execlp", by_execlp },
	{ "system", by_system },
	{ "popen", by_popen },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Whether it was started; in a child, since some do not come back. */
static bool start(const struct way *way, char **argv, char **envp, bool tell)
{
	int status = 0;

	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		errno = 0;
		way->start(argv, envp);
		if (tell)
			printf("%s\n", errno != 0 ? strerrorname_np(errno) : "no errno");
		fflush(stdout);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static void with(const char *what, char **argv, char **envp)
{
	for (int i = 0; i < WAYS; i++) {
		printf("%s, %s:\n", ways[i].name, what);
		start(&ways[i], argv, envp, true);
	}
}

/* Many short entries and one of a length: found to the byte. */
static bool carries(const struct way *way, size_t bytes)
{
	enum { ENTRY = 1024, MOST = 4096 };
	static char *entries[MOST + 2], block[ENTRY], last[ENTRY];
	size_t whole = bytes / ENTRY, rest = bytes % ENTRY;

	memset(block, 'x', ENTRY - 1);
	memset(last, 'y', rest);
	last[rest] = 0;
	for (size_t i = 0; i < whole; i++)
		entries[i] = block;
	entries[whole] = last;
	entries[whole + 1] = NULL;
	return start(way, words, entries, false);
}

static void most(const struct way *way)
{
	size_t fits = 0, fails = 2 << 20;

	while (fails - fits > 1) {
		size_t middle = (fits + fails) / 2;

		if (carries(way, middle))
			fits = middle;
		else
			fails = middle;
	}
	printf("%s carries %zu\n", way->name, fits);
}

int main(int argc, char **argv)
{
	static char *one[] = { "ONE=1", NULL }, *none[] = { NULL };
	struct rlimit small = { 1 << 20, 1 << 20 };

	if (argc != 3)
		return 2;
	path = name = argv[1];
	with("one variable", words, one);
	with("an empty environment", words, none);
	with("no environment", words, NULL);
	with("no arguments", NULL, NULL);
	clearenv();
	printf("cleared: %s\n", environ == NULL ? "NULL" : "empty");
	with("a cleared environment", words, environ);
	setrlimit(RLIMIT_STACK, &small); /* a quarter of it is for arguments */
	path = name = argv[2];
	for (int i = 0; i < WAYS; i++)
		most(&ways[i]);
	return 0;
}

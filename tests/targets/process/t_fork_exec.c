/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that fork + exec, vfork + exec, posix_spawn, system and popen give the same output and status, and that a vfork
 * child, which runs in the parent's memory, counts as the parent's own. */
#include "target.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static struct truth truth = TRUTH(take);
static struct truth vfork_truth = TRUTH(take_in_vfork_child);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static NOINLINE void *take_in_vfork_child(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&vfork_truth, n);
	return p;
}

static void wait_for(pid_t child, const char *what)
{
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	say("%s: %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static NOINLINE void by_fork(void)
{
	char *argv[] = { "sh", "-c", "echo from fork; exit 3", NULL };
	pid_t child = fork();
	if (child == 0) {
		free(take(44));
		execve("/bin/sh", argv, environ);
		_exit(99);
	}
	wait_for(child, "fork and exec");
}

static NOINLINE void by_vfork(int leave)
{
	static char *argv[] = { "sh", "-c", "echo from vfork; exit 4", NULL };
	pid_t child = vfork();
	if (child == 0) {
		/* Not allowed by the letter, done in the wild. */
		free(take_in_vfork_child(55));
		truth_drop(&vfork_truth, 55);
		if (leave)
			_exit(5);
		execve("/bin/sh", argv, environ);
		_exit(99);
	}
	wait_for(child, leave ? "vfork and _exit" : "vfork and exec");
}

static NOINLINE void by_spawn(void)
{
	char *argv[] = { "sh", "-c", "echo from spawn; kill -TERM $$", NULL };
	pid_t child = -1;
	CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0);
	wait_for(child, "posix_spawn");
	CHECK(posix_spawn(&child, "/nowhere/at/all", NULL, NULL, argv, environ) == ENOENT);
}

static NOINLINE void by_libc(void)
{
	char line[100] = "";
	int status = system("echo from system; exit 6");
	say("system: %d\n", WEXITSTATUS(status));
	FILE *pipe = popen("echo from popen; exit 7", "r");
	CHECK(pipe && fgets(line, sizeof line, pipe));
	status = pclose(pipe);
	say("popen: %d %s", WEXITSTATUS(status), line);
}

int main(void)
{
	for (int i = 0; i < 5; i++) {
		void *p = take(100);
		by_fork();
		by_vfork(0);
		by_vfork(1);
		by_spawn();
		by_libc();
		free(p);
		truth_drop(&truth, 100);
		take(3);
	}
	truth_print(&truth, "");
	truth_print(&vfork_truth, "");
	return 0;
}

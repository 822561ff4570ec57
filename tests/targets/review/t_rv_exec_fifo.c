/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that exec of what is no file (a FIFO, a folder, a device) fails at once and as ever: who opens a FIFO to look at
 * it waits for a writer. */
#include "target.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>

static struct truth truth = TRUTH(take);
extern char **environ;

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void try_all(const char *path)
{
	char *argv[] = { "x", NULL };
	pid_t child;

	CHECK(execv(path, argv) == -1);
	say("execv %s: %s\n", path, strerrorname_np(errno));
	CHECK(execvp(path, argv) == -1);
	say("execvp %s: %s\n", path, strerrorname_np(errno));
	say("posix_spawn %s: %s\n", path,
	    strerrorname_np(posix_spawn(&child, path, NULL, NULL, argv, environ)));
}

int main(void)
{
	alarm(900); /* a hang ends here */
	take(5);
	unlink("./fifo");
	CHECK(mkfifo("./fifo", 0755) == 0);
	try_all("./fifo");
	CHECK(unlink("./fifo") == 0);
	try_all("/tmp");
	try_all("/dev/null");
	try_all("/nowhere/at/all");
	take(6);
	truth_print(&truth, "");
	return 0;
}

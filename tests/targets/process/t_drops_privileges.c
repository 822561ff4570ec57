/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a program that gives up its user, its capabilities and its folder is recorded to its end, and that its
 * children work as ever. */
#include "target.h"
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static NOINLINE void work(int depth)
{
	if (depth > 0) {
		work(depth - 1);
		__asm__ volatile("" ::: "memory");
		return;
	}
	for (size_t n = 0; n < 3000; n += 7) {
		free(take(n));
		truth_drop(&truth, n);
	}
}

int main(void)
{
	work(2);
	CHECK(chdir("/") == 0);
	if (geteuid() == 0) {
		CHECK(setgroups(0, NULL) == 0);
		CHECK(setresgid(65534, 65534, 65534) == 0);
		CHECK(setresuid(65534, 65534, 65534) == 0);
	}
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	for (int i = 0; i < 50; i++)
		work(i);
	for (int i = 0; i < 3; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			work(5);
			_exit(11 + i);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		say("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	}
	take(77);
	truth_print(&truth, "");
	return 0;
}

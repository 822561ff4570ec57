/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the program sees the same process with and without the recorder: signal actions and mask, alternate stack,
 * descriptors, threads, environment, limits, timers, umask, name, and no error of the loader that it did not make itself.
 * Everything is printed, and must be equal. */
#include "target.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

extern char **environ;
static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

static void print_signals(void)
{
	sigset_t mask;
	stack_t stack;

	for (int i = 1; i <= SIGRTMAX; i++) {
		struct sigaction action;
		if (sigaction(i, NULL, &action) != 0)
			continue;
		const char *what = action.sa_handler == SIG_DFL	  ? "default"
				   : action.sa_handler == SIG_IGN ? "ignore"
								  : "handler";
		say("signal %d %s flags %x\n", i, what, (unsigned)action.sa_flags);
	}
	CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
	for (int i = 1; i <= SIGRTMAX; i++)
		if (sigismember(&mask, i) == 1)
			say("blocked %d\n", i);
	CHECK(sigpending(&mask) == 0);
	for (int i = 1; i <= SIGRTMAX; i++)
		if (sigismember(&mask, i) == 1)
			say("pending %d\n", i);
	CHECK(sigaltstack(NULL, &stack) == 0);
	say("alternate stack %d %zu\n", stack.ss_flags, stack.ss_size);
}

/* Numbers of the entries of a folder of /proc, without opendir, which allocates. */
static int for_each_number(const char *path, void (*visit)(int number, int folder))
{
	static _Alignas(8) char buffer[1 << 15];
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;

	CHECK(folder >= 0);
	for (long n; (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;) {
		for (long at = 0; at < n;) {
			unsigned short length;
			const char *name = buffer + at + 19;
			memcpy(&length, buffer + at + 16, sizeof length);
			if (*name != '.') {
				count++;
				visit(atoi(name), folder);
			}
			at += length;
		}
	}
	close(folder);
	return count;
}

static void print_descriptor(int number, int folder)
{
	struct stat st;
	if (number == folder || fstat(number, &st) != 0)
		return;
	say("descriptor %d type %o flags %x\n", number, st.st_mode & S_IFMT,
	    fcntl(number, F_GETFD));
}

static void ignore_task(int number, int folder)
{
	(void)number, (void)folder;
}

static void print_limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit limit;
		CHECK(getrlimit(i, &limit) == 0);
		say("limit %d %lx %lx\n", i, (unsigned long)limit.rlim_cur,
		    (unsigned long)limit.rlim_max);
	}
	for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++) {
		struct itimerval timer;
		CHECK(getitimer(i, &timer) == 0);
		say("timer %d %ld %ld\n", i, (long)timer.it_value.tv_sec,
		    (long)timer.it_interval.tv_sec);
	}
}

int main(int argc, char **argv)
{
	char name[16] = "";

	for (size_t i = 0; i < 3000; i++) {
		free(take(i));
		truth_drop(&truth, i);
	}
	const char *error = dlerror();
	say("loader's error: %s\n", error ? error : "none");
	say("arguments %d %s\n", argc, argv[0]);
	print_signals();
	for_each_number("/proc/self/fd", print_descriptor);
	say("tasks %d\n", for_each_number("/proc/self/task", ignore_task));
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "HEAPGAUGE_", 10) != 0 && strncmp(*e, "LD_PRELOAD=", 11) != 0)
			say("environment %s\n", *e);
	print_limits();
	mode_t mask = umask(0);
	prctl(PR_GET_NAME, name);
	say("umask %o name %s dumpable %d death signal %d\n", (unsigned)mask, name,
	    prctl(PR_GET_DUMPABLE), prctl(PR_GET_PDEATHSIG, &argc));
	say("subreaper %d no new privileges %d seccomp %d nice %d\n",
	    prctl(PR_GET_CHILD_SUBREAPER, &argc), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
	    prctl(PR_GET_SECCOMP), getpriority(PRIO_PROCESS, 0));
	say("own process group %d own session %d\n", getpgrp() == getpid(), getsid(0) == getpid());
	truth_print(&truth, "");
	return 0;
}

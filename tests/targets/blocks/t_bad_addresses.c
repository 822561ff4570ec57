/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that an address which cannot be read is left to the kernel to refuse, as it does without the recorder, and so
 * are numbers that make no sense. */
#include "target.h"
#include <fcntl.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct truth truth = TRUTH(take);

static NOINLINE void *take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&truth, n);
	return p;
}

/* Prints what a call gave, which must be the same without the recorder. */
static void tell(const char *what, long status)
{
	say("%s: %ld, errno %d\n", what, status, status < 0 ? errno : 0);
	errno = 0;
}

int main(void)
{
	char *nowhere = (char *)8, *none = NULL, name[] = "/bin/true", *argv[] = { name, NULL };
	char **bad = (char **)8;
	void *page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char fine[] = "FINE=1", *unreadable[] = { fine, page, NULL };
	struct rlimit *across = (struct rlimit *)(void *)(pages + 4096 - sizeof(rlim_t));
	pid_t pid;

	KEEP(nowhere);
	KEEP(none);
	KEEP(bad);
	CHECK(page != MAP_FAILED && pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
	tell("execve nowhere", execve(nowhere, argv, environ));
	tell("execve none", execve(none, argv, environ));
	tell("execve page", execve(page, argv, environ));
	tell("execve arguments", execve(name, bad, environ));
	tell("execve environment", execve(name, argv, bad));
	tell("execve variable", execve(name, argv, unreadable));
	tell("execvpe variable", execvpe(name, argv, unreadable));
	tell("execle environment", execle(name, name, NULL, bad));
	tell("execv nowhere", execv(nowhere, argv));
	tell("execveat nowhere", execveat(AT_FDCWD, nowhere, argv, environ, 0));
	tell("execveat none", execveat(AT_FDCWD, none, argv, environ, 0));
	tell("execveat page", execveat(1000, page, argv, environ, AT_EMPTY_PATH));
	tell("fexecve -1", fexecve(-1, argv, environ));
	tell("fexecve", fexecve(1000, argv, environ));
	tell("posix_spawn", posix_spawn(&pid, nowhere, NULL, NULL, argv, environ));
	tell("posix_spawn environment", posix_spawn(&pid, name, NULL, NULL, argv, bad));
	tell("posix_spawn variable", posix_spawn(&pid, name, NULL, NULL, argv, unreadable));
	tell("setrlimit nowhere", setrlimit(RLIMIT_AS, (const struct rlimit *)(void *)nowhere));
	tell("setrlimit page", setrlimit(RLIMIT_AS, page));
	tell("setrlimit across", setrlimit(RLIMIT_AS, across));
	tell("prlimit nowhere",
	     prlimit(0, RLIMIT_AS, (const struct rlimit *)(void *)nowhere, NULL));
	tell("prlimit process", prlimit(-5, RLIMIT_AS, NULL, NULL));
	tell("prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nowhere, 0, 0));
	tell("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, nowhere));
	tell("munmap", munmap(nowhere, 4096));
	tell("munmap 0", munmap(page, 0));
	tell("munmap all", munmap(page, SIZE_MAX));
	tell("munmap beyond", munmap((void *)-4096L, 4096));
	tell("mmap 0", (long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	tell("mmap all", (long)mmap(NULL, SIZE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	tell("mremap", (long)mremap(nowhere, 4096, 8192, MREMAP_MAYMOVE));
	tell("mremap all", (long)mremap(page, 8192, SIZE_MAX, MREMAP_MAYMOVE));
	tell("mlockall", mlockall(-1));
	free(take(100));
	truth_drop(&truth, 100);
	truth_print(&truth, "");
	return 0;
}

# SPDX-License-Identifier: Apache-2.0
"""A program that holds a known number of blocks and waits, for tests that look at running processes."""

import contextlib
import pathlib
import re
import signal
import subprocess
import time

from compiled import WAIT_SECONDS, compile_c

# Takes 1000 blocks in keep(), frees 100, tells its pid and waits for a line; then again.
KEEPER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *blocks[1000];
__attribute__((noinline)) void keep(void) { for (int i = 0; i < 1000; i++) blocks[i] = malloc(200); __asm__(""); }
int main(void)
{
	static char in[64], out[64];
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	for (;;) {
		keep();
		for (int i = 0; i < 100; i++) free(blocks[i]);
		printf("%d\n", getpid());
		fflush(stdout);
		if (getchar() == 'q') return 0;
	}
}
"""


# Forbids itself a system call, as docker does with some by default, and becomes argv[1].
WITHOUT = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define SYS__(name) SYS_##name
#define SYS_(name) SYS__(name)
int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
#ifdef THIRD
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_(CALL), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 32), /* the third argument */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIRD, 0, 1),
#else
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_(CALL), 0, 1),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof code / sizeof *code, code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) return 99;
	execv(argv[1], argv + 1);
	return 98;
}
"""


def compile_keeper(folder):
    return compile_c(folder, "keeper", KEEPER)


@contextlib.contextmanager
def keeping(argv, env, **options):
    """Runs argv, which runs the keeper, until it waits; .target is the pid it told. At the end it is let go."""
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as run:
        try:
            run.target = int(run.stdout.readline())
            yield run
        finally:
            try:
                run.stdin.write("q")
                run.stdin.close()
            except (BrokenPipeError, ValueError):
                pass
            try:
                run.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                run.kill()
                raise


PPOLL = {"271", "73"}  # its number on x86-64 and aarch64


def collecting(pid):
    """Whether a collector is in its loop: it takes SIGINT by a descriptor, all is open, and it waits."""
    process = pathlib.Path(f"/proc/{pid}")
    blocked = re.search(r"^SigBlk:\s*(\w+)", (process / "status").read_text(), re.M)
    if not blocked or not int(blocked[1], 16) & 1 << (signal.SIGINT - 1):
        return False
    return (process / "syscall").read_text().split()[0] in PPOLL


def until_snapshot():
    """Long enough that a snapshot which was asked for has been taken, also of a process whose memory is copied, which
    happens every half second at most: nothing tells when it is done."""
    time.sleep(3)


def stood_still(timeline):
    """Whether nothing was seen for a twelfth of the run, as on a guest whose host is busy: what should have happened then is made up for
    afterwards, so that a trend is not what was planted."""
    times = [row["at_ns"] for row in timeline]
    return max((after - before for before, after in zip(times, times[1:])), default=0) >= times[-1] / 12


def again(run):
    """One more round of a keeper that waits."""
    run.stdin.write("\n")
    run.stdin.flush()
    run.stdout.readline()


def without(folder, call):
    """A program that runs another one without that system call: it fails with EPERM."""
    return compile_c(folder, f"without_{call}", WITHOUT, f"-DCALL={call}", "-DERROR=EPERM")


def as_before_5_14(folder):
    """A program that runs another one as those kernels do: MADV_POPULATE_WRITE is not known."""
    return compile_c(folder, "as_before_5_14", WITHOUT, "-DCALL=madvise", "-DTHIRD=23", "-DERROR=EINVAL")

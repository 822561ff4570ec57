# SPDX-License-Identifier: Apache-2.0
"""A program that holds a known number of blocks and waits, for tests that look at running processes."""

import contextlib
import subprocess

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
	alarm(100);
	for (;;) {
		keep();
		for (int i = 0; i < 100; i++) free(blocks[i]);
		printf("%d\n", getpid());
		fflush(stdout);
		if (getchar() == 'q') return 0;
	}
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


def again(run):
    """One more round of a keeper that waits."""
    run.stdin.write("\n")
    run.stdin.flush()
    run.stdout.readline()

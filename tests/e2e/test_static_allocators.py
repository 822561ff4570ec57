# SPDX-License-Identifier: Apache-2.0
"""Allocators that are linked into a C program are not recorded yet; the program must run as without us."""

import pathlib
import subprocess

import pytest

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	char *block = malloc(1000);
	memset(block, 7, 1000);
	block = realloc(block, 100000);
	printf("%d\\n", block[999]);
	free(block);
	return 3;
}
"""
EARLY = """
#include <stdlib.h>
__attribute__((constructor)) static void take(void) { void *volatile block = malloc(100000); free(block); }
"""
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {
    "jemalloc": ["libjemalloc_pic.a", "-lpthread", "-ldl", "-lm", "-lstdc++"],
    "tcmalloc": ["libtcmalloc_minimal.a", "-lpthread", "-lstdc++", "-lm"],
}


@pytest.fixture(params=[(name, early) for name in ALLOCATORS for early in (False, True)], ids=str)
def program(request, scratch):
    """With `early` a library takes a block before the recorder's own constructor: its start is inside that malloc."""
    name, early = request.param
    library, *flags = ALLOCATORS[name]
    if not (LIBRARIES / library).exists():
        pytest.skip(f"{library} is not here")
    source, path = scratch / "main.c", scratch / name
    source.write_text(SOURCE)
    if early:
        taker = scratch / "libearly.so"
        (scratch / "early.c").write_text(EARLY)
        subprocess.run(["gcc", "-shared", "-fPIC", scratch / "early.c", "-o", taker], check=True)
        flags += ["-Wl,--no-as-needed", taker, f"-Wl,-rpath,{scratch}"]
    subprocess.run(["gcc", "-g", source, LIBRARIES / library, *flags, "-o", path], check=True)
    return path


def test_a_program_with_its_own_allocator_runs_as_without_us(program, record):
    alone = subprocess.run([program], capture_output=True, text=True)
    assert (alone.returncode, alone.stdout) == (3, "7\n")
    done = record([program], timeout=30)
    assert (done.returncode, done.stdout) == (3, "7\n"), done.stderr

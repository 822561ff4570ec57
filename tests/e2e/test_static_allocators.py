# SPDX-License-Identifier: Apache-2.0
"""Programs with an allocator linked in run as without us: its own calls are not recorded, but it begins before we do,
with its lock held, and may hand out the memory of whatever the loader does for us."""

import pathlib
import subprocess

import pytest

C_SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *work(void *unused)
{
	for (int i = 1; i < 1000; i++)
		free(malloc((size_t)i));
	return unused;
}
int main(void)
{
	pthread_t thread;
	char *block = malloc(1000);
	memset(block, 7, 1000);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	block = realloc(block, 100000);
	printf("%d\\n", block[999]);
	free(block);
	return 3;
}
"""
CXX_SOURCE = """
#include <cstdio>
#include <string>
#include <vector>
int main()
{
	std::vector<std::string> all;
	for (int i = 0; i < 1000; i++)
		all.emplace_back(100 + i, 'x');
	std::printf("%d\\n", static_cast<int>(all.back().size() % 10) - 2);
	return 3;
}
"""
EARLY_SOURCE = """
#include <stdlib.h>
__attribute__((constructor)) static void take(void) { void *volatile block = malloc(100000); free(block); }
"""
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
FLAGS = ["-pthread", "-ldl", "-lm", "-lstdc++"]
SECONDS = 30

# Only what is referred to; everything, which brings the C++ operators into a C program; and a library that takes a block
# before the recorder's own constructor, so that its start is inside that malloc.
PARTS = {"needed": [], "whole": ["-Wl,--whole-archive"], "early": []}


@pytest.fixture(params=["libjemalloc_pic.a", "libtcmalloc_minimal.a", "libtcmalloc_minimal_debug.a"])
def archive(request):
    path = LIBRARIES / request.param
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture(params=["c", "cc"])
def source(request, scratch):
    path = scratch / f"main.{request.param}"
    path.write_text(C_SOURCE if request.param == "c" else CXX_SOURCE)
    return path


@pytest.fixture(params=PARTS)
def program(request, scratch, archive, source):
    path, early = scratch / "program", []
    if request.param == "early":
        (scratch / "early.c").write_text(EARLY_SOURCE)
        early = ["-Wl,--no-as-needed", scratch / "libearly.so", f"-Wl,-rpath,{scratch}"]
        subprocess.run(["gcc", "-shared", "-fPIC", scratch / "early.c", "-o", early[1]], check=True)
    words = ["g++" if source.suffix == ".cc" else "gcc", "-g", "-w", source, *PARTS[request.param], archive]
    subprocess.run([*words, "-Wl,--no-whole-archive", *FLAGS, *early, "-o", path], check=True)
    return path


def test_it_runs_as_without_us(program, record, build, clean_env):
    alone = subprocess.run([program], capture_output=True, text=True, timeout=SECONDS)
    assert (alone.returncode, alone.stdout) == (3, "7\n")
    preloaded = subprocess.run(
        [program],
        env=clean_env | {"LD_PRELOAD": str(build / "libheapgauge.so")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (preloaded.returncode, preloaded.stdout, preloaded.stderr) == (3, "7\n", alone.stderr)
    done = record([program], timeout=SECONDS)
    assert (done.returncode, done.stdout) == (3, "7\n"), done.stderr

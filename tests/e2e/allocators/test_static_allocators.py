# SPDX-License-Identifier: Apache-2.0
"""Programs with an allocator linked in run as without us: its own calls are not recorded, except by its hooks (test_allocator_matrix.py), but
it begins before we do, with its lock held, and may hand out the memory of whatever the loader does for us."""

import pathlib
import re
import subprocess

import pytest

import recorder
from reading import nothing_lost_is_said

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
        env=clean_env | {"LD_PRELOAD": str(recorder.library(build))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (preloaded.returncode, preloaded.stdout, preloaded.stderr) == (3, "7\n", alone.stderr)
    done = record([program], timeout=SECONDS)
    assert (done.returncode, done.stdout) == (3, "7\n"), done.stderr


HOLDER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef PREFIXED
void *je_malloc(size_t n) { return sbrk((intptr_t)n); }
#define malloc je_malloc
#endif
int main(void)
{
	char *volatile block = malloc(64 << 20);
	memset(block, 1, 64 << 20);
	usleep(600 * 1000);
	return block[5] - 1;
}
"""


def hold(folder, *flags):
    """A program that takes 64 MiB from an allocator in itself and holds them for a while."""
    source, path = folder / "holder.c", folder / "holder"
    source.write_text(HOLDER)
    subprocess.run(["gcc", "-O1", "-w", "-fno-builtin", source, *flags, "-o", path], check=True)
    return path


def summary_of(heapgauge, program, clean_env, folder, *options):
    done = subprocess.run(
        [heapgauge, "record", *options, "-o", folder / "run.hg", program],
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, folder / "run.hg"


def test_record_says_before_and_after_what_it_cannot_see(archive, heapgauge, clean_env, scratch, report_json):
    """It is stripped: without its symbols its hooks are not found."""
    name = archive.name.removeprefix("lib").partition("malloc")[0] + "malloc"
    program = hold(scratch, archive, *FLAGS, "-s")
    said, path = summary_of(heapgauge, program, clean_env, scratch)
    before = f"heapgauge: {name} is linked statically into {program}: its allocations cannot be recorded without its symbols. "
    assert said.startswith(before), said
    note = rf"  ! 1 process has an allocator linked in statically, which was not recorded: {name} in {re.escape(str(program))}"
    found = re.search(note + r", (\d+\.\d) % of its heap and anonymous memory is in no recorded block\n", said)
    assert found and float(found[1]) > 95, said
    assert "nothing lost" not in said and "but see ! below" in said
    assert report_json(path)["warnings"] == {"unrecorded_allocators": 1}


def test_an_allocator_under_names_of_its_own_is_told_too(heapgauge, clean_env, scratch, report_json):
    said, path = summary_of(heapgauge, hold(scratch, "-DPREFIXED"), clean_env, scratch)
    assert "heapgauge: jemalloc is linked statically into " in said
    assert "memory that was not recorded: " in said and "jemalloc inside holder allocates without" in said
    assert report_json(path)["warnings"] == {"unexplained_memory": 1}


def test_quiet_is_quiet_and_an_ordinary_program_gets_no_warning(heapgauge, clean_env, scratch, report_json):
    said, _ = summary_of(heapgauge, hold(scratch, "-DPREFIXED"), clean_env, scratch, "-q")
    assert said == ""
    said, path = summary_of(heapgauge, hold(scratch), clean_env, scratch)
    assert "linked" not in said and nothing_lost_is_said(said)
    assert report_json(path)["warnings"] == {}


def test_processes_of_one_program_are_counted_and_named_once(record, archive, clean_env, scratch, report_json):
    program = hold(scratch, archive, *FLAGS)
    run = record(["sh", "-c", f"{program} & {program} & wait"])
    assert run.returncode == 0 and report_json(run.path)["warnings"] == {"unrecorded_allocators": 2}
    [note] = [w for w in report_json(run.path, "health")["health"] if w["name"] == "unrecorded_allocators"]
    assert note["meaning"].count(str(program)) == 1 and note["meaning"].startswith("processes have an allocator")


def test_an_allocator_that_is_not_used_is_not_warned_of(heapgauge, clean_env, scratch, report_json):
    """C1: what is in a file is no loss by itself."""
    source = scratch / "unused.c"
    source.write_text(HOLDER.replace("#define malloc je_malloc", ""))
    program = scratch / "unused"
    subprocess.run(["gcc", "-O1", "-w", "-fno-builtin", "-DPREFIXED", source, "-o", program], check=True)
    said, path = summary_of(heapgauge, program, clean_env, scratch)
    assert nothing_lost_is_said(said) and report_json(path)["warnings"] == {}

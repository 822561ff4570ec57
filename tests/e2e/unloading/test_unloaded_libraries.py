# SPDX-License-Identifier: Apache-2.0
"""Libraries that are unloaded and replaced by others at the same addresses, in every mode of recording and with every allocator."""

import collections
import contextlib
import pathlib
import re
import signal
import subprocess

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c, wait_for
from running import collecting

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")

# The frame size ROOM is all that differs between twins, so unwinding with the table of the other one fails.
LIBRARY = """
#include <stdlib.h>
#ifdef FILL
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
__asm__(".text\\n.fill " TEXT(FILL) ", 1, 0x90\\n");
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INNER JOIN(NAME, _inner)
#define OUTER JOIN(NAME, _outer)
__attribute__((noipa, aligned(256))) void *INNER(size_t bytes)
{
    volatile char room[ROOM];
    room[bytes & 15] = 1;
    void *volatile block = malloc(bytes);
    return block;
}
__attribute__((noipa, aligned(256))) void *OUTER(size_t bytes)
{
    void *volatile block = INNER(bytes);
    return block;
}
"""

# host BLOCKS BYTES WORD...: loads, calls and unloads each library. "wait" waits for a line. Prints how often a library was at the
# place of the one before it. With PAUSE, libraries are loaded and unloaded while recording is off.
HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef PAUSE
#include <heapgauge/heapgauge.h>
#define STOP() hg_stop(HG_PROCESS)
#define START() hg_start(HG_PROCESS)
#else
#define STOP()
#define START()
#endif
static void *last;
static int same;
__attribute__((noipa)) static void visit(const char *name, long blocks, long bytes)
{
    char path[4096], symbol[256];
    snprintf(path, sizeof path, "./%s.so", name);
    snprintf(symbol, sizeof symbol, "%s_outer", name);
    STOP();
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) { puts(dlerror()); exit(2); }
    void *(*outer)(size_t);
    *(void **)&outer = dlsym(library, symbol);
    same += (void *)outer == last;
    last = (void *)outer;
    START();
    for (long i = 0; i < blocks; i++)
        free(outer(bytes + i));
    STOP();
    dlclose(library);
    START();
}
int main(int count, char **arguments)
{
    static char buffer[4096];
    setvbuf(stdin, buffer, _IOFBF, sizeof buffer);
    for (int k = 3; k < count; k++) {
        if (strcmp(arguments[k], "wait") != 0) {
            visit(arguments[k], atol(arguments[1]), atol(arguments[2]));
            continue;
        }
        puts("waiting");
        fflush(stdout);
        while (getchar() != '\\n')
            ;
        void *volatile block = malloc(4 << 20); /* a dormant thread rereads the mode after a MiB */
        free(block);
    }
    printf("same %d\\n", same);
    return 0;
}
"""
NAMES = ["twin_a", "twin_b"]
BLOCKS, ROUNDS = 10, 20


def compile_library(folder, name, room, *flags):
    compile_c(folder, f"{name}.so", LIBRARY, "-shared", "-fPIC", f"-DNAME={name}", f"-DROOM={room}", *flags)


@pytest.fixture
def folder(scratch):
    compile_c(scratch, "host", HOST, "-ldl")
    compile_library(scratch, "large", 48, "-DFILL=1000000")
    compile_library(scratch, "small", 112)
    for name, room in zip(NAMES, (48, 112)):
        compile_library(scratch, name, room)
    return scratch


def stacks(sites):
    """Own functions of each stack with a frame in a library, leaf first, and their bytes. Wrong stacks have other functions."""
    sums = collections.Counter()
    for site in sites:
        functions = [frame["function"] or "?" for frame in site["stack"]]
        if any(re.search("_(inner|outer)$", name) for name in functions) or "visit" not in functions:
            until = functions.index("main") + 1 if "main" in functions else None
            sums[tuple(functions[:until])] += site["total_bytes"]
    return sums


def expected(size, visits):
    return {(f"{name}_inner", f"{name}_outer", "visit", "main"): visits * sum(range(size, size + BLOCKS)) for name in NAMES}


def check(done, recording, report_json, size, visits=ROUNDS):
    """Blocks are larger than the interval, so a sampled recording is exact."""
    assert int(re.search(r"same (\d+)", done)[1]) > visits, "the libraries were at different places"
    sums = stacks(report_json(recording, "sites")["sites"])
    wanted = expected(size, visits)
    assert {stack: sums[stack] for stack in wanted} == wanted
    assert not [stack for stack in sums if stack not in wanted and re.search("twin|stopped", " ".join(stack))]


@pytest.mark.parametrize("interval", ["4KiB", "512KiB"])
def test_a_small_library_where_a_large_one_was_does_not_crash_the_program(folder, record, interval):
    """Its return addresses were looked up in the other library's unwind table, which is no longer mapped."""
    done = record([folder / "host", "50", "4000000", *["large", "small"] * ROUNDS], "--mode", "sample", "--interval", interval)
    assert done.returncode == 0, done.stderr


MODES = {
    "exact": ([], 100),
    "sampled": (["--mode", "sample"], 600_000),
    "sampled often": (["--mode", "sample", "--interval", "4KiB"], 5_000),
}
ALLOCATORS = {
    "glibc": [],
    "jemalloc": ["-Wl,--no-as-needed", "-ljemalloc"],
    "tcmalloc": ["-Wl,--no-as-needed", "-ltcmalloc_minimal"],
    "jemalloc linked in": ["-rdynamic", LIBRARIES / "libjemalloc.a", "-lm", "-lstdc++", "-lpthread"],
    "tcmalloc linked in": ["-rdynamic", LIBRARIES / "libtcmalloc_minimal.a", "-lstdc++", "-lpthread"],
}


@pytest.mark.parametrize("pause", [False, True], ids=["running", "dormant in between"])
@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("mode", MODES)
def test_blocks_count_for_the_library_that_is_there_now(folder, record, report_json, mode, allocator, pause):
    include = pathlib.Path(__file__).resolve().parents[3] / "include"
    compile_c(folder, "host", HOST, f"-I{include}", *["-DPAUSE"] * pause, *ALLOCATORS[allocator], "-ldl")
    options, size = MODES[mode]
    done = record([folder / "host", str(BLOCKS), str(size), *NAMES * ROUNDS], *options)
    assert done.returncode == 0, done.stderr
    check(done.stdout, done.path, report_json, size)


@contextlib.contextmanager
def attached(heapgauge, env, path, pid, options):
    with subprocess.Popen([heapgauge, "record", "-q", "-o", path, "--pid", str(pid), *options], env=env) as recorder:
        try:
            wait_for(lambda: collecting(recorder.pid) or recorder.poll() is not None, "the collector")
            yield
        finally:
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(WAIT_SECONDS) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_library_that_was_replaced_before_heapgauge_attached_again(folder, heapgauge, build, clean_env, report_json, mode):
    options, size = MODES[mode]
    words = ["wait", *NAMES, "wait", *NAMES, "wait", *NAMES[::-1], "wait"]
    env = preloaded(build, clean_env, HEAPGAUGE_MODE="dormant")
    with subprocess.Popen(
        [folder / "host", str(BLOCKS), str(size), *words], env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:

        def proceed():
            host.stdin.write("\n")
            host.stdin.flush()
            assert host.stdout.readline() == "waiting\n"

        assert host.stdout.readline() == "waiting\n"
        for part in "first", "dormant", "second":
            path = folder / f"{part}.hg"
            with attached(heapgauge, clean_env, path, host.pid, options) if part != "dormant" else contextlib.nullcontext():
                proceed()
        rest, _ = host.communicate("\n", timeout=WAIT_SECONDS)
        assert host.returncode == 0
    check(rest, folder / "first.hg", report_json, size, 1)
    check(rest, folder / "second.hg", report_json, size, 2)

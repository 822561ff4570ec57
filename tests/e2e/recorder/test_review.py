# SPDX-License-Identifier: Apache-2.0
"""Defects that a review found, kept from coming back. Most are targets t_rv_*; here is what a target alone cannot show."""

import pathlib
import re
import struct
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses

TARGETS = pathlib.Path(__file__).resolve().parents[2] / "targets"
LOADER = "/lib64/ld-linux-x86-64.so.2"
FAR = 256 << 20


def run_bare(argv, clean_env, scratch, **more):
    return subprocess.run(
        argv, env=clean_env, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS,
        check=False, **more,
    )


def same_as_bare(argv, record, clean_env, scratch, status=0):
    """Runs argv with and without us; returns the recording after both did the same."""
    bare = run_bare(argv, clean_env, scratch)
    run = record(argv)
    assert (run.returncode, run.stdout, run.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert bare.returncode == status, bare.stdout + bare.stderr
    return run


@pytest.mark.parametrize(
    "name, count", [("t_rv_fork_from_silent_thread", 2), ("t_rv_fork_chain", 5), ("t_rv_stack_limit_then_fork", 1)]
)
def test_children_of_unusual_parents_are_recorded_as_they_say(name, count, target, record, report_json):
    run = record([target(name)])
    assert run.returncode == 0, run.stdout + run.stderr
    said = sorted((int(a), int(b)) for a, b in re.findall(r"^child calls=(\d+) bytes=(\d+)$", run.stdout, re.M))
    assert len(said) == count
    first, *children = report_json(run.path)["processes"]
    assert sorted((p["calls"], p["total_bytes"]) for p in children) == said
    assert {p["ppid"] for p in children} <= {first["pid"], *(p["pid"] for p in children)}
    for process in children:
        assert process["end"] == "exit"
        assert not set(losses(process)) - {"stacks_stopped", "stacks_unreadable"}


def move_program_headers(path, to):
    """Puts the table of program headers at the file's offset `to`, which no segment loads."""
    data = path.read_bytes()
    (offset,) = struct.unpack_from("<Q", data, 32)
    entry_bytes, count = struct.unpack_from("<HH", data, 54)
    table = data[offset : offset + entry_bytes * count]
    with path.open("r+b") as file:
        file.seek(32)
        file.write(struct.pack("<Q", to))
        file.seek(offset)
        file.write(bytes(len(table)))
        file.seek(to)
        file.write(table)


FAR_LIBRARY = """
#include <stdlib.h>
void *far_take(size_t n) { void *volatile p = malloc(n); return p; }
"""
FAR_HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("./libfar.so", RTLD_NOW);
		if (!library) return puts(dlerror()), 2;
		void *(*take)(size_t) = (void *(*)(size_t))dlsym(library, "far_take");
		for (int k = 0; k < 50; k++) free(take(321));
		take(1234);
		dlclose(library);
	}
	puts("fine");
	return 0;
}
"""


def of_library(site):
    return site["stack"] and pathlib.PurePath(site["stack"][0]["module"] or "").name == "libfar.so"


def test_library_whose_program_headers_lie_far_away_in_its_file_is_described(record, report_json, clean_env, scratch):
    library = compile_c(scratch, "libfar.so", FAR_LIBRARY, "-shared", "-fPIC")
    move_program_headers(library, FAR)
    run = same_as_bare([compile_c(scratch, "host", FAR_HOST)], record, clean_env, scratch)
    sites = [s for s in report_json(run.path, "sites")["sites"] if of_library(s)]
    assert sum(s["calls"] for s in sites) == 153
    assert sum(s["not_freed_bytes"] for s in sites) == 3 * 1234
    assert all("main" in [f["function"] for f in s["stack"]] for s in sites), "the walk goes on past it"


@pytest.mark.parametrize("before", ["", 'chdir("/");'], ids=["same-folder", "another-folder"])
def test_functions_of_a_library_opened_by_a_relative_path_have_names(before, record, report_json, clean_env, scratch):
    compile_c(scratch, "libfar.so", FAR_LIBRARY, "-shared", "-fPIC")
    host = FAR_HOST.replace("take(1234);", "take(1234); chdir(old);").replace(
        "void *(*take)", f"char old[4096]; getcwd(old, sizeof old); {before} void *(*take)"
    )
    run = same_as_bare([compile_c(scratch, "host", host, "-include", "unistd.h")], record, clean_env, scratch)
    sites = [s for s in report_json(run.path, "sites")["sites"] if of_library(s)]
    assert {(s["stack"][0]["function"], s["stack"][0]["module"]) for s in sites} == {("far_take", str(scratch / "libfar.so"))}


FILTER = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *in_thread(void *p)
{
	for (int i = 0; i < 10; i++) free(malloc(777));
	return p;
}
/* No path of a link may be asked for any more. */
static int forbid(int by_prctl)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlink, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlinkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 5, code };
	pthread_t thread;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	int failed = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) :
			  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	return failed || pthread_create(&thread, 0, in_thread, 0) || pthread_join(thread, 0);
}
"""


@pytest.mark.parametrize("by_prctl", [0, 1])
def test_program_whose_filter_forbids_links_is_not_killed(by_prctl, record, report_json, clean_env, scratch):
    compile_c(scratch, "libfar.so", FAR_LIBRARY, "-shared", "-fPIC")
    host = FILTER + FAR_HOST.replace("void *(*take)", f"if (i == 0 && forbid({by_prctl})) return 3; void *(*take)")
    program = compile_c(scratch, "host", host, "-fno-builtin-malloc", "-fno-builtin-free")
    run = same_as_bare([program], record, clean_env, scratch)
    [process] = report_json(run.path)["processes"]
    assert losses(process) == {} and process["threads"] == 2, "a filter does not end the recording"
    sites = report_json(run.path, "sites")["sites"]
    assert sum(s["calls"] for s in sites if of_library(s)) == 153
    assert sum(s["calls"] for s in sites if s["total_bytes"] == 7770) == 10


DESCRIPTORS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	char line[100];
	int n = 0;
	free(malloc(10));
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) != -1) n += snprintf(line + n, sizeof line - n, "%d ", fd);
	line[n++] = '\n';
	return write(1, line, n) != n;
}
"""


@pytest.mark.parametrize("limit", range(3, 9))
def test_recorder_with_few_free_descriptors_leaves_none_open(limit, record, clean_env, scratch):
    """With one free descriptor the kernel hands over the first of two and drops the second."""
    program = compile_c(scratch, "descriptors", DESCRIPTORS)
    run = same_as_bare(["sh", "-c", f"ulimit -n {limit}; exec {program}"], record, clean_env, scratch, 127 if limit == 3 else 0)
    assert run.stdout == ("" if limit == 3 else "0 1 2 \n"), "with 3 the loader cannot open libc"


@pytest.mark.parametrize("free", range(5))
def test_program_that_holds_all_descriptors_but_a_few_keeps_them(free, record, clean_env, scratch):
    """The shell leaves only `free` numbers to the program that it becomes."""
    program = compile_c(scratch, "descriptors", DESCRIPTORS)
    open_all = " ".join(f"{fd}</dev/null" for fd in range(3, 9 - free))
    argv = ["bash", "-c", f"ulimit -n 9; exec {program} {open_all}"]
    run = same_as_bare(argv, record, clean_env, scratch, 0 if free else 127)
    assert run.stdout.split() == ([str(fd) for fd in range(9 - free)] if free else []), "the loader needs one"


def test_program_started_by_the_loader_is_recorded_and_named(target, record, report_json, clean_env, scratch):
    program = target("t_histograms")
    bare = run_bare([LOADER, program], clean_env, scratch)
    assert bare.returncode == 0
    run = record([LOADER, program])
    assert run.returncode == 0, run.stdout + run.stderr
    [process] = report_json(run.path)["processes"]
    assert losses(process) == {}
    assert process["allocator"] == "glibc"
    calls = sum(int(n) for n in re.findall(r"^EXPECT site=\S+ kind=heap calls=(\d+)", run.stdout, re.M))
    assert calls > 0 and process["calls"] >= calls
    sites = report_json(run.path, "sites")["sites"]
    own = [s for s in sites if any(f["module"] == str(program) and f["function"] == "main" for f in s["stack"])]
    assert sum(s["calls"] for s in own) >= calls, "stacks reach main, by its name, in its own file"


PLUGIN_HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *(*make[4])(void);
	void (*drop[4])(void *);
	for (int i = 1; i < argc; i++) {
		void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (!plugin) return puts(dlerror()), 2;
		*(void **)&make[i] = dlsym(plugin, "rv_make");
		*(void **)&drop[i] = dlsym(plugin, "rv_drop");
	}
	for (int round = 0; round < 100; round++)
		for (int i = 1; i < argc; i++) drop[i](make[i]());
	puts("fine");
	return 0;
}
"""


@pytest.fixture
def tail_plugins(scratch):
    """The two plugins with their own operators, where the calls of the operators have become jumps."""
    plugins = {}
    for kind in ("pool", "malloc"):
        plugins[kind] = scratch / f"lib_{kind}.so"
        subprocess.run(
            ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-fno-exceptions", "-fno-rtti", "-nodefaultlibs", "-DRV_TAIL",
             f"-I{TARGETS}", TARGETS / "review" / f"lib_rv_operators_{kind}.cc", "-lc", "-o", plugins[kind]],
            check=True, timeout=WAIT_SECONDS,
        )  # fmt: skip
    return plugins


@pytest.mark.parametrize("kinds", [["pool"], ["malloc", "pool"]], ids="+".join)
def test_plugin_that_jumps_to_its_own_operators_gets_them(kinds, tail_plugins, record, clean_env, scratch):
    host = compile_c(scratch, "host", PLUGIN_HOST)
    same_as_bare([host, *(tail_plugins[kind] for kind in kinds)], record, clean_env, scratch)


NEEDS_POOL = """
struct thing { int numbers[10]; };
extern "C" void *rv_make() { return new thing; }
extern "C" void rv_drop(void *p) { delete static_cast<thing *>(p); }
"""


def test_plugin_gets_the_operators_of_a_library_that_it_needs(tail_plugins, record, clean_env, scratch):
    """They are nobody else's: neither the host nor the plugin itself defines them."""
    (scratch / "needs.cc").write_text(NEEDS_POOL)
    subprocess.run(
        ["g++", "-O2", "-shared", "-fPIC", "-nodefaultlibs", scratch / "needs.cc", tail_plugins["pool"],
         f"-Wl,-rpath,{scratch}", "-lc", "-o", scratch / "needs.so"],
        check=True, timeout=WAIT_SECONDS,
    )  # fmt: skip
    host = compile_c(scratch, "host", PLUGIN_HOST)
    same_as_bare([host, scratch / "needs.so"], record, clean_env, scratch)


ASKS_FOR_NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	const char *const names[] = { "_Znwm", "_ZdlPv", "_ZdaPvm", "_ZnwmSt11align_val_t", "free_sized", "malloc", "execveat" };
	for (int i = 0; i < 7; i++) printf("%s %d\n", names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL);
	return 0;
}
"""


@pytest.mark.parametrize("flags", [[], ["-Wl,--no-as-needed", "-lstdc++"]], ids=["c", "c++"])
def test_names_that_nobody_else_defines_are_not_found(flags, record, clean_env, scratch):
    run = same_as_bare([compile_c(scratch, "asks", ASKS_FOR_NAMES, *flags)], record, clean_env, scratch)
    assert ("_Znwm 1" in run.stdout) == bool(flags)


def test_plugin_that_jumps_to_its_own_operators_on_malloc_works(tail_plugins, record, clean_env, scratch, report_json):
    host = compile_c(scratch, "host", PLUGIN_HOST)
    run = same_as_bare([host, tail_plugins["malloc"]], record, clean_env, scratch)
    [process] = report_json(run.path)["processes"]
    assert losses(process) == {}
    assert [s["calls"] for s in report_json(run.path, "sites")["sites"] if s["total_bytes"] == 100 * 40] == [100]


def test_deletes_over_the_executables_own_free_are_no_reentrant_calls(target, record, report_json):
    run = record([target("t_rv_basic_malloc_executable")])
    assert run.returncode == 0, run.stdout + run.stderr
    assert losses(report_json(run.path)["processes"][0]) == {}


def test_books_that_an_operator_keeps_are_recorded_from_malloc_to_free(target, record, report_json):
    run = record([target("t_rv_static_container")])
    assert run.returncode == 0, run.stdout + run.stderr
    assert losses(report_json(run.path)["processes"][0]) == {}


OPERATORS_WITH_BOOKS = r"""
#include <cstdlib>
#include <new>
static void *book[100];
static int entries;
__attribute__((noinline)) static void enter(void *p)
{
	if (entries % 10 == 0) book[entries / 10] = malloc(1000);
	*(void **)book[entries++ / 10] = p;
}
/* So that the helper is too far from the operator to be taken for a part of it. */
__attribute__((used)) static void distance() { __asm__ volatile(".skip 4096, 0x90"); }
void *operator new(size_t n)
{
	void *p = malloc(n);
	enter(p);
	return p;
}
void operator delete(void *p) noexcept { free(p); }
"""
TAKES_BY_NEW = r"""
#include <cstdio>
#include <new>
__attribute__((noinline)) static void *take(size_t n)
{
	void *volatile p = operator new(n);
	return p;
}
int main()
{
	for (int i = 0; i < 100; i++) take(321);
	puts("fine");
}
"""


def test_operator_whose_helper_allocates_loses_no_block(record, report_json, clean_env, scratch):
    library, program = scratch / "liboperators.so", scratch / "taker"
    (scratch / "operators.cc").write_text(OPERATORS_WITH_BOOKS)
    (scratch / "taker.cc").write_text(TAKES_BY_NEW)
    for argv in (
        ["g++", "-O2", "-g", "-w", "-shared", "-fPIC", scratch / "operators.cc", "-o", library],
        ["g++", "-O2", "-g", scratch / "taker.cc", library, f"-Wl,-rpath,{scratch}", "-o", program],
    ):
        subprocess.run(argv, check=True, timeout=WAIT_SECONDS)
    run = same_as_bare([program], record, clean_env, scratch)
    sites = report_json(run.path, "sites")["sites"]
    assert sum(size["count"] for s in sites for size in s["sizes"] if size["low_bytes"] == 321) == 100


def test_allocator_of_the_executable_itself_is_named(target, record, report_json):
    run = record([target("t_rv_basic_malloc_executable")])
    assert report_json(run.path)["processes"][0]["allocator"] == "t_rv_basic_malloc_executable"


def test_allocator_library_is_named(target, record, report_json):
    run = record([target("t_rv_basic_malloc_library")])
    assert run.returncode == 0, run.stdout + run.stderr
    assert report_json(run.path)["processes"][0]["allocator"] == "lib_rv_basic_malloc.so"

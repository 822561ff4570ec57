# SPDX-License-Identifier: Apache-2.0
"""Programs of musl: the same recorder, and the same truths. The targets are built by musl-gcc, which Debian's musl-tools brings."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import test_rust
import test_targets
from compiled import WAIT_SECONDS, losses

pytestmark = pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not here")

# As gcc does on Alpine; the kernel's headers are the host's.
FLAGS = ["-Wl,--eh-frame-hdr", "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
# Targets that rest on glibc: on what only it has, on how its allocator rounds and reuses, on dlclose unloading, on an end without CFI.
OF_GLIBC = {
    "t_address_of_malloc": "rounding",
    "t_bad_addresses": "struct prctl_mm_map",
    "t_break": "sbrk",
    "t_c23_sized_frees": "a library that is linked before the program",
    "t_c_entry_points": "pvalloc",
    "t_constructors": "DT_PREINIT_ARRAY",
    "t_dlopen_plugin": "dlclose",
    "t_dlopen_reuse": "dlclose",
    "t_failing_calls": "pvalloc",
    "t_loader_torture": "dlclose",
    "t_realloc_rules": "realloc of 0 bytes",
    "t_rv_exec_fifo": "strerrorname_np",
    "t_rv_fork_chain": "reuse",
    "t_rv_ping_pong": "reuse",
    "t_runpath_plugin": "flags of CMake",
    "t_small_stacks": "_SC_MINSIGSTKSZ",
    "t_stack_shrinks": "getcontext",
    "t_stack_ucontext": "getcontext",
    "t_stack_without_cfi": "the frame is found by its code",
}


def words_after(source, key):
    """The words of "/* key: ... */" in the first lines of a target."""
    found = re.search(rf"{key}: (.*?) \*/", "\n".join(source.read_text().splitlines()[:5]))
    return found[1].split() if found else []


def libraries_of(source):
    """The sources of the libraries that a target is linked with or opens; None: one is not C."""
    names = sorted(set(re.findall(r"\blib_\w+", source.read_text())))
    known = [test_targets.SOURCES.get(f"{name}.c") for name in names]
    return None if None in known else known


# Stress, and what does not depend on the library.
LONG = {"t_signals_jump_out", "t_signals_single_step", "t_threads_crowd", "t_threads_ends", "t_threads_first_call", "t_threads_many", "t_seccomp_kill"}
LONG |= {name for name in test_targets.NAMES if name.startswith("t_python")}


C_NAMES = sorted(
    path.stem
    for path in test_targets.SOURCES.values()
    if path.name.startswith("t_") and path.suffix == ".c" and path.stem not in OF_GLIBC and libraries_of(path) is not None
)


@pytest.fixture(scope="session")
def musl(tmp_path_factory):
    """Builds a target with musl; the folder is named as the harness expects it."""
    folder = tmp_path_factory.mktemp("musl") / "targets"
    folder.mkdir()
    targets = test_targets.TARGETS
    common = ["musl-gcc", "-g", "-O2", "-fPIC", "-D_GNU_SOURCE", "-D_LARGEFILE64_SOURCE", "-w", f"-I{targets}", f"-I{targets / 'libs'}", f"-I{targets.parents[1] / 'include'}"]

    def compile_one(source, output, *more):
        subprocess.run([*common, source, "-o", output, *words_after(source, "flags"), *FLAGS, *more], check=True, timeout=WAIT_SECONDS)
        return output

    def build(name, *flags):
        source = test_targets.SOURCES[f"{name}.c"]
        for library in libraries_of(source):
            needed = [folder / f"{other}.so" for other in words_after(library, "needs")]
            compile_one(library, folder / f"{library.stem}.so", "-shared", *needed)
        needed = [folder / f"{library}.so" for library in words_after(source, "needs")]
        return compile_one(source, folder / name, *needed, f"-Wl,-rpath,{folder}", *flags)

    return build


@pytest.mark.parametrize("name", C_NAMES)
def test_target_is_recorded_as_it_says(name, musl, record, report_json, clean_env, scratch):
    if name in LONG and os.environ.get("HEAPGAUGE_LONG") != "1":
        pytest.skip("long: HEAPGAUGE_LONG=1")
    if name == "t_misaligned_stack" and subprocess.run([musl(name)], env=clean_env, capture_output=True, timeout=WAIT_SECONDS).returncode < 0:
        pytest.skip("this musl needs an aligned stack itself, as that of Debian 13")
    test_targets.test_target_is_recorded_as_it_says(name, musl, record, report_json, clean_env, scratch)


@pytest.mark.parametrize("name", ["t_libc_callers", "t_temporary_blocks", "t_threads_peak", "t_signals_timer"])
def test_frames_are_found_without_unwind_information(name, musl, record, report_json, clean_env, scratch):
    flags = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--no-eh-frame-hdr")
    test_targets.test_target_is_recorded_as_it_says(name, lambda n: musl(n, *flags), record, report_json, clean_env, scratch)


TREE = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	void *volatile block = malloc(1000 + argc);
	block = NULL;
	return argc > 1 ? system(argv[1]) : 0;
}
"""


@pytest.mark.parametrize("compilers", [("gcc", "musl-gcc"), ("musl-gcc", "gcc")])
def test_a_program_starts_one_of_the_other_library(compilers, record, report_json, scratch):
    """By the shell, which is of glibc here: three processes, and no word of a loader."""
    programs = []
    for compiler in compilers:
        (scratch / "tree.c").write_text(TREE)
        programs.append(scratch / f"tree-{compiler}")
        subprocess.run([compiler, scratch / "tree.c", "-o", programs[-1]], check=True, timeout=WAIT_SECONDS)
    run = record([programs[0], programs[1]])
    assert run.returncode == 0 and run.stdout == "" and run.stderr == ""
    processes = report_json(run.path)["processes"]
    blocks = {p["command"].split()[0].rsplit("/", 1)[-1]: (p["not_freed_bytes"], p["allocator"]) for p in processes}
    assert blocks[programs[0].name] == (1002, "musl" if compilers[0] == "musl-gcc" else "glibc")
    assert blocks[programs[1].name] == (1001, "musl" if compilers[1] == "musl-gcc" else "glibc")
    assert not any(p["health"].get("stacks_stopped") for p in processes)


def test_the_loader_is_called_by_name(musl, record, report_json):
    program = musl("t_temporary_blocks")
    run = record(["/lib/ld-musl-x86_64.so.1", program])
    assert run.returncode == 0
    assert report_json(run.path)["processes"][0]["allocator"] == "musl"


RUST_TARGET = "x86_64-unknown-linux-musl"
RUST = """#!/bin/sh
exec rustc --target {target} -C target-feature=-crt-static -C linker=musl-gcc -C link-arg=-Wl,--eh-frame-hdr -L native={folder} "$@"
"""


@pytest.fixture(scope="module")
def rustc(tmp_path_factory):
    """A compiler of dynamic programs of musl. On Alpine the unwinder is libgcc_s; Debian has none for musl, and Rust brings its own."""
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    argv = ["rustc", "--print", "target-libdir", "--target", RUST_TARGET]
    libraries = pathlib.Path(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip())
    if not libraries.is_dir():
        pytest.skip(f"rustc has no libraries of {RUST_TARGET}: rustup target add {RUST_TARGET}")
    folder = tmp_path_factory.mktemp("rustc")
    (folder / "libgcc_s.so").write_text(f"INPUT({libraries}/self-contained/libunwind.a)\n")
    script = folder / "rustc"
    script.write_text(RUST.format(target=RUST_TARGET, folder=folder))
    script.chmod(0o755)
    return script


RUST_TESTS = [
    test_rust.test_scopes_of_a_rust_program,
    test_rust.test_the_allocator_tags_what_rust_allocates_and_counts_nothing_twice,
    test_rust.test_contexts_labels_control_moments_and_numbers,
]


@pytest.mark.parametrize("test", RUST_TESTS, ids=lambda test: test.__name__)
def test_a_rust_program(test, rustc, scratch, record, report_json):
    library = test_rust.build_library(rustc, scratch)
    test(rustc, library, scratch, record, report_json)
    processes = report_json(scratch / "run1.hg")["processes"]
    assert [process["allocator"] for process in processes] == ["musl"] and not losses(processes[0])

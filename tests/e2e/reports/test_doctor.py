# SPDX-License-Identifier: Apache-2.0
"""heapgauge doctor: what it says of real programs, and that recording them agrees."""

import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from terminal import Terminal

SOURCE = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(99); free(p); return 0; }\n"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
NOBODY = 65534


@pytest.fixture
def doctor(heapgauge, clean_env, scratch):
    """doctor(program, ...): (exit status, {check: line} of the program, {check: line} of the machine)."""

    def run(*words, env=None, **more):
        done = subprocess.run(
            [heapgauge, "doctor", "--format", "json", *words], env=clean_env | (env or {}), cwd=scratch,
            capture_output=True, text=True, timeout=WAIT_SECONDS, **more,
        )
        assert done.returncode in (0, 1) and done.stderr == "", done.stderr
        said = json.loads(done.stdout)
        assert said["recordable"] == (done.returncode == 0)
        checks = said["program"]["checks"] if "program" in said else []
        lines = [*said["machine"], *checks]
        assert all(line["verdict"] in ("ok", "warn", "no") and line["found"] for line in lines)
        assert (done.returncode == 1) == any(line["verdict"] == "no" for line in lines)
        return done.returncode, {c["check"]: c for c in checks}, {c["check"]: c for c in said["machine"]}

    return run


@pytest.fixture
def calls_of(record, report_json):
    """calls_of(program): how many allocations a recording of it has; None if it is refused."""

    def run(program):
        done = record([program])
        if done.returncode == 125:
            return None
        return report_json(done.path)["processes"][0]["calls"]

    return run


def refused(doctor, program, words, way_out):
    status, lines, _ = doctor(program)
    assert status == 1
    line = lines["recorder"]
    assert line["verdict"] == "no" and words in line["found"] and way_out in line["remedy"], line
    assert "names" not in lines, "what does not matter is not said"


# ---- this machine ----


def test_this_machine_can_record(doctor):
    status, _, machine = doctor()
    assert status == 0
    assert machine["trial"]["found"] == "the program 'true' was recorded"
    assert os.uname().release in machine["kernel"]["found"]
    assert machine["recorder"]["found"].endswith("/libheapgauge.so")
    libc = subprocess.run(["ldd", "--version"], capture_output=True, text=True).stdout.splitlines()[0].split()[-1]
    assert machine["glibc"]["found"] == libc
    assert {"report --pid", "cgroup", "limits", "debug files", "JIT code"} <= set(machine)


def test_a_missing_recorder_is_a_no_with_a_way_out(doctor, scratch):
    status, _, machine = doctor(env={"HEAPGAUGE_RECORDER": str(scratch / "gone.so")})
    assert status == 1
    assert machine["recorder"]["verdict"] == "no" and "gone.so" in machine["recorder"]["found"]
    assert "trial" not in machine


def test_a_recorder_that_cannot_be_loaded_fails_the_trial(doctor, build, scratch):
    """It looks right, but its code is gone: only trying shows it."""
    data = bytearray((build / "libheapgauge.so").read_bytes())
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        if struct.unpack_from("<I", data, at + i * size)[0] == 2:  # PT_DYNAMIC
            offset = struct.unpack_from("<Q", data, at + i * size + 8)[0]
            struct.pack_into("<Q", data, offset, 0)  # DT_NULL: an empty dynamic section
    broken = scratch / "libheapgauge.so"
    broken.write_bytes(data)
    status, _, machine = doctor(env={"HEAPGAUGE_RECORDER": str(broken)})
    assert status == 1
    assert machine["recorder"]["verdict"] == "ok" and machine["trial"]["verdict"] == "no"


def test_limits_and_other_preloads_are_warned_of(doctor, build):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    status, _, machine = doctor(env={"LD_PRELOAD": "libc.so.6"}, preexec_fn=limited)
    assert status == 0
    assert machine["limits"]["verdict"] == "warn" and "8.0 GiB" in machine["limits"]["found"]
    assert machine["preload"]["verdict"] == "warn" and "libc.so.6" in machine["preload"]["found"]


# ---- programs ----


def test_a_plain_program_is_all_ok(doctor, scratch, calls_of):
    program = compile_c(scratch, "plain", SOURCE)
    status, lines, _ = doctor(program)
    assert status == 0
    assert {line["verdict"] for line in lines.values()} == {"ok"}
    assert set(lines) == {"recorder", "allocator", "stacks", "names", "build-id"}
    assert lines["allocator"]["found"] == "the C library's"
    assert calls_of(program) == 1


def test_static(doctor, scratch, calls_of):
    program = compile_c(scratch, "static", SOURCE, "-static")
    refused(doctor, program, "statically linked", "dynamically linked build")
    assert calls_of(program) is None


def test_32_bit(doctor, scratch):
    program = compile_c(scratch, "narrow", SOURCE)
    data = bytearray(program.read_bytes())
    data[4] = 1  # EI_CLASS
    program.write_bytes(data)
    refused(doctor, program, "32-bit", "64-bit build")


def test_musl(doctor, scratch, calls_of):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not here")
    source, program = scratch / "m.c", scratch / "musl"
    source.write_text(SOURCE)
    subprocess.run(["musl-gcc", source, "-o", program], check=True)
    assert doctor(program)[0] == 0
    assert calls_of(program) == 1


def test_a_sanitizers_build(doctor, scratch):
    refused(doctor, compile_c(scratch, "asan", SOURCE, "-fsanitize=address"), "sanitizer", "-fsanitize")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_set_user_id(build, heapgauge, clean_env):
    folder = pathlib.Path("/tmp") / f"heapgauge-doctor-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        folder.chmod(0o755)
        shutil.copy(heapgauge, folder)
        shutil.copy(build / "libheapgauge.so", folder)
        program = compile_c(folder, "lifted", SOURCE)
        program.chmod(0o4755)
        done = subprocess.run(
            [folder / "heapgauge", "doctor", program], cwd=folder, env=clean_env, user=NOBODY, group=NOBODY,
            extra_groups=[], capture_output=True, text=True,
        )
        assert done.returncode == 1 and "is set-user-id" in done.stdout and "-> Record a copy" in done.stdout
    finally:
        shutil.rmtree(folder)


def test_a_script_is_judged_by_its_interpreter(doctor, scratch):
    static = compile_c(scratch, "static", SOURCE, "-static")
    for name, first in [("plain", "#!/bin/sh"), ("env", "#!/usr/bin/env -S sh -u")]:
        script = scratch / name
        script.write_text(first + "\nexit 0\n")
        script.chmod(0o755)
        status, lines, _ = doctor(script)
        assert status == 0 and pathlib.Path(lines["script"]["found"].split()[-1]).name == "sh"
    (scratch / "bad").write_text(f"#!{static}\n")
    (scratch / "bad").chmod(0o755)
    status, lines, _ = doctor(scratch / "bad")
    assert status == 1 and "statically linked" in lines["recorder"]["found"]


def test_stripped(doctor, scratch):
    program = compile_c(scratch, "stripped", SOURCE)
    subprocess.run(["strip", "--strip-debug", program], check=True)
    assert "functions only" in doctor(program)[1]["names"]["found"]
    subprocess.run(["strip", program], check=True)
    status, lines, _ = doctor(program)
    assert status == 0
    assert lines["names"]["verdict"] == "warn" and "stripped" in lines["names"]["found"]
    assert "-g" in lines["names"]["remedy"]


def test_without_unwind_information_and_build_id(doctor, scratch):
    program = compile_c(scratch, "bare", SOURCE, "-Wl,--no-eh-frame-hdr", "-Wl,--build-id=none")
    status, lines, _ = doctor(program)
    assert status == 0
    assert lines["stacks"]["verdict"] == "warn" and ".eh_frame_hdr" in lines["stacks"]["found"]
    assert lines["build-id"]["verdict"] == "warn" and "--build-id" in lines["build-id"]["remedy"]


STATIC = {
    "jemalloc": ["libjemalloc_pic.a", "-lpthread", "-ldl", "-lm", "-lstdc++"],
    "tcmalloc": ["libtcmalloc_minimal.a", "-lpthread", "-lstdc++", "-lm"],
}


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("allocator", STATIC)
def test_an_allocator_that_is_linked_in(allocator, strip, doctor, scratch, calls_of):
    library, *flags = STATIC[allocator]
    if not (LIBRARIES / library).exists():
        pytest.skip(f"{library} is not here")
    source, program = scratch / "main.c", scratch / allocator
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O1", source, LIBRARIES / library, *flags, "-o", program], check=True)
    if strip:
        subprocess.run(["strip", program], check=True)
    status, lines, _ = doctor(program)
    if not strip:
        assert status == 0 and lines["allocator"]["verdict"] == "ok"
        assert lines["allocator"]["found"].startswith(f"{allocator} is linked in statically: recorded by its hooks")
        assert calls_of(program) > 0
        return
    assert status == 1
    assert lines["allocator"]["found"] == f"{allocator} is linked in statically: not recorded"
    assert "shared library" in lines["allocator"]["remedy"]
    assert calls_of(program) == 0


def test_an_allocator_under_names_of_its_own(doctor, scratch, calls_of):
    """As Rust's jemallocator has it: malloc stays the C library's."""
    program = compile_c(scratch, "prefixed", "void *_rjem_malloc(unsigned long n) { return (void *)n; }\n" + SOURCE)
    status, lines, _ = doctor(program)
    assert status == 0
    assert lines["allocator"]["verdict"] == "warn" and "jemalloc" in lines["allocator"]["found"]
    assert calls_of(program) == 1


def test_an_allocator_that_comes_as_a_library(doctor, scratch, calls_of):
    library = LIBRARIES / "libjemalloc.so.2"
    if not library.exists():
        pytest.skip("jemalloc is not here")
    program = compile_c(scratch, "shared", SOURCE, "-Wl,--no-as-needed", library)
    status, lines, _ = doctor(program)
    assert status == 0
    assert (lines["allocator"]["verdict"], lines["allocator"]["found"]) == ("ok", "jemalloc")
    assert calls_of(program) >= 1  # and what libstdc++ takes at its start


LIBRARY = """
#include <stdlib.h>
void *mi_malloc(size_t n) { return calloc(1, n); }
"""


def test_what_a_library_of_the_program_hides_is_told_before_the_run(doctor, scratch):
    """C1: also a library that only a library asks for, found by the file's own folders."""
    (scratch / "sub").mkdir()
    compile_c(scratch / "sub", "libinner.so", LIBRARY, "-shared", "-fPIC")
    inner = [scratch / "sub" / "libinner.so", "-Wl,-rpath,$ORIGIN/sub"]
    compile_c(scratch, "libouter.so", "", "-shared", "-fPIC", "-Wl,--no-as-needed", *inner)
    outer = ["-Wl,--no-as-needed", scratch / "libouter.so", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"]
    status, lines, _ = doctor(compile_c(scratch, "asks", SOURCE, *outer))
    assert status == 0 and lines["allocator"]["verdict"] == "ok"
    assert lines["unrecorded"]["verdict"] == "warn" and "mimalloc inside libinner.so" in lines["unrecorded"]["found"]
    assert "system's malloc" in lines["unrecorded"]["remedy"]


CALLS = {
    "__libc_malloc": ("void *__libc_malloc(unsigned long); void *f(void) { return __libc_malloc(9); }", "calls __libc_malloc"),
    "dlmopen": ("void *dlmopen(long, const char *, int); void *f(void) { return dlmopen(-1, \"x\", 2); }", "with dlmopen"),
    "mmap": ("long syscall(long, ...); long f(void) { return syscall(9, 0, 4096, 3, 34, -1, 0L); }", "a direct system call"),
    "mallocx": ("void *mallocx(unsigned long, int); void *f(void) { return mallocx(9, 0); }", "by its own names"),
}


@pytest.mark.parametrize("bound", ["-fplt", "-fno-plt"])
@pytest.mark.parametrize("call", CALLS)
def test_calls_past_the_recorder_are_told_before_the_run(call, bound, doctor, scratch):
    """C2, C5"""
    source, found = CALLS[call]
    library = compile_c(scratch, "libcalls.so", source, "-shared", "-fPIC", bound)
    flags = ["-Wl,--no-as-needed", library, f"-Wl,-rpath,{scratch}", "-Wl,--unresolved-symbols=ignore-all"]
    status, lines, _ = doctor(compile_c(scratch, "calls", SOURCE, *flags))
    assert status == 0 and lines["unrecorded"]["found"].startswith("libcalls.so ") and found in lines["unrecorded"]["found"]


def test_the_number_nine_is_no_system_call(doctor, scratch):
    """C5: other calls of syscall(), and other functions that are given a nine, are not taken for mmap."""
    source = "long syscall(long, ...); int abs(int); long f(void) { return syscall(39) + abs(9); }"
    library = compile_c(scratch, "libcalls.so", source, "-shared", "-fPIC", "-fno-builtin")
    _, lines, _ = doctor(compile_c(scratch, "calls", SOURCE, "-Wl,--no-as-needed", library, f"-Wl,-rpath,{scratch}"))
    assert "unrecorded" not in lines


def test_go(doctor, scratch):
    """Without cgo a Go program is statically linked."""
    if not shutil.which("go"):
        pytest.skip("go is not here")
    (scratch / "hello.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    env = os.environ | {"CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", "hello", "hello.go"], cwd=scratch, env=env, check=True, timeout=WAIT_SECONDS)
    status, lines, _ = doctor("./hello")
    assert "Go (hello) keeps objects" in lines["unrecorded"]["found"] and "pprof" in lines["unrecorded"]["remedy"]
    assert status == 1 and "statically linked" in lines["recorder"]["found"]


def test_what_is_no_program(doctor, scratch):
    (scratch / "text").write_text("hello\n")
    for name, words in [
        ("./nothing", "No such file"), ("no-such-program", "not found"), ("./text", "is not executable"), (".", "not found"),
        ("./", "is a folder"),
    ]:
        status, lines, _ = doctor(name)
        assert status == 1 and words in lines["file"]["found"], (name, lines)
    program = compile_c(scratch, "only-here", SOURCE)
    status, lines, _ = doctor("only-here")
    assert status == 1 and lines["file"]["remedy"] == "heapgauge doctor ./only-here"
    assert doctor(program)[0] == 0


# ---- how it is said ----


def test_text_has_a_verdict_in_each_line_and_an_answer_at_the_end(heapgauge, clean_env, scratch):
    compile_c(scratch, "stripped", SOURCE, "-s")
    done = subprocess.run([heapgauge, "doctor", "./stripped"], env=clean_env, cwd=scratch, capture_output=True, text=True)
    assert done.returncode == 0
    machine, program, answer = done.stdout.rstrip("\n").split("\n\n")
    assert machine.startswith("this machine\n  ok    kernel ") and program.startswith("./stripped\n  ok    recorder ")
    assert "  warn  names         stripped" in program and "\n                      -> build it with -g" in program
    assert answer == "./stripped can be recorded"
    assert len(done.stdout.splitlines()) <= 24
    assert done.stdout.isascii()


def test_colours_are_for_terminals(heapgauge, clean_env, scratch):
    env = {k: v for k, v in clean_env.items() if k != "NO_COLOR"} | {"TERM": "xterm"}

    def shown(*words, more=None):
        return Terminal([heapgauge, "doctor", "--no-pager", *words], env | (more or {}), scratch, rows=60).end().text

    def piped(*words, more=None):
        run = subprocess.run([heapgauge, "doctor", *words], env=env | (more or {}), cwd=scratch, capture_output=True)
        return run.stdout.decode()

    assert "\033[32mok" in shown()
    assert "\033[" not in shown(more={"NO_COLOR": "1"})
    assert "\033[" not in shown("--color=never")
    assert "\033[" not in shown(more={"HEAPGAUGE_COLOR": "never"})
    assert "\033[32mok" in shown("--color=always", more={"NO_COLOR": "1"})
    assert "\033[" not in piped()
    assert "\033[32mok" in piped("--color", "always")


def test_a_name_cannot_move_the_cursor(heapgauge, clean_env, scratch):
    done = subprocess.run([heapgauge, "doctor", "./\033[2Jx"], env=clean_env, cwd=scratch, capture_output=True, text=True)
    assert done.returncode == 1 and "\033" not in done.stdout and "?[2Jx" in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""What cannot be recorded is refused before anything runs, with the reason and a remedy."""

import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, ended

# Leaves a file behind if it ever runs.
TELLTALE = '#include <stdio.h>\nint main(void) { fclose(fopen("it-ran", "w")); return 0; }\n'
NOBODY = 65534
PT_INTERP = 3
EM_X86_64, EM_AARCH64 = 62, 183

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


@pytest.fixture
def refused(record, scratch):
    """refused(argv): heapgauge ends with 125 and starts nothing; what it says."""

    def run(argv, **more):
        done = record(argv, **more)
        assert done.returncode == 125, done.stderr
        assert done.stdout == "" and not done.path.exists()
        assert not (scratch / "it-ran").exists(), "the program was started"
        reason, *hints = done.stderr.splitlines()
        assert reason.startswith("heapgauge: ") and len(hints) <= 1 and all(re.fullmatch(r"  [A-Z][^?]*\.", hint) for hint in hints)
        return done.stderr

    return run


@pytest.fixture
def dynamic(scratch):
    return compile_c(scratch, "dynamic", TELLTALE)


def patched(program, name, change):
    """A copy of an ELF file with its bytes changed."""
    data = bytearray(program.read_bytes())
    change(data)
    copy = program.with_name(name)
    copy.write_bytes(data)
    copy.chmod(0o755)
    return copy


def test_a_program_that_fits_is_run(dynamic, record, scratch):
    assert record([dynamic]).returncode == 0
    assert (scratch / "it-ran").exists()


def test_static(scratch, refused):
    program = compile_c(scratch, "static", TELLTALE, "-static")
    said = refused([program])
    assert f"{program} is statically linked" in said and "dynamically linked build" in said


def test_a_newline_in_a_name_starts_no_line(scratch, refused):
    said = refused([compile_c(scratch, "static\nheapgauge: fine", TELLTALE, "-static")])
    assert "static?heapgauge: fine is statically linked: the recorder cannot be loaded into it\n" in said


def test_static_pie(scratch, refused):
    assert "statically linked" in refused([compile_c(scratch, "static-pie", TELLTALE, "-static-pie")])


def test_32_bit(dynamic, refused):
    def change(data):
        data[4] = 1  # EI_CLASS

    said = refused([patched(dynamic, "narrow", change)])
    assert "narrow is a 32-bit program" in said and "64-bit build" in said


def test_another_processor(dynamic, refused):
    def change(data):
        (machine,) = struct.unpack_from("<H", data, 18)
        data[18:20] = struct.pack("<H", EM_AARCH64 if machine != EM_AARCH64 else EM_X86_64)

    assert "another architecture" in refused([patched(dynamic, "foreign", change)])


def test_another_libc(dynamic, refused):
    def change(data):
        (at,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at + i * size)
            if kind == PT_INTERP:
                data[offset : offset + length] = b"/lib/ld64-uClibc.so.1".ljust(length, b"\0")

    said = refused([patched(dynamic, "uclibc", change)])
    assert "another C library" in said and "/lib/ld64-uClibc.so.1" in said and "glibc and musl" in said


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_sanitizers_build(sanitizer, scratch, refused):
    try:
        program = compile_c(scratch, "sanitized", TELLTALE, f"-fsanitize={sanitizer}")
    except subprocess.CalledProcessError:
        pytest.skip(f"this compiler has no {sanitizer} sanitizer")
    said = refused([program])
    assert "is built with a sanitizer" in said and "-fsanitize" in said


def test_a_script_is_judged_by_its_interpreter(scratch, refused, record):
    static = compile_c(scratch, "static", TELLTALE, "-static")
    script, good = scratch / "script", scratch / "good"
    script.write_text(f"#!{static} --flag\n")
    good.write_text("#!/bin/sh\nexit 6\n")
    for file in (script, good):
        file.chmod(0o755)
    said = refused([script])
    assert f"{script} is a script for {static}, which is statically linked" in said
    assert record([good]).returncode == 6


def test_a_program_in_the_path_is_found_there(scratch, refused, clean_env):
    compile_c(scratch, "only-here", TELLTALE, "-static")
    said = refused(["only-here"], env={"PATH": f"{scratch}:{clean_env['PATH']}"})
    assert "only-here is statically linked" in said


# ---- privileges: as somebody who has none ----


@pytest.fixture
def open_folder(heapgauge, build):
    """A folder that everybody can reach, with heapgauge and its recorder in it."""
    folder = pathlib.Path("/tmp") / f"heapgauge-preflight-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    shutil.copy(heapgauge, folder)
    shutil.copy(build / "libheapgauge.so", folder)
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def record_as_nobody(folder, program, env):
    done = subprocess.run(
        [folder / "heapgauge", "record", "-q", "-o", "run.hg", "--", program],
        cwd=folder / "work", env=env, user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )
    return done


def expect_refused(folder, done, words):
    assert done.returncode == 125, done.stderr
    assert words in done.stderr and "Record a copy" in done.stderr
    assert not (folder / "work" / "it-ran").exists()


@needs_root
@pytest.mark.parametrize("mode, words", [(0o4755, "is set-user-id"), (0o2755, "is set-group-id")])
def test_a_set_id_bit(mode, words, open_folder, clean_env):
    program = compile_c(open_folder, "lifted", TELLTALE)
    program.chmod(mode)
    expect_refused(open_folder, record_as_nobody(open_folder, program, clean_env), words)


@needs_root
def test_file_capabilities(open_folder, clean_env):
    program = compile_c(open_folder, "capable", TELLTALE)
    # cap_net_bind_service=ep: VFS_CAP_REVISION_2 with the effective bit, one permitted bit.
    capability = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
    try:
        os.setxattr(program, "security.capability", capability)
    except OSError as reason:
        pytest.skip(f"no file capabilities here: {reason}")
    expect_refused(open_folder, record_as_nobody(open_folder, program, clean_env), "has file capabilities")


@needs_root
def test_privileged_programs_are_none_for_root(open_folder, record, scratch):
    """ld.so lets us in: the program gets no right that its caller lacks."""
    program = compile_c(open_folder, "lifted", TELLTALE)
    program.chmod(0o4755)
    assert record([program]).returncode == 0
    assert (scratch / "it-ran").exists()


@needs_root
def test_a_bare_program_of_nobody_is_recorded(open_folder, clean_env):
    program = compile_c(open_folder, "plain", TELLTALE)
    done = record_as_nobody(open_folder, program, clean_env)
    assert done.returncode == 0, done.stderr
    assert (open_folder / "work" / "run.hg").exists()


# Takes over ids as argv[1] says, and starts argv[2].
STARTER = r"""
#define _GNU_SOURCE
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int status = 0, failed = 0;
	pid_t pid = fork();
	if (pid == 0) {
		if (strcmp(argv[1], "euid") == 0) failed = seteuid(65534);
		if (strcmp(argv[1], "egid") == 0) failed = setegid(65534);
		if (strcmp(argv[1], "nobody") == 0) failed = setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
		if (strcmp(argv[1], "held") == 0) failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (!failed) execv(argv[2], argv + 2);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}
"""
SECURE = r"""
#include <stdlib.h>
#include <sys/auxv.h>
int main(void) { void *volatile block = malloc(10); return getauxval(AT_SECURE) != 0 ? 5 : 6; }
"""
OWNERS = {"root": (0, 0), "other user": (NOBODY, 0), "other group": (0, NOBODY)}


def sets_back(ids, owner, mode):
    """Whether the program sets an effective id back to the real one, 0: not privileged before Linux 6.16, but taken for it."""
    user, group = OWNERS[owner]
    return (ids == "euid" and mode == 0o4755 and user == 0) or (ids == "egid" and mode == 0o2755 and group == 0)


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o4755, 0o2755, 0o2745])
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("ids", ["same", "euid", "egid", "nobody", "held"])
def test_a_child_is_missed_as_privileged_where_the_kernel_calls_it_so(ids, owner, mode, open_folder, clean_env, report_json):
    """C13: a set-group-id program that root starts "never reached heapgauge"."""
    starter, program = (compile_c(open_folder, name, text) for name, text in (("starter", STARTER), ("secure", SECURE)))
    os.chown(program, *OWNERS[owner])
    program.chmod(mode)
    path = open_folder / "work" / "run.hg"
    done = subprocess.run(
        [open_folder / "heapgauge", "record", "-q", "-o", path, starter, ids, program],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )
    if done.returncode == 99:
        pytest.skip("whoever that is may not execute it at all")
    summary = report_json(path)
    recorded = [process for process in summary["processes"] if process["calls"] == 1 and ended(process, "exit", done.returncode)]
    assert done.returncode in (5, 6), done.stderr
    missed = done.returncode == 5 or sets_back(ids, owner, mode)
    assert summary["warnings"] == ({"missed_privileged": 1} if missed else {})
    assert len(recorded) == (not missed)


@needs_root
def test_a_set_group_id_program_is_told_to_root_too(open_folder, record, scratch):
    """C13"""
    program = compile_c(open_folder, "lifted", TELLTALE)
    os.chown(program, 0, NOBODY)
    program.chmod(0o2755)
    done = record([program])
    assert done.returncode == 125 and "is set-group-id" in done.stderr and "as its group" in done.stderr


# ---- the recorder ----


def test_a_recorder_that_is_missing(dynamic, refused, scratch):
    said = refused([dynamic], env={"HEAPGAUGE_RECORDER": str(scratch / "gone.so")})
    assert "gone.so" in said and "HEAPGAUGE_RECORDER" in said


@needs_root
def test_a_recorder_that_may_not_be_read(open_folder, clean_env):
    program = compile_c(open_folder, "plain", TELLTALE)
    (open_folder / "libheapgauge.so").chmod(0o600)
    done = record_as_nobody(open_folder, program, clean_env)
    assert done.returncode == 125
    assert "libheapgauge.so" in done.stderr
    assert not (open_folder / "work" / "it-ran").exists()


def test_a_recorder_that_is_no_library(dynamic, refused, scratch):
    other = scratch / "libheapgauge.so"
    other.write_text("this is not it\n")
    assert "is not a recorder for this machine" in refused([dynamic], env={"HEAPGAUGE_RECORDER": str(other)})


def test_a_recorder_whose_path_preload_cannot_name(dynamic, refused, scratch, build):
    folder = scratch / "two words"
    folder.mkdir()
    shutil.copy(build / "libheapgauge.so", folder)
    said = refused([dynamic], env={"HEAPGAUGE_RECORDER": str(folder / "libheapgauge.so")})
    assert "LD_PRELOAD cannot name" in said and "HEAPGAUGE_RECORDER" in said


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_sanitizer_that_is_linked_in_statically_is_refused_too(sanitizer, heapgauge, scratch, clean_env):
    source, program = scratch / "sane.c", scratch / "sane"
    source.write_text("int main(void) { return 0; }\n")
    library = {"address": "asan", "thread": "tsan"}[sanitizer]
    subprocess.run(["gcc", f"-fsanitize={sanitizer}", f"-static-lib{library}", source, "-o", program], check=True)
    run = subprocess.run([heapgauge, "record", program], env=clean_env, cwd=scratch, capture_output=True, text=True)
    assert run.returncode == 125
    assert "sanitizer" in run.stderr

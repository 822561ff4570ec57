# SPDX-License-Identifier: Apache-2.0
"""libheapgauge-profile: every view, cell by cell, is what `report --format json` prints; and what it does with bad input."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c
from reading import differences, head_and_rows
from serving import page_env
from test_json import AXES, OF_PAGES, VIEWS, command, folder, rich  # noqa: F401

PROGRAM = pathlib.Path(__file__).parent / "library" / "print_report.c"
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    where = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", build, "--prefix", where], check=True, capture_output=True)
    return where


@pytest.fixture(scope="module")
def sanitized(build):
    """The flags that the build was sanitized with: a program has to be as well."""
    found = re.search(r"^HEAPGAUGE_SANITIZE:STRING=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    return [f"-fsanitize={found[1]}"] if found else []


@pytest.fixture(scope="module")
def build_with(prefix, sanitized):
    """build_with(source): the program, compiled with what pkg-config says."""

    def run(source):
        env = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        argv = ["pkg-config", "--cflags", "--libs", "heapgauge-profile"]
        flags = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.split()
        strict = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", *sanitized]
        subprocess.run(["cc", *strict, source, "-o", prefix / source.stem, *flags, f"-Wl,-rpath,{prefix / 'lib'}"], check=True)
        return prefix / source.stem

    return run


@pytest.fixture(scope="module")
def program(build_with):
    return build_with(PROGRAM)


@pytest.fixture
def ask(program, folder):  # noqa: F811
    """ask(file, *options): what the library gives; the sentence of an error as a string."""

    def run(*arguments):
        argv = [program, *map(str, arguments)]
        done = subprocess.run(argv, env=page_env(folder), cwd=folder, capture_output=True, text=True, errors="replace", timeout=WAIT_SECONDS)
        assert done.returncode in (0, 1), done.stderr
        return done.stderr.strip() if done.returncode else json.loads(done.stdout, strict=False)

    return run


def equal(library, report):
    head, rows = head_and_rows(report, library["name"])
    return [*differences(library["head"], head, "head"), *differences(library["rows"], rows, "rows")]


@pytest.mark.parametrize("view, file", [(view, file) for view in VIEWS for file in ("exact.hg", "sampled.hg") if file == "exact.hg" or view not in OF_PAGES])
def test_a_view_is_that_of_the_report(view, file, rich, command, ask):  # noqa: F811
    report = json.loads(command("report", file, "--view", view, "--format", "json"))
    assert equal(ask(file, "--view", view), report) == []


@pytest.mark.parametrize("axis", AXES)
def test_options_are_those_of_the_report(axis, rich, command, ask):  # noqa: F811
    options = ["--by", axis, "--cost=calls", "-n3", "--focus", "main"]
    report = json.loads(command("report", "exact.hg", *options, "--format", "json"))
    answer = ask("exact.hg", *options)
    assert answer["head"]["cost"] == "calls" and len(answer["rows"]) <= 3 and equal(answer, report) == []


def test_errors_are_sentences(rich, ask):  # noqa: F811
    assert ask("no.hg").startswith("cannot read the recording (")
    assert ask("exact.hg", "--cots", "peak") == "unknown option --cots; did you mean --cost?"
    assert ask("exact.hg", "--view", "leeks") == "--view does not take 'leeks'; did you mean 'leaks'?"
    assert "is not an option" in ask("exact.hg", "sites")
    assert "--help" in ask("exact.hg", "--help") and "unknown option --format" in ask("exact.hg", "--format", "csv")
    assert "--by" in ask("exact.hg", "--view", "timeline", "--by", "line")
    assert "no_such_function" in ask("exact.hg", "--focus", "no_such_function")
    assert ask(1 << 22) and "process" in ask(1 << 22)


@pytest.fixture
def waiting(clean_env, scratch, heapgauge):
    """The pid of a recorded process that has a block of 123457 bytes and waits."""
    source = '#include <stdlib.h>\n#include <unistd.h>\nchar *volatile p; int main(void) { p = malloc(123457); puts("."); fflush(0); pause(); free(p); }\n'
    target = compile_c(scratch, "waits", f"#include <stdio.h>\n{source}")
    argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", "--", target]
    with subprocess.Popen(argv, env=clean_env, stdout=subprocess.PIPE) as recorder:
        recorder.stdout.readline()
        (pid,) = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        try:
            yield pid
        finally:
            os.kill(int(pid), signal.SIGTERM)


def test_a_running_process_is_read(waiting, ask):
    pid = waiting
    answer = ask(pid, "--view", "sites", "--min-size", "123457", "--max-size", "123457")
    assert [row["live_bytes"] for row in answer["rows"]] == [123457]
    assert answer["head"]["file"] == f"process {pid}"


def test_a_program_writes_reports_about_itself(build, build_with, clean_env, sanitized):
    if sanitized:
        pytest.skip("a sanitized program has an allocator of its own")
    program = build_with(PROGRAM.with_name("about_itself.c"))
    done = subprocess.run([program], env=preloaded(build, clean_env), capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    tree, *threads = re.split(r"^thread (?=\d+$)", done.stdout, flags=re.M)
    assert re.search(r" 39\.1 KiB .* fill ", tree), tree  # 10 * (1000 + 3000) bytes
    assert all(re.search(rf"^ *{size} +10 ", tree, re.M) for size in (r"1000 B", r"2\.9 KiB")), tree
    held = {name: text for text in threads for name in ("first", "second") if re.search(rf"\b{name}$", text, re.M)}
    assert re.search(r" 9\.8 KiB .* first$", held["first"], re.M) and "second" not in held["first"]
    assert re.search(r" 29\.3 KiB .* second$", held["second"], re.M) and "first" not in held["second"]


def test_settings_are_not_read(rich, program, folder):  # noqa: F811
    env = page_env(folder) | {"HEAPGAUGE_LIMIT": "1", "HEAPGAUGE_NO_SUCH": "1"}
    done = subprocess.run([program, "exact.hg", "--view", "sites"], env=env, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and len(json.loads(done.stdout)["rows"]) > 1, done.stderr


def test_damaged_recordings_do_no_harm(rich, program, folder, scratch):  # noqa: F811
    """An error or an answer, and never a signal; the decoders themselves are fuzzed."""
    whole = (folder / "exact.hg").read_bytes()
    chance = random.Random(21)
    for i in range(60):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 4, 64])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        (scratch / "bad.hg").write_bytes(data)
        argv = [program, scratch / "bad.hg", "--view", VIEWS[i % len(VIEWS)], "--no-symbols"]
        done = subprocess.run(argv, env=page_env(folder), capture_output=True, timeout=WAIT_SECONDS)
        assert done.returncode in (0, 1), (i, done.stderr)


def test_cmake_finds_the_library(prefix, scratch, sanitized):
    if sanitized:
        pytest.skip("cmake would have to be given the sanitizer's flags")
    (scratch / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(user LANGUAGES C)\nfind_package(heapgauge 0.1 REQUIRED)\n"
        f"add_executable(by-cmake {PROGRAM})\ntarget_link_libraries(by-cmake PRIVATE heapgauge::profile)\n"
    )
    subprocess.run(["cmake", "-S", scratch, "-B", scratch / "out", f"-DCMAKE_PREFIX_PATH={prefix}"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", scratch / "out"], check=True, capture_output=True)
    done = subprocess.run([scratch / "out/by-cmake", "no.hg"], capture_output=True, text=True)
    assert done.returncode == 1 and "cannot read the recording" in done.stderr


def test_symbols_are_versioned_and_no_others_are_seen(build):
    said = subprocess.run(["nm", "-D", "--defined-only", build / "libheapgauge-profile.so.0"], capture_output=True, text=True, check=True)
    names = {line.split()[2] for line in said.stdout.splitlines() if line.split()[1] != "A"}
    declared = set(re.findall(r"\b(hg_\w+)\(", (ROOT / "include/heapgauge/profile.h").read_text()))
    later = {"hg_report_write": "0.2"}
    assert names == {f"{name}@@HEAPGAUGE_PROFILE_{later.get(name, '0.1')}" for name in declared} and len(names) == 14


def test_the_host_is_left_alone(build_with, rich, waiting, folder, sanitized):  # noqa: F811
    """Its signal handlers, environment, locale, umask, working directory and descriptors; also while a report is made."""
    if sanitized:
        pytest.skip("a sanitizer sets handlers")
    program = build_with(PROGRAM.with_name("leaves_host_alone.c"))
    env = page_env(folder) | {"DEBUGINFOD_URLS": "http://127.0.0.1:9", "DEBUGINFOD_CACHE_PATH": str(folder / "fetched")}
    views = ["summary", "sites", "tree", "timeline", "threads", "memory", "health"]
    done = subprocess.run([program, folder / "exact.hg", waiting, *views], env=env, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_functions_that_change_the_host_are_not_linked(build):
    said = subprocess.run(["nm", "-D", "--undefined-only", build / "libheapgauge-profile.so.0"], capture_output=True, text=True, check=True)
    names = {re.sub("@.*", "", line.split()[-1]) for line in said.stdout.splitlines()}
    denied = {"sigaction", "__sigaction", "signal", "bsd_signal", "sysv_signal", "__sysv_signal", "sigset", "sigvec", "siginterrupt", "sigaltstack",
              "sigprocmask", "sigignore", "sighold", "sigrelse", "signalfd", "setenv", "unsetenv", "putenv", "clearenv", "setlocale", "uselocale",
              "umask", "chdir", "fchdir", "stdout", "puts", "printf", "__printf_chk", "vprintf", "__vprintf_chk", "putchar", "atexit", "on_exit", "abort",
              "fork", "vfork", "posix_spawn", "system", "popen", "execve", "setrlimit", "prctl"}
    assert len(names) > 100 and names & denied == set()


def test_the_header_is_c99_and_cpp(prefix, scratch):
    for compiler, name, standard in ("gcc", "a.c", "c99"), ("g++", "a.cc", "c++17"):
        (scratch / name).write_text("#include <heapgauge/profile.h>\n#include <heapgauge/heapgauge.h>\n")
        if shutil.which(compiler):
            argv = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{prefix / 'include'}", "-c", scratch / name]
            subprocess.run([*argv, "-o", scratch / "a.o"], check=True)

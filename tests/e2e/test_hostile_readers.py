# SPDX-License-Identifier: Apache-2.0
"""What readers do with files of others: they wait for nobody, believe only whom they must, and stay within bounds."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from compiled import compile_c
from test_names import JIT, SPLIT, build_scenes, dwz_together, run, strip_with_link

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root: files of other users")
STRANGER = 4321
WAIT_SECONDS = 60  # that a reader may take on a busy machine; what waits at a pipe takes longer than any limit


def pipe_instead(path):
    """A pipe that nobody writes to, where something else was."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


# ---- H8: what is no regular file ----


def pipe_as_linked_debug_file(folder, program):
    pipe_instead(strip_with_link(folder, program))


def pipe_in_debug_folder(folder, program):
    debug = strip_with_link(folder, program)
    debug.unlink()
    pipe_instead(folder / ".debug" / debug.name)


def pipe_by_build_id(folder, program):
    build_id = run("readelf", "-n", program).partition("Build ID: ")[2].split()[0]
    run("strip", "--strip-all", program)
    pipe_instead(folder / "symbols" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")


def pipes_for_split_units(folder, program):
    for path in folder.glob("*.dwo"):
        pipe_instead(path)


def pipe_for_split_units_where_compiled(folder, program):
    """The program is elsewhere by the time of the report; split units are looked for beside it, too."""
    pipes_for_split_units(folder, program)
    (folder / "bin").mkdir()
    os.link(program, folder / "bin" / "scenes")


def pipe_as_package(folder, program):
    for path in folder.glob("*.dwo"):
        path.unlink()
    pipe_instead(folder / "scenes.dwp")


def pipe_as_common_file(folder, program):
    dwz_together(folder, program)
    pipe_instead(folder / "common.debug")


def pipe_as_module(folder, program):
    pipe_instead(program)


TRAPS = [
    ([], pipe_as_linked_debug_file), ([], pipe_in_debug_folder), ([], pipe_by_build_id), (SPLIT, pipes_for_split_units),
    (SPLIT, pipe_for_split_units_where_compiled), (SPLIT, pipe_as_package), ([], pipe_as_common_file), ([], pipe_as_module),
]


@pytest.mark.parametrize("flags, trap", TRAPS, ids=[trap.__name__ for _, trap in TRAPS])
def test_a_pipe_in_place_of_debug_information_is_passed_over(flags, trap, scratch, record, report_json):
    """H8: names are missing then; nobody waits."""
    program = build_scenes(scratch, "g++", "-O2", *flags)
    if trap is pipe_as_module:
        done = record([program])
        trap(scratch, program)
    else:
        trap(scratch, program)
        moved = scratch / "bin" / "scenes"
        done = record([moved if moved.exists() else program])
    rows = report_json(done.path, "sites", "--debug-folder", scratch / "symbols")
    assert len(rows["sites"]) == 6


@pytest.fixture
def jit(scratch, record, report_json):
    """A recording of a runtime, and where its map is, which is removed in the end."""
    done = record([compile_c(scratch, "jit", JIT), "map"])
    path = pathlib.Path(f"/tmp/perf-{report_json(done.path)['processes'][0]['pid']}.map")
    yield done.path, path
    path.unlink(missing_ok=True)


def hot_function(rows):
    (site,) = [s for s in rows["sites"] if s["sizes"][0]["low"] == 1234]
    return site["stack"][0]["function"]


def test_a_pipe_in_place_of_a_perf_map_is_passed_over(jit, report_json):
    """H8"""
    recording, path = jit
    pipe_instead(path)
    assert hot_function(report_json(recording, "sites")).startswith("0x")


@needs_root
def test_a_perf_map_is_believed_if_it_is_the_processes_users(jit, report_json):
    """H8: root believed everybody's."""
    recording, path = jit
    assert hot_function(report_json(recording, "sites")) == "LazyCompile:*hot /srv/app.js:7:3"
    os.chown(path, STRANGER, STRANGER)
    assert hot_function(report_json(recording, "sites")).startswith("0x")


@pytest.fixture
def public():
    """A folder that every user can look into."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_stranger(*argv):
    return ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", *argv]


@needs_root
def test_a_perf_map_of_another_users_process_is_believed(public, record, report_json):
    """H8: what root records of others has their names."""
    done = record(as_stranger(compile_c(public, "jit", JIT), "map"))
    rows = report_json(done.path, "sites")
    (site,) = [s for s in rows["sites"] if s["stack"][0]["function"] == "LazyCompile:*hot /srv/app.js:7:3"]
    path = pathlib.Path(f"/tmp/perf-{site['process']}.map")
    assert path.stat().st_uid == STRANGER
    path.unlink()


def test_pipes_in_place_of_other_files_are_passed_over_or_refused(scratch, heapgauge, clean_env, record, target):
    """H8: settings of the folder, sources, recordings, suppressions. A pipe that the user names as a file of budgets is read."""
    done = record([compile_c(scratch, "jit", JIT)])
    pipe_instead(scratch / ".heapgauge.ini")
    pipe_instead(scratch / "jit.c")
    pipe = pipe_instead(scratch / "pipe")

    def answer(*argv):
        return subprocess.run([heapgauge, *argv], cwd=scratch, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)

    assert answer("report", done.path).returncode == 0
    assert answer("bundle", done.path, "--sources", "3").returncode == 0
    for argv in (["report", pipe], ["post-mortem", pipe], ["report", done.path, "--suppressions", pipe], ["merge", pipe, done.path],
                 ["diff", pipe, done.path], ["check", pipe, "--max-peak", "1GiB"]):
        refused = answer(*argv)
        assert refused.returncode not in (0, -11), argv
    budgets = ["bash", "-c", 'exec "$0" check "$1" --budgets <(echo max-peak = 1GiB)', heapgauge, done.path]
    kept = subprocess.run(budgets, cwd=scratch, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert kept.returncode == 0, kept.stderr


# ---- H9: names that are kept ----

NAMED = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) void NAME(void) { kept = malloc(4321); }
int main(void) { NAME(); return 0; }
"""


def owner_of(rows):
    (site,) = [s for s in rows["sites"] if s["sizes"][0]["low"] == 4321]
    return site["stack"][0]["function"]


@pytest.mark.parametrize("stripped", [False, True], ids=["debug-information-inside", "separate-debug-file"])
def test_a_file_that_claims_anothers_build_id_does_not_name_it(stripped, scratch, record, report_json):
    """H9: a crafted recording leads to a file with the build-id of another; later reports have the right names all the same."""
    recordings = {}
    for name in ("helper", "hostile"):
        folder = scratch / name
        folder.mkdir()
        program = compile_c(folder, "program", NAMED, f"-DNAME={name}", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567")
        recordings[name] = record([program]).path
        if stripped:
            run("objcopy", "--only-keep-debug", program, folder / "program.debug")
            run("strip", "-g", program)
            run("objcopy", f"--add-gnu-debuglink={folder / 'program.debug'}", program)
    if stripped:  # the very program, with other debug information beside it
        shutil.copy(scratch / "helper" / "program", scratch / "hostile" / "program")
    for name in ("hostile", "helper", "hostile"):
        assert owner_of(report_json(recordings[name], "sites")) == name

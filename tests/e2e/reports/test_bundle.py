# SPDX-License-Identifier: Apache-2.0
"""Recordings that bring their names along: the same report where neither program nor debug information is."""

import pathlib
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS
from test_names import JIT, SOURCES, build_scenes, check_golden, compile_c, is_place, of_program, run


def bundle(heapgauge, clean_env, *argv):
    return subprocess.run([str(heapgauge), "bundle", *map(str, argv)], env=clean_env, capture_output=True, text=True,
                          timeout=WAIT_SECONDS)


@pytest.fixture
def elsewhere(scratch):
    """Makes this machine another one: no program, no debug information, nothing kept."""

    def move(program, clean_env):
        program.unlink()
        for path in [*scratch.glob("*.dwo"), *scratch.glob("*.o")]:
            path.unlink()
        shutil.rmtree(clean_env["XDG_CACHE_HOME"])

    return move


@pytest.mark.parametrize("compiler, flags", [("g++", ["-O2"]), ("clang++", ["-O2", "-gsplit-dwarf"])])
def test_a_bundled_recording_is_read_anywhere(compiler, flags, heapgauge, clean_env, scratch, record, report_json, elsewhere):
    program = build_scenes(scratch, compiler, *flags)
    done = record([program])
    here = {style: report_json(done.path, "sites", "--names", style) for style in ("full", "short", "raw")}
    made = bundle(heapgauge, clean_env, done.path)
    assert made.returncode == 0, made.stderr
    assert "frames are named in" in made.stderr
    elsewhere(program, clean_env)
    for style, expected in here.items():
        there = report_json(done.path, "sites", "--names", style, "--no-cache")
        assert [s["stack"] for s in there["sites"]] == [s["stack"] for s in expected["sites"]]
    check_golden(report_json(done.path, "sites"))
    # Still nothing is looked up if that is wanted.
    assert all(is_place(f, program) for f in of_program(report_json(done.path, "sites", "--no-symbols"), program))


def test_the_recording_itself_may_stay_as_it_is(heapgauge, clean_env, scratch, record, report_json):
    program = build_scenes(scratch, "g++", "-O2")
    done = record([program])
    before = done.path.read_bytes()
    other = scratch / "other.hg"
    assert bundle(heapgauge, clean_env, done.path, "-o", other).returncode == 0
    assert done.path.read_bytes() == before
    assert other.stat().st_size > len(before)
    # A second time nothing changes: names that came along are as good as any.
    program.unlink()
    first = other.read_bytes()
    assert bundle(heapgauge, clean_env, other, "--no-cache").returncode == 0
    assert other.read_bytes() == first


def test_numbers_are_what_they_were(heapgauge, clean_env, target, record, report_json):
    done = record([target("t_threads_cross_free")])
    views = {view: report_json(done.path, view) for view in ("summary", "sites", "threads", "sizes")}
    assert bundle(heapgauge, clean_env, done.path).returncode == 0
    for view, before in views.items():
        assert report_json(done.path, view) == before, view


def test_source_is_taken_only_if_wanted(heapgauge, clean_env, scratch, record):
    """Looked for in the unpacked file: a line of the source that is near an allocation, and one that is not."""
    program = build_scenes(scratch, "g++", "-O2")
    done = record([program])
    near, far = b"lambdas(); // @1002.4 main", b"// Stacks whose functions and lines are known."
    for argv, found in (([], False), (["--sources", "2"], True)):
        made = bundle(heapgauge, clean_env, done.path, *argv, "--source-folder", SOURCES, "-o", scratch / "out.hg")
        assert made.returncode == 0, made.stderr
        assert ("lines of source" in made.stderr) == found
        unpacked = unpack((scratch / "out.hg").read_bytes())
        assert (near in unpacked) == found
        assert far not in unpacked


def unpack(data):
    """All payloads of a recording, one behind the other."""
    at, out = 40, b""
    while at < len(data):
        flags = int.from_bytes(data[at + 2 : at + 4], "little")
        size = int.from_bytes(data[at + 8 : at + 16], "little")
        payload = data[at + 40 : at + 40 + size]
        if flags & 1:
            payload = subprocess.run(["zstd", "-dc"], input=payload, capture_output=True, check=True).stdout
        out += payload
        at += 40 + size
    return out


def test_code_of_a_runtime_keeps_its_name(heapgauge, clean_env, scratch, record, report_json):
    program = compile_c(scratch, "jit", JIT)
    done = record([program, "map"])
    (site,) = [s for s in report_json(done.path, "sites")["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    path = pathlib.Path(f"/tmp/perf-{site['pid']}.map")
    try:
        assert bundle(heapgauge, clean_env, done.path).returncode == 0
    finally:
        path.unlink()
    (site,) = [s for s in report_json(done.path, "sites")["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    assert site["stack"][0]["function"] == "LazyCompile:*hot /srv/app.js:7:3"
    assert site["stack"][0]["module"] == "[jit]"


def test_what_is_not_whole_is_refused(heapgauge, clean_env, target, scratch, record):
    done = record([target("t_sizes")])
    whole = done.path.read_bytes()
    cut = scratch / "cut.hg"
    cut.write_bytes(whole[:-20])
    made = bundle(heapgauge, clean_env, cut)
    assert made.returncode == 1
    assert "damaged or was not finished" in made.stderr
    assert cut.read_bytes() == whole[:-20]
    made = bundle(heapgauge, clean_env, scratch / "none.hg")
    assert made.returncode == 1 and "none.hg" in made.stderr
    made = bundle(heapgauge, clean_env, done.path, "-o", "/proc/no/such/file.hg")
    assert made.returncode == 1
    assert done.path.read_bytes() == whole
    assert "bundle" in run(heapgauge, "--help")

# SPDX-License-Identifier: Apache-2.0
"""libheapgauge.a and -lheapgauge: programs that record themselves, with nothing preloaded, whatever linked them."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, losses
from tracing import probes_of

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src"
TEXT = """
#include <stdlib.h>
#include <string.h>
static void *volatile kept[100];
__attribute__((noinline)) static void work(void)
{
    for (int i = 0; i < 100; i++)
        kept[i] = malloc(1000 + i);
    for (int i = 0; i < 50; i++)
        free(kept[i]);
}
int main(void)
{
    work();
    return kept[99] == NULL;
}
"""
TEXT_CXX = """
#include <string>
#include <vector>
static std::vector<std::string> *kept;
__attribute__((noinline)) static void work()
{
    kept = new std::vector<std::string>();
    kept->reserve(10);
    for (int i = 0; i < 10; i++)
        kept->emplace_back(100, 'x');
}
int main()
{
    work();
    return kept->size() != 10;
}
"""
# Calls malloc itself nowhere: only libc does.
TEXT_QUIET = """
#include <stdio.h>
#include <string.h>
static char *volatile kept;
int main(void)
{
    kept = strdup("twelve bytes");
    return kept == NULL;
}
"""
MODES = {
    "plain": [],
    "no-pie": ["-no-pie"],
    "gc-sections": ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
    "lto": ["-flto", "-O2"],
    "gc-sections and lto": ["-flto", "-O2", "-Wl,--gc-sections"],
}


@pytest.fixture
def linked(build):
    """What the documents tell to add to the command line that links."""
    archive = build / "libheapgauge.a"
    assert archive.exists()
    return ["-Wl,-u,heapgauge_linked", str(archive)]


def link(folder, compiler, text, *flags):
    source = folder / ("program.cc" if compiler.endswith("++") else "program.c")
    source.write_text(text)
    program = folder / "program"
    subprocess.run([compiler, "-g", "-O1", "-w", source, *flags, "-o", program], check=True, timeout=WAIT_SECONDS)
    return program


@pytest.fixture
def run_alone(scratch, clean_env):
    """Runs a program by itself; the file of its profile."""
    folder = pathlib.Path("/dev/shm") / f"heapgauge-{os.getpid()}-{scratch.name}"
    folder.mkdir()

    def run(program):
        done = subprocess.run(
            [program],
            env=clean_env | {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        (live,) = folder.glob("*.live")
        return live

    yield run
    shutil.rmtree(folder)


def check_work(report_json, live):
    (work,) = (s for s in report_json(live, "sites", "--kind", "heap")["sites"] if s["stack"][0]["function"] == "work")
    assert (work["calls"], work["total_bytes"], work["frees"]) == (100, 104950, 50)
    assert (work["not_freed_blocks"], work["not_freed_bytes"]) == (50, 53725)
    assert [frame["function"] for frame in work["stack"]][:2] == ["work", "main"]
    process = report_json(live)["processes"][0]
    assert not losses(process)
    assert process["allocator"] == "glibc"


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_linked_program_records_itself(scratch, linked, run_alone, report_json, compiler, linker):
    if not shutil.which(compiler) or not shutil.which("mold" if linker == "mold" else f"ld.{linker}"):
        pytest.skip(f"no {compiler} or {linker}")
    tried = 0
    for mode, flags in MODES.items():
        if compiler == "gcc" and linker == "lld" and "-flto" in flags:
            continue  # lld does not know gcc's objects, with or without us
        folder = scratch / mode
        folder.mkdir()
        program = link(folder, compiler, TEXT, *flags, f"-fuse-ld={linker}", *linked)
        live = run_alone(program)
        check_work(report_json, live)
        live.unlink()
        tried += 1
    assert tried >= 3


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_a_program_may_have_probes_too(scratch, linked, linker):
    """Their notes and ours refer to one .stapsdt.base, by which a tracer computes where the probes are."""
    if not shutil.which("mold" if linker == "mold" else f"ld.{linker}"):
        pytest.skip(f"no {linker}")
    own = '#include "recorder/arch/probe.h"\nPROBE_SEMAPHORE(own, probe);\n' + TEXT.replace("work();", "long n = 1; work(); PROBE_1(own, probe, n);")
    program = link(scratch, "gcc", own, f"-I{SOURCES}", f"-fuse-ld={linker}", *linked)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    (base,) = re.findall(r"\.stapsdt\.base\s+PROGBITS\s+(\w+) \w+ 000001 ", sections)
    probes = probes_of(program)
    assert probes.keys() == {"probe", "alloc", "free"}
    assert {probe.base for probe in probes.values()} == {int(base, 16)}
    assert len({probe.semaphore for probe in probes.values()} - {0}) == 3


@pytest.mark.parametrize("flags", [[], ["-static-libstdc++", "-static-libgcc"], ["-flto"]], ids=" ".join)
def test_operators_of_cxx_are_counted_once(scratch, linked, run_alone, report_json, flags):
    live = run_alone(link(scratch, "g++", TEXT_CXX, *flags, *linked))
    process = report_json(live)["processes"][0]
    sites = report_json(live, "sites", "--kind", "heap", "--focus", "^work")["sites"]
    assert sum(s["calls"] for s in sites) == 12
    assert sum(s["total_bytes"] for s in sites) == 24 + 10 * 32 + 10 * 101
    assert not losses(process)


def test_a_program_that_calls_no_malloc_itself(scratch, linked, run_alone, report_json):
    live = run_alone(link(scratch, "gcc", TEXT_QUIET, *linked))
    sites = report_json(live, "sites", "--kind", "heap", "--focus", "strdup")["sites"]
    assert [(s["calls"], s["total_bytes"]) for s in sites] == [(1, 13)]


def test_linked_as_a_shared_library(scratch, build, run_alone, report_json):
    shared = ["-Wl,--no-as-needed", f"-L{build}", "-lheapgauge", f"-Wl,-rpath,{build}"]
    # libheapgauge.so is what -l finds first.
    check_work(report_json, run_alone(link(scratch, "gcc", TEXT, *shared)))


def test_under_record_the_preloaded_recorder_does_the_work(scratch, linked, record, report_json):
    run = record([link(scratch, "gcc", TEXT, *linked)])
    assert (run.returncode, run.stderr) == (0, "")
    (process,) = report_json(run.path)["processes"]
    assert process["allocator"] == "glibc"
    check_work(report_json, run.path)


def test_the_api_reaches_the_recorder_that_works(scratch, linked, record, run_alone, report_json):
    include = pathlib.Path(__file__).resolve().parents[3] / "include"
    text = TEXT.replace("int main(void)\n{", 'int main(void)\n{\n    HG_SCOPE("linked");')
    program = link(scratch, "gcc", "#include <heapgauge/heapgauge.h>\n" + text, f"-I{include}", *linked)
    for recorded in (run_alone(program), record([program]).path):
        (tag,) = report_json(recorded, "tags", "--kind", "heap", "--tag", "linked")["tags"]
        assert (tag["tag"], tag["calls"]) == ("linked", 100)


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_a_static_program_says_why_it_cannot(scratch, linked, clean_env, flag):
    program = link(scratch, "gcc", TEXT, flag, *linked)
    done = subprocess.run([program], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 127
    assert done.stdout == ""
    assert "linked statically" in done.stderr and len(done.stderr.splitlines()) == 1

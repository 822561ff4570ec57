# SPDX-License-Identifier: Apache-2.0
"""Every allocator, however it is linked, in C, C++ and Rust: what is recorded is what the program counted, or reports say what was not seen.

The short form takes what Debian's packages have. HEAPGAUGE_LONG=1: all of it, with the allocators of crates (builds.py)."""

import os
import re
import subprocess

import pytest

from builds import CRATES, PREFIXES, Builds
from compiled import losses

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ALLOCATORS = ["glibc", "jemalloc-5.2.1", "jemalloc-5.3.0", "jemalloc-5.3.1", "gperftools", "mimalloc", "snmalloc"]
LINKED = ["shared", "preloaded", "static", "prefixed", "stripped"]
LANGUAGES = ["c", "c++", "rust"]
HOOKS = {"jemalloc-5.2.1", "jemalloc-5.3.0", "jemalloc-5.3.1", "gperftools"}
# What a report calls it.
TITLES = {"gperftools": "tcmalloc"}

# Combinations that do not exist.
ABSENT = {
    ("glibc", "preloaded"): "it is there without",
    ("glibc", "prefixed"): "it has no names with a prefix",
}
ABSENT_IN = {
    ("gperftools", "prefixed", "rust"): "no crate has it under its own names",
}
# In the short form: what a package has, and of C++ and Rust what differs from C.
SHORT = [("glibc", how) for how in LINKED] + [(a, how) for a in ("jemalloc-5.3.0", "gperftools") for how in ("shared", "static", "stripped")]
SHORT += [("gperftools", "prefixed"), ("mimalloc", "shared")]
CELLS = [
    (allocator, how, language)
    for allocator in ALLOCATORS
    for how in LINKED
    for language in LANGUAGES
    if LONG or ((allocator, how) in SHORT and (language == "c" or (language == "c++" and how == "static")))
]


def title(allocator):
    return TITLES.get(allocator, allocator.partition("-")[0])


@pytest.fixture(scope="session")
def builds(build):
    return Builds(build / "allocators")


def make(builds, allocator, how, language):
    """(the program, its environment)"""
    name = f"{allocator}-{how}-{language}"
    rest = ["-lstdc++", "-lpthread", "-ldl", "-lm"]
    if how == "preloaded":
        return builds.program(f"bare-{language}", language, []), {"LD_PRELOAD": str(builds.shared(allocator))}
    if allocator == "glibc":
        static = ["-Ctarget-feature=+crt-static"] if language == "rust" else ["-static"]
        flags = [] if how == "shared" else static + (["-s"] if how == "stripped" and language != "rust" else [])
        return builds.program(name, language, [], *flags), {}
    if how == "shared":
        library = builds.shared(allocator)
        return builds.program(name, language, ["-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}"]), {}
    if language == "rust" and allocator in CRATES and (how == "prefixed" or allocator != "snmalloc"):
        program, _ = builds.crate(allocator, prefixed=how == "prefixed")
    elif how == "prefixed":
        program = builds.program(name, language, [builds.archive(allocator, prefixed=True), *rest], f"-DPREFIX={PREFIXES[allocator]}")
    else:
        # Nothing else takes malloc from the archive if only operators call it.
        program = builds.program(f"{allocator}-static-{language}", language, ["-Wl,-u,malloc", builds.archive(allocator, prefixed=False), *rest])
    if how == "stripped":
        stripped = builds.make(name, str(program), lambda path: subprocess.run(["strip", "-s", program, "-o", path / "program"], check=True))
        return stripped / "program", {}
    return program, {}


def numbers(text):
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)\b", re.search(r"^TRUTH .*$", text, re.M).group())}


def totals(sites):
    """Of the program's own functions."""
    own = [s for s in sites if any((f["function"] or "").startswith("work") for f in s["stack"]) and s["kind"] == "heap"]
    found = {key: sum(s[column] for s in own) for key, column in (("calls", "calls"), ("bytes", "total_bytes"), ("frees", "frees"))}
    return found | {"reallocs": sum(s["realloc"]["calls"] for s in own)}


def check_recorded(done, allocator, how, language, report_json):
    truth = numbers(done.stdout)
    rounded = truth.pop("rounded", 0)
    if allocator == "gperftools" and how in ("static", "prefixed"):
        truth["bytes"] += rounded  # its hooks are told the size that was rounded up to the alignment
    [process] = report_json(done.path)["processes"]
    assert losses(process) == {} and report_json(done.path)["warnings"] == {}
    assert process["allocator"].endswith(" (hooks)") == (how in ("static", "prefixed"))
    if language != "rust" and how != "stripped":
        assert totals(report_json(done.path, "sites")["sites"]) == truth
    # Threads, runtimes and stdio allocate a little more; Rust's println! its buffer after the count.
    assert truth["calls"] <= process["calls"] <= truth["calls"] + 60
    assert truth["bytes"] <= process["total_bytes"] <= truth["bytes"] + 100_000
    assert truth["frees"] <= process["frees"] <= truth["frees"] + 60


def check_said(done, allocator, report_json):
    truth = numbers(done.stdout)
    [process] = report_json(done.path)["processes"]
    assert process["calls"] < truth["calls"] / 2
    notes = [n["meaning"] for n in report_json(done.path, "health")["health"] if n["name"] in ("unrecorded_allocators", "unexplained_memory")]
    assert any(title(allocator) in text for text in notes), notes


@pytest.mark.parametrize("allocator, how, language", CELLS, ids=["-".join(cell) for cell in CELLS])
def test_what_is_recorded_is_what_the_program_counted_or_a_report_says_so(allocator, how, language, builds, record, report_json):
    absent = ABSENT.get((allocator, how)) or ABSENT_IN.get((allocator, how, language))
    if absent:
        pytest.skip(f"does not exist: {absent}")
    program, env = make(builds, allocator, how, language)
    seen = how in ("shared", "preloaded") or (allocator in HOOKS and how != "stripped")
    done = record([program] if seen else [program, "hold"], env=env)
    if allocator == "glibc" and not seen:
        assert done.returncode != 0 and "statically linked" in done.stderr and "TRUTH" not in done.stdout
        return
    assert done.returncode == 0, done.stderr
    if seen:
        check_recorded(done, allocator, how, language, report_json)
    else:
        check_said(done, allocator, report_json)

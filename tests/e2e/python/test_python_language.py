# SPDX-License-Identifier: Apache-2.0
"""The language of who allocates, as axis and filter: a Python program that calls C and C++."""

import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from test_python_stacks import interpreters

C = "#include <stdlib.h>\nvoid *keep_c(void) { void *p = malloc(300001); ((volatile char *)p)[0] = 1; return p; }\n"
CXX = """
#include <cstdlib>
namespace deep { __attribute__((noinline)) char *keep(int bytes) { auto *p = new char[bytes]; ((volatile char *)p)[0] = 1; return p; } }
extern "C" void *keep_cxx() { return deep::keep(500001); }
"""
SCRIPT = """
import ctypes
import sys

for library, function in zip(sys.argv[1::2], sys.argv[2::2]):
    ctypes.CDLL(library)[function]()
KEPT = bytearray(700_001)
"""
SIZES = {"c": 300_001, "c++": 500_001, "python": 700_002}


@pytest.fixture
def recording(scratch, record):
    c = compile_c(scratch, "in_c.so", C, "-shared", "-fPIC")
    (scratch / "in_cxx.cc").write_text(CXX)
    cxx = scratch / "in_cxx.so"
    subprocess.run(["g++", "-g", "-O1", "-shared", "-fPIC", scratch / "in_cxx.cc", "-o", cxx], check=True, timeout=WAIT_SECONDS)
    (scratch / "app.py").write_text(SCRIPT)
    run = record([next(iter(interpreters().values())), "app.py", c, "keep_c", cxx, "keep_cxx"])
    assert run.returncode == 0, run.stderr
    return run.path


def test_groups_add_up_to_all(recording, report_json):
    every = report_json(recording, "sites", "--kind", "heap", "--limit", "1000000")["sites"]
    groups = report_json(recording, "functions", "--by", "language", "--cost", "total")["languages"]
    found = {group["language"]: group for group in groups}
    assert {"c", "c++", "python"} <= set(found) <= {"c", "c++", "python", "(not known)"}
    assert sum(group["total_bytes"] for group in groups) == sum(site["total_bytes"] for site in every)
    assert all(found[language]["total_bytes"] >= size for language, size in SIZES.items())


@pytest.mark.parametrize("language", [*SIZES, "unknown", "rust"])
def test_a_filter_keeps_what_the_group_has(language, recording, report_json, heapgauge, clean_env):
    groups = report_json(recording, "functions", "--by", "language", "--cost", "total")["languages"]
    group = [g for g in groups if g["language"] == {"unknown": "(not known)"}.get(language, language)]
    if not group:
        argv = [heapgauge, "report", recording, "--language", language]
        done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode != 0 and language in ("rust", "unknown")
        return
    sites = report_json(recording, "sites", "--kind", "heap", "--limit", "1000000", "--language", language)["sites"]
    assert sum(site["total_bytes"] for site in sites) == group[0]["total_bytes"]
    assert [site["calls"] for site in sites if site["total_bytes"] == SIZES.get(language)] in ([1], [])


def test_every_frame_says_its_language(recording, report_json):
    (site,) = report_json(recording, "sites", "--kind", "heap", "--min-size", "500001", "--max-size", "500001")["sites"]
    languages = {frame["function"]: frame["language"] for frame in site["stack"]}
    assert languages["deep::keep(int)"] == languages["keep_cxx"] == "c++" and languages["<module>"] == "python"
    names = report_json(recording, "flame", "--focus", "keep_c")["names"]
    assert {("keep_c", "c"), ("<module>", "python"), ("keep_cxx", "c++")} <= {(name["function"], name["language"]) for name in names}


def test_a_word_that_is_no_language_is_refused(recording, heapgauge, clean_env):
    argv = [heapgauge, "report", recording, "--language", "pyton"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 2 and "--language does not take 'pyton'; did you mean 'python'?" in done.stderr

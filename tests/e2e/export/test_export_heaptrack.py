# SPDX-License-Identifier: Apache-2.0
"""heaptrack's format, read by heaptrack_print."""

import collections
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from exports import output_of, safe, scene, tool  # noqa: F401

UNITS = {"B": 1, "K": 1000, "M": 1000**2}


def heaptrack_print(path, *options):
    program = tool("heaptrack_print", "apt install heaptrack")
    return output_of(program, "--shorten-templates=false", "--disable-builtin-suppressions", *options, "--file", path)


def flames(path, cost):
    """(stack from the outermost function, number), as heaptrack writes them for a flame graph."""
    out = path.with_suffix(f".{cost}")
    heaptrack_print(path, "--merge-backtraces=false", "--flamegraph-cost-type", cost, "--print-flamegraph", out)
    found = collections.Counter()
    for line in out.read_text().splitlines():
        stack, _, value = line.rpartition("; ")
        if int(value):
            found[stack] += int(value)
    return found


def near(text, value):
    """heaptrack rounds what it prints to two digits behind the point."""
    shown, unit = re.fullmatch(r"([\d.]+)([BKM])", text).groups()
    return abs(float(shown) * UNITS[unit] - value) <= 0.006 * UNITS[unit]


@pytest.mark.parametrize("name", ["plain", "tree", "odd", "bare"])
def test_heaptrack_has_the_peak_and_the_leaks(scene, name):
    it = scene(name)
    path = it.export("heaptrack")
    peak, leaked = it.whole("--cost", "peak"), it.whole("--cost", "leaked")
    text = heaptrack_print(path)
    assert near(re.search(r"peak heap memory consumption: (\S+)", text)[1], peak)
    assert near(re.search(r"total memory leaked: (\S+)", text)[1], leaked)
    assert sum(flames(path, "peak").values()) == peak
    assert sum(flames(path, "leaked").values()) == leaked


@pytest.mark.parametrize("cost", ["peak", "leaked"])
def test_heaptrack_has_every_stack_with_its_bytes(scene, cost):
    it = scene("plain")
    expected = collections.Counter()
    for site in it.sites():
        value = site[{"peak": "peak_bytes", "leaked": "not_freed_bytes"}[cost]]
        if value:
            # heaptrack's flame graphs begin with main, put the file behind each function, and a function before those
            # that it is inlined into.
            inlined = [f for f in site["stack"] if f["inlined"]]
            if not inlined:
                stack = [
                    safe(f["function"]) + (f' ({f["file"].rpartition("/")[2]})' if f["file"] else "")
                    for f in site["stack"][::-1]
                ]
                begins = [i for i, name in enumerate(stack) if name.startswith("main (")]
                expected[";".join(stack[begins[0] if begins else 0 :])] += value
    found = flames(it.export("heaptrack"), cost)
    assert {stack: found[stack] for stack in expected} == expected and len(expected) >= 4


def test_heaptrack_tells_inlined_functions_as_its_own_recordings_do(scene):
    text = heaptrack_print(scene("plain").export("heaptrack"), "--print-leaks")
    assert re.search(
        r"2.00K leaked over 1 calls from:\n"
        r" +shop::\(anonymous namespace\)::inlined_take(?:\(unsigned long\))?\n +at \S+exported.cc:\d+\n +in \S+\n"
        r" +shop::\(anonymous namespace\)::through_inlined\(\)\n +at \S+exported.cc:\d+\n"
        r" +main\n",
        text,
    )


def test_heaptrack_says_what_it_does_not_carry(heapgauge, scene):
    it = scene("plain")
    argv = [heapgauge, "export", it.path, "--format", "heaptrack", "-o", "/dev/null"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert "the peak and memory not freed are preserved, calls in between are not" in done.stderr


def test_heaptrack_of_nothing_is_read(scene):
    text = heaptrack_print(scene("empty").export("heaptrack"))
    assert "peak heap memory consumption: 0B" in text and "total memory leaked: 0B" in text

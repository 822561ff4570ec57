# SPDX-License-Identifier: Apache-2.0
"""Files for valgrind's readers, read by ms_print and by dh_view.html in a browser."""

import collections
import json
import re

import pytest

from exports import LONG, browser, output_of, safe, scene, tool  # noqa: F401

NODE = re.compile(r"^([| ]*)->[\d.]+% \(([\d,]+)B\) (.*)$")


def number(text):
    return int(text.replace(",", ""))


def ms_print(path):
    """The snapshots as (n, time, bytes), the root's bytes, and the tree as (depth, bytes, what)."""
    text = output_of(tool("ms_print", "apt install valgrind"), "--threshold=0", path)
    snapshots = [
        tuple(map(number, row.split()[:3])) for row in re.findall(r"^ *\d+(?: +[\d,]+){5}$", text, re.MULTILINE)
    ]
    root = re.search(r"^100\.00% \(([\d,]+)B\) \(heap allocation functions\)", text, re.MULTILINE)
    tree = [(len(m[1]) // 2, number(m[2]), m[3]) for m in map(NODE.match, text.splitlines()) if m]
    peak = re.search(r"Detailed snapshots: \[(\d+) \(peak\)\]", text)
    return snapshots, number(root[1]) if root else None, tree, int(peak[1])


def described(frame):
    """A frame as massif and DHAT have it, without the address."""
    name = frame["function"]
    if frame["file"] and frame["line"]:
        return f'{name} ({frame["file"].rpartition("/")[2]}:{frame["line"]})'
    return f'{name} (in {frame["module"]})'


@pytest.mark.parametrize("name", ["plain", "odd", "bare"])
def test_ms_print_shows_the_peak_and_every_stack_of_it(scene, name):
    it = scene(name)
    snapshots, root, tree, peak = ms_print(it.export("massif", "--threshold", "0"))
    process = it.report("summary")["processes"][0]
    assert root == process["peak_bytes"]
    assert [s[2] for s in snapshots if s[0] == peak] == [process["peak_bytes"]]
    assert snapshots[-1][2] == process["not_freed_bytes"]
    assert [s[0] for s in snapshots] == list(range(len(snapshots)))
    assert [s[1] for s in snapshots] == sorted(s[1] for s in snapshots)

    path, found = [], collections.Counter()
    for i, (depth, size, what) in enumerate(tree):
        path[depth:] = [what.split(": ", 1)[1]]
        if i + 1 == len(tree) or tree[i + 1][0] <= depth:
            found[tuple(path)] += size
    expected = collections.Counter()
    for site in it.sites("--cost", "peak"):
        if site["peak_bytes"]:
            # A # begins a comment there.
            stack = tuple(safe(described(frame)).replace("#", "'") for frame in site["stack"])
            expected[stack] += site["peak_bytes"]
    assert found == expected


def test_ms_print_shows_the_heaviest_first_and_sums_up_the_rest(scene):
    it = scene("plain")
    _, root, tree, _ = ms_print(it.export("massif", "--threshold", "5"))
    top = [size for depth, size, _ in tree if depth == 0]
    assert sum(top) == root and top[:-1] == sorted(top[:-1], reverse=True)
    below = [t for t in tree if "below massif's threshold (5.00%)" in t[2]]
    functions = it.functions("--cost", "peak")
    small = [own for own, _ in functions.values() if 0 < own < 0.05 * root]
    assert (0, sum(small), f"in {len(small)} places, all below massif's threshold (5.00%)") in below


def test_massif_of_several_processes_is_of_the_one_with_the_highest_peak(scene):
    it = scene("tree")
    processes = it.report("summary")["processes"]
    _, root, _, _ = ms_print(it.export("massif"))
    assert root == max(p["peak_bytes"] for p in processes)
    for process in processes:
        _, root, _, _ = ms_print(it.export("massif", "--process", str(process["pid"])))
        assert root == process["peak_bytes"]


def test_massif_of_nothing_is_read(scene):
    snapshots, root, tree, _ = ms_print(scene("empty").export("massif"))
    assert all(s[2] == 0 for s in snapshots) and root is None and tree == []


def dhat_root(text):
    """{"Total": (bytes, blocks), "At t-gmax": ..., "At t-end": ...} of the root."""
    return {
        key: (number(size), number(blocks))
        for key, size, blocks in re.findall(r"^ *(Total|At t-gmax|At t-end): +([\d,]+) bytes.*? in ([\d,]+) blocks", text, re.M)[:3]
    }


def dhat_leaves(text):
    """Of every stack: [total bytes, blocks, at the peak, at the end], by its frames, innermost first."""
    found = collections.Counter()
    for block in re.split(r"PP [\d./]+(?: \(\d+ children\))? \{\n", text)[1:]:
        frames = re.findall(r"^[│ ├└─▼▶]*[#^](\d+): (.*)$", block.split("}\n")[0], re.MULTILINE)
        total, peak, end = (
            (number(size), number(blocks))
            for size, blocks in re.findall(r"(?:Total|At t-gmax|At t-end): +([\d,]+) bytes.*? in ([\d,]+) blocks", block)[:3]
        )
        # Only a leaf has a "Max" line.
        if "Max: " in block:
            stack = tuple(re.sub(r"^0x[0-9A-F]+: ", "", what) for n, what in frames if n != "0")
            found[(stack, *total, *peak, *end)] += 1
    return found


def site_key(sites):
    expected = collections.defaultdict(lambda: [0] * 6)
    for site in sites:
        stack = tuple(safe(described(frame)) for frame in site["stack"])
        numbers = ("total_bytes", "calls", "peak_bytes", "peak_blocks", "not_freed_bytes", "not_freed_blocks")
        if site["calls"]:
            expected[stack] = [a + site[b] for a, b in zip(expected[stack], numbers)]
    return expected


def test_dh_view_shows_every_stack_with_the_reports_numbers(scene):
    names = ["plain", "tree", "odd", "bare"]
    its = [scene(name) for name in names]
    texts = browser("dhat", *(it.export("dhat") for it in its))
    for it, text in zip(its, texts):
        sums = {
            "Total": (it.whole("--cost", "total"), it.whole("--cost", "calls")),
            "At t-gmax": (it.whole("--cost", "peak"), it.whole("--cost", "blocks", "--at", "peak")),
            "At t-end": (it.whole("--cost", "leaked"), it.whole("--cost", "blocks")),
        }
        assert dhat_root(text) == sums
        assert f'Command: {it.report("summary")["run"]["command"]}' in text
    # The page folds stacks that are small: all of them are significant in the last two.
    for it, text in list(zip(its, texts))[2:]:
        expected = {(stack, *row): 1 for stack, row in site_key(it.sites()).items()}
        assert dhat_leaves(text) == expected


def test_dhat_of_heap_and_mappings_and_of_nothing_is_read(scene):
    it = scene("plain")
    both, nothing = browser("dhat", it.export("dhat", "--kind", "all"), scene("empty").export("dhat"))
    assert dhat_root(both)["Total"] == (it.whole("--kind", "all", "--cost", "total"), it.whole("--kind", "all", "--cost", "calls"))
    assert "Command: " in nothing


def test_dhat_has_each_stack_once_and_consistent_numbers(scene):
    it = scene("tree")
    file = json.loads(it.export("dhat", "--kind", "all").read_text())
    stacks = [tuple(point["fs"]) for point in file["pps"]]
    assert len(stacks) == len(set(stacks)) < len(it.sites("--kind", "all"))
    for point in file["pps"]:
        assert point["gb"] <= point["mb"] <= point["tb"] and point["gbk"] <= point["mbk"] <= point["tbk"]
        assert point["mbk"] >= 1 and point["eb"] <= point["mb"]
    run = it.report("summary")
    assert file["te"] == run["run"]["duration_ns"] // 1000 and file["tg"] == run["peak_at_ns"] // 1000


@pytest.mark.skipif(not LONG, reason="loads 150,000 stacks in a browser: HEAPGAUGE_LONG=1")
def test_dh_view_opens_a_large_file(scene):
    it = scene("made 150000")
    (text,) = browser("dhat", it.export("dhat"))
    assert dhat_root(text)["Total"] == (it.whole("--cost", "total"), it.whole("--cost", "calls"))

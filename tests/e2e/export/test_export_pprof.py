# SPDX-License-Identifier: Apache-2.0
"""Profiles for pprof, read by pprof itself."""

import collections
import gzip
import re

import pytest

from compiled import compile_c
from exports import ROOT, output_of, scene, tool  # noqa: F401

TYPES = {"alloc_objects": "calls", "alloc_space": "total", "inuse_objects": "blocks", "inuse_space": "live"}
ALL_NODES = ["-nodefraction=0", "-edgefraction=0", "-nodecount=1000000", "-unit=B"]
QUESTIONS = [
    [],
    ["--at", "peak"],
    ["--kind", "all"],
    ["--focus", "descend|even"],
    ["--ignore", "take", "--at", "peak"],
    ["--min-size", "2000", "--at", "peak"],
]


def pprof(*argv):
    return output_of(tool("pprof", "go install github.com/google/pprof@latest"), *argv)


def number(text):
    """ "1234B" or "56"; pprof writes 0 without a unit."""
    return int(re.fullmatch(r"(-?\d+)B?", text)[1])


def raw(path):
    """Samples as (values, stack of function names, innermost first, labels), and the mappings."""
    text = pprof("-raw", path)
    body, locations = text.split("\nLocations\n")
    locations, mappings = locations.split("\nMappings\n")
    names = {}
    for line in locations.splitlines():
        head = re.match(r" *(\d+): 0x[0-9a-f]+ (?:M=\d+ )?", line)
        if head:
            at = int(head[1])
            line = line[head.end() :]
            names[at] = []
        names[at].append(re.fullmatch(r" *(.*?) \S*:\d+:\d+ s=0\(\)", line)[1])
    samples = []
    lines = body.split("\nSamples:\n")[1].splitlines()
    types = [word.split("/")[0] for word in lines[0].split()]
    for line in lines[1:]:
        values = re.fullmatch(r"((?: *-?\d+)+): ([\d ]*)", line)
        if values:
            stack = [name for at in values[2].split() for name in names[int(at)]]
            samples.append((dict(zip(types, map(int, values[1].split()))), stack, {}))
        else:
            labels = re.findall(r" (\w+):\[(.*?)\](?= |$)", line)
            assert labels, line
            samples[-1][2].update(labels)
    return samples, mappings


def sums(samples):
    total = collections.Counter()
    for values, _, _ in samples:
        total.update(values)
    return {key: total[key] for key in TYPES}


@pytest.mark.parametrize(
    "name, question",
    [("plain", question) for question in QUESTIONS] + [(name, QUESTIONS[1]) for name in ("tree", "odd", "bare")],
    ids=str,
)
def test_pprof_has_every_stack_with_the_reports_numbers(scene, name, question):
    it = scene(name)
    samples, _ = raw(it.export("pprof", *question))
    clean = lambda text: "".join(c if c >= " " else "?" for c in text)
    expected = collections.Counter()
    for site in it.sites(*question):
        stack = tuple(clean(frame["function"]) for frame in site["stack"])
        live = [site["live_blocks"], site["live_bytes"]] if "--at" in question else [site["not_freed_blocks"], site["not_freed_bytes"]]
        expected[(site["calls"], site["total_bytes"], *live, stack)] += 1
    found = collections.Counter((*values.values(), tuple(stack)) for values, stack, _ in samples)
    assert found == expected
    for sample_type, cost in TYPES.items():
        at = question if cost in ("live", "blocks") or "--at" not in question else [w for w in question if w not in ("--at", "peak")]
        assert sums(samples)[sample_type] == it.whole("--cost", cost, *at)


@pytest.mark.parametrize("sample_type, cost", TYPES.items())
@pytest.mark.parametrize("name", ["plain", "tree"])
def test_pprof_top_says_of_each_function_what_the_report_says(scene, name, sample_type, cost):
    it = scene(name)
    path = it.export("pprof", "--cost", cost)
    text = pprof("-top", *ALL_NODES, path)
    expected = it.functions("--cost", cost)
    assert f"Type: {sample_type}\n" in text, "the cost that was asked for is what pprof shows first"
    assert number(re.search(r"Total samples = (\S+)", text)[1]) == it.whole("--cost", cost)
    found = {}
    for line in text.split("cum%\n")[1].splitlines():
        flat, _, _, total, _, function = line.split(None, 5)
        found[function.removesuffix(" (inline)")] = [number(flat), number(total)]
    assert found == {key: both for key, both in expected.items() if both != [0, 0]}
    assert text == pprof("-top", *ALL_NODES, f"-sample_index={sample_type}", it.export("pprof"))


def test_pprof_tree_has_the_edges_of_the_call_graph(scene):
    it = scene("plain")
    text = pprof("-tree", *ALL_NODES, it.export("pprof", "--cost", "total"))
    blocks = [block.splitlines()[:-1] for block in text.split("+-------------\n")[2:]]
    found = collections.Counter()
    for lines in filter(None, blocks):
        middle = next(i for i, line in enumerate(lines) if line[:10].strip())
        callee = lines[middle].split(" | ")[1].strip()
        for line in lines[:middle]:
            value, rest = line.split(None, 1)
            caller = rest.split(" | ")[1].strip().removesuffix(" (inline)")
            found[caller, callee] += number(value)
    expected = collections.Counter()
    for site in it.sites("--cost", "total"):
        stack = [frame["function"] for frame in site["stack"]]
        for caller, callee in set(zip(stack[1:], stack)):
            if caller != callee:  # pprof does not draw those
                expected[caller, callee] += site["total_bytes"]
    assert found == expected
    assert found["main", "shop::(anonymous namespace)::freed_after_peak()"] == 123456


def test_pprof_traces_have_the_stacks(scene):
    it = scene("plain")
    text = pprof("-traces", "-unit=B", it.export("pprof", "--at", "peak"))
    found = collections.Counter()
    for block in re.split(r"-+\+-+\n", text)[1:]:
        lines = block.splitlines()
        if not lines:
            continue
        value, first = lines[0].split(None, 1)
        if value == "0":
            continue
        stack = [line.strip().removesuffix(" (inline)") for line in (first, *lines[1:])]
        found[number(value), tuple(stack)] += 1
    sites = [s for s in it.sites("--cost", "peak") if s["peak_bytes"]]
    assert found == collections.Counter(
        (s["peak_bytes"], tuple(frame["function"] for frame in s["stack"])) for s in sites
    )


def test_pprof_has_the_program_first_and_build_ids(scene):
    it = scene("plain")
    _, mappings = raw(it.export("pprof"))
    first = mappings.splitlines()[0].split()
    assert first[2].endswith("/exported")
    notes = output_of("readelf", "-n", first[2])
    assert f"Build ID: {first[3]}" in notes


LABELLED = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile kept;
static __attribute__((noinline)) void take(size_t n) { kept = malloc(n); }
int main(void) {
    HG_SCOPE("request");
    { HG_LABEL("tenant", "acme"); take(100); { HG_LABEL("phase", "load"); take(20); } }
    { HG_LABEL("tenant", "initech"); take(3000); }
    return 0;
}
"""


def test_labels_of_the_program_are_labels_of_pprof(scratch, record, heapgauge):
    run = record([compile_c(scratch, "labelled", LABELLED, f"-I{ROOT / 'include'}")])
    path = scratch / "labelled.pb.gz"
    output_of(heapgauge, "export", run.path, "--format", "pprof", "-o", path)
    samples, _ = raw(path)
    held = {tuple(sorted(labels.items())): values["inuse_space"] for values, stack, labels in samples if "take" in stack}
    assert held == {
        (("tag", "request/tenant=acme"), ("tenant", "acme")): 100,
        (("phase", "load"), ("tag", "request/tenant=acme/phase=load"), ("tenant", "acme")): 20,
        (("tag", "request/tenant=initech"), ("tenant", "initech")): 3000,
    }
    text = pprof("-top", "-tagfocus=tenant=acme", "-sample_index=inuse_space", *ALL_NODES, path)
    assert "of 120B total" in text or re.search(r"\b120B\b", text)


def test_pprof_of_several_processes_labels_them(scene):
    it = scene("tree")
    samples, _ = raw(it.export("pprof"))
    by_pid = collections.Counter()
    for values, _, labels in samples:
        by_pid[int(labels["pid"])] += values["inuse_space"]
    said = {p["pid"]: p["not_freed_bytes"] for p in it.report("summary")["processes"]}
    assert by_pid == said and len(said) == 2


def test_pprof_takes_a_cost_that_it_does_not_know(scene):
    it = scene("plain")
    text = pprof("-top", *ALL_NODES, it.export("pprof", "--cost", "temporary"))
    assert "Type: temporary_calls\n" in text
    assert re.search(r"Total samples = (\d+)", text)[1] == str(it.whole("--cost", "temporary"))


def test_pprof_shows_a_change_with_its_sign(scene):
    it = scene("plain")
    samples, _ = raw(it.export("pprof", "--at", "end", "--minus", "peak"))
    assert sums(samples)["inuse_space"] == it.whole("--cost", "live", "--at", "end", "--minus", "peak") < 0


def test_pprof_of_a_thread_has_its_calls_alone(scene):
    it = scene("plain")
    thread = str(next(t for t in it.report("threads")["threads"] if t["total_bytes"] == 6500)["tid"])
    samples, _ = raw(it.export("pprof", "--thread", thread, "--at", "end"))
    assert sums(samples)["alloc_space"] == 6500
    assert sums(samples)["inuse_space"] == it.whole("--cost", "leaked", "--thread", thread)
    # It also freed something of another thread's.
    with pytest.raises(AssertionError, match="held at the peak is not known"):
        it.export("pprof", "--thread", thread, "--at", "peak")


def varint(data):
    """The number at the beginning, and the rest."""
    value = 0
    for i, byte in enumerate(data):
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, data[i + 1 :]
    raise AssertionError("truncated")


def packed(data):
    """The numbers of a packed array."""
    numbers = []
    while data:
        value, data = varint(data)
        numbers.append(value)
    return numbers


def message(data):
    """{number: values of that field, each an int or bytes}."""
    found = collections.defaultdict(list)
    data = memoryview(data)
    while data:
        key, data = varint(data)
        value, data = varint(data)
        assert key & 7 in (0, 2)
        if key & 7 == 2:
            value, data = bytes(data[:value]), data[value:]
        found[key >> 3].append(value)
    return found


EMPTY_KEY = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile kept;
int main(void) {
    HG_LABEL("", "nothing");
    HG_LABEL("phase", "load");
    kept = malloc(100);
    return 0;
}
"""
COSTS = ["live", "total", "calls", "blocks", "temporary", "max", "waste", "lifetime", "realloc", "rate"]


def check_for_stores(path):
    """What Pyroscope and Parca reject, though pprof reads it. As its bytes are: pprof itself would number again."""
    profile = message(gzip.decompress(path.read_bytes()))
    strings = [text.decode("utf-8") for text in profile[6]]
    assert strings[0] == "" and all(strings[1:])
    types = [[strings[at] for at in (kind[1][0], kind[2][0])] for kind in map(message, profile[1])]
    assert [unit for _, unit in types[:4]] == ["count", "bytes", "count", "bytes"]
    assert all(re.fullmatch(r"[a-z_]+", name) for name, _ in types)
    period = message(profile[11][0])
    assert [strings[period[1][0]], strings[period[2][0]]] == ["space", "bytes"] and profile[12][0] >= 1
    assert profile[9][0] > 1_700_000_000_000_000_000
    tables = {number: [message(item) for item in profile[number]] for number in (3, 4, 5)}
    for table in tables.values():
        assert [item[1] for item in table] == [[i] for i in range(1, len(table) + 1)]
    for location in tables[4]:
        assert location[2] == [] or 1 <= location[2][0] <= len(tables[3])
        assert location[4] and all(1 <= message(line)[1][0] <= len(tables[5]) for line in location[4])
    keys = set()
    for sample in map(message, profile[2]):
        assert all(1 <= at <= len(tables[4]) for at in packed(sample[1][0]))
        assert len(packed(sample[2][0])) == len(types)
        keys |= {strings[message(label)[1][0]] for label in sample[3]}
    assert "" not in keys
    return keys


@pytest.mark.parametrize("name", ["plain", "tree", "odd", "bare", "rust", "python", "empty"])
def test_pprof_keeps_the_rules_of_stores(scene, name):
    check_for_stores(scene(name).export("pprof"))


@pytest.mark.parametrize("cost", COSTS)
def test_pprof_keeps_the_rules_of_stores_whatever_the_cost(scene, cost):
    check_for_stores(scene("plain").export("pprof", "--cost", cost))


def test_a_label_without_a_key_is_left_out(scratch, record, heapgauge):
    run = record([compile_c(scratch, "empty_key", EMPTY_KEY, f"-I{ROOT / 'include'}")])
    path = scratch / "empty_key.pb.gz"
    output_of(heapgauge, "export", run.path, "--format", "pprof", "-o", path)
    assert check_for_stores(path) == {"tag", "phase"}


def test_pprof_of_nothing_is_a_profile(scene):
    assert "Total samples = 0" in pprof("-top", scene("empty").export("pprof"))

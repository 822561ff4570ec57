# SPDX-License-Identifier: Apache-2.0
"""Flame graphs: speedscope's own page in a browser, and inferno-flamegraph."""

import collections
import json
import re

import pytest

from exports import LONG, ODD_NAMES, browser, output_of, safe, scene, tool  # noqa: F401

PROFILES = {"peak": "peak", "leaked": "not freed at exit", "total": "total", "calls": "calls", "temporary": "temporary"}


def bytes_shown(value):
    """As speedscope writes bytes."""
    for unit in ("B", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} GB"


def count_shown(value):
    return f"{value:,}"


def table(profile):
    """What the sandwich view says: how often it has each (name, own, total)."""
    found = collections.Counter()
    for total, own, name in profile["rows"]:
        if name != "Symbol Name":
            strip = lambda text: re.sub(r" \([<>\d.]+%\)$", "", text)
            found[name, strip(own), strip(total)] += 1
    return found


def functions_of(it, *options):
    """One row for each function of the report that has any of the cost: equal names in two files are two."""
    said = it.report("functions", *options)
    key = {"live": "live_bytes", "total": "total_bytes", "temporary": "temporary_calls"}.get(said["cost"], said["cost"])
    return [(row["function"], row["self"], row[key]) for row in said["functions"] if row[key]]


def test_speedscope_shows_every_function_of_every_question(scene):
    its = [scene(name) for name in ("plain", "tree", "odd", "bare")]
    for it, page in zip(its, browser("speedscope", *(it.export("speedscope") for it in its))):
        assert [p["name"] for p in page["profiles"]] == list(PROFILES.values())
        assert page["shown"] == 1, "what was not freed comes first"
        for cost, profile in zip(PROFILES, page["profiles"]):
            shown = bytes_shown if cost in ("peak", "leaked", "total") else count_shown
            expected = collections.Counter(
                (" ".join(name.split()), shown(own), shown(total)) for name, own, total in functions_of(it, "--cost", cost)
            )
            assert table(profile) == expected


@pytest.mark.parametrize("name", ["plain", "tree", "odd", "bare", "empty"])
def test_speedscope_file_adds_up(scene, name):
    it = scene(name)
    file = json.loads(it.export("speedscope").read_text())
    for cost, profile in zip(PROFILES, file["profiles"], strict=True):
        assert sum(profile["weights"]) == profile["endValue"] == it.whole("--cost", cost)
        assert len(profile["weights"]) == len(profile["samples"])


def test_speedscope_begins_with_what_was_asked_for(scene):
    it = scene("plain")
    for options, index in ([["--cost", "peak"], 0], [["--at", "end"], 1], [["--cost", "calls"], 3]):
        file = json.loads(it.export("speedscope", *options).read_text())
        assert file["activeProfileIndex"] == index and len(file["profiles"]) == 5
    file = json.loads(it.export("speedscope", "--cost", "waste").read_text())
    assert file["profiles"][file["activeProfileIndex"]]["endValue"] == it.whole("--cost", "waste")
    file = json.loads(it.export("speedscope", "--at", "peak", "--minus", "end").read_text())
    asked = file["profiles"][file["activeProfileIndex"]]
    assert asked["endValue"] == sum(
        max(0, s["peak_bytes"] - s["not_freed_bytes"]) for s in it.sites("--cost", "peak")
    )


def folded(path):
    """{stack: number}; a line is a stack, a space and a number."""
    found = collections.Counter()
    for line in path.read_text().splitlines():
        stack, _, value = line.rpartition(" ")
        found[stack] += int(value)
    return found


@pytest.mark.parametrize("cost", ["peak", "leaked", "total", "calls"])
@pytest.mark.parametrize("name", ["plain", "tree", "odd", "bare"])
def test_folded_stacks_are_those_of_the_report(scene, name, cost):
    it = scene(name)
    key = {"total": "total_bytes", "calls": "calls", "leaked": "not_freed_bytes", "peak": "peak_bytes"}[cost]
    expected = collections.Counter()
    for site in it.sites("--cost", cost):
        stack = ";".join(safe(f["function"]).replace(";", ":") for f in site["stack"][::-1])
        if re.search(r" \d+$", stack):
            stack += "_"  # a second number would make it a difference
        if site[key]:
            expected[stack] += site[key]
    assert folded(it.export("folded", "--cost", cost)) == expected


def test_speedscope_opens_folded_stacks_and_pprof(scene):
    it = scene("plain")
    exports = [it.export("folded", "--cost", "total"), it.export("pprof", "--cost", "total")]
    for page, shown in zip(browser("speedscope", *exports), (count_shown, bytes_shown)):
        rows = {name: total for name, _, total in table(page["profiles"][0])}
        for name, (_, total) in it.functions("--cost", "total").items():
            # Of pprof's locations, speedscope takes the outermost function and none that is inlined there.
            assert shown is bytes_shown and name not in rows or rows[name] == shown(total)
        assert rows["main"] == shown(it.functions("--cost", "total")["main"][1])


def test_folded_of_nothing_is_empty(scene):
    assert scene("empty").export("folded").read_text() == ""


@pytest.mark.skipif(not LONG, reason="cargo install inferno compiles for a minute: HEAPGAUGE_LONG=1")
@pytest.mark.parametrize("name", ["plain", "odd"])
def test_inferno_draws_every_function(scene, name):
    it = scene(name)
    program = tool("inferno-flamegraph", "cargo install inferno")
    svg = output_of(program, "--minwidth", "0", "--countname", "bytes", it.export("folded", "--cost", "total"))
    boxes = re.findall(r"<title>(.*?) \(([\d,]+) bytes, [\d.]+%\)</title>", svg)
    whole = it.whole("--cost", "total")
    assert ("all", f"{whole:,}") in boxes
    if name == "plain":
        widths = collections.Counter()
        for function, value in boxes:
            widths[function] += int(value.replace(",", ""))
        assert widths["shop::(anonymous namespace)::freed_after_peak()"] == 123456
        assert len(widths) == 1 + len(it.safe_functions("--cost", "total"))
    else:
        assert len(boxes) > len(ODD_NAMES)

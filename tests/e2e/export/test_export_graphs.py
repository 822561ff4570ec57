# SPDX-License-Identifier: Apache-2.0
"""Call graphs, read by Graphviz, gprof2dot, callgrind_annotate."""

import collections
import re
import xml.etree.ElementTree

import pytest

from exports import output_of, scene, tool  # noqa: F401

SCENES = ["plain", "tree", "odd", "bare"]
TITLE = "{http://www.w3.org/1999/xlink}title"
SVG = "{http://www.w3.org/2000/svg}"


def svg_of(path):
    return xml.etree.ElementTree.fromstring(output_of(tool("dot", "apt install graphviz"), "-Tsvg", path))


def titles(svg, what):
    """The hints of all boxes, or arrows, by what their <title> says: "f1", "f1->f2"."""
    found = {}
    for group in svg.iter(f"{SVG}g"):
        if group.get("class") == what:
            hint = next(a.get(TITLE) for a in group.iter(f"{SVG}a"))
            found[group.find(f"{SVG}title").text] = hint
    return found


@pytest.mark.parametrize("question", [["--cost", "total"], ["--at", "peak"]], ids=" ".join)
@pytest.mark.parametrize("name", SCENES)
def test_dot_draws_each_function_with_the_reports_numbers(scene, name, question):
    it = scene(name)
    boxes = titles(svg_of(it.export("dot", "--threshold", "0", *question)), "node")
    found = collections.defaultdict(lambda: [0, 0])
    for hint in boxes.values():
        function, whole, own = re.fullmatch(r"(.*)\n\w+ (\d+), self (\d+)", hint).groups()
        found[function][0] += int(own)
        found[function][1] += int(whole)
    # Quotes and backslashes are what the format itself is made of.
    quoted = str.maketrans("\"\\", "''")
    assert found == {key.translate(quoted): both for key, both in it.safe_functions(*question).items()}


def test_dot_draws_an_arrow_once_however_many_lines_call(scene):
    it = scene("plain")
    svg = svg_of(it.export("dot", "--threshold", "0", "--cost", "total"))
    names = {key: hint.split("\n")[0] for key, hint in titles(svg, "node").items()}
    found = {}
    for arrow, hint in titles(svg, "edge").items():
        caller, callee = arrow.split("->")
        assert (names[caller], names[callee]) not in found
        found[names[caller], names[callee]] = int(hint)
    expected = collections.Counter()
    for site in it.sites("--cost", "total"):
        stack = [frame["function"] for frame in site["stack"]]
        for edge in set(zip(stack[1:], stack)):
            expected[edge] += site["total_bytes"]
    assert found == expected


def test_dot_leaves_out_what_is_below_the_threshold_and_says_how_much(scene):
    it = scene("plain")
    svg = svg_of(it.export("dot", "--threshold", "50", "--cost", "total"))
    text = " ".join(t.text for t in svg.iter(f"{SVG}text") if t.text)
    names = [hint.split("\n")[0] for hint in titles(svg, "node").values()]
    functions = it.functions("--cost", "total")
    assert sorted(names) == sorted(n for n, (_, total) in functions.items() if total >= 0.5 * it.whole("--cost", "total"))
    left = sum(own for n, (own, _) in functions.items() if n not in names)
    assert f"not shown {left / 1024:.1f} KiB" in text
    two = svg_of(it.export("dot", "--limit", "2"))
    assert len(titles(two, "node")) == 2


def test_dot_colours_the_hot_path(scene):
    it = scene("plain")
    svg = svg_of(it.export("dot", "--threshold", "0", "--cost", "total"))
    colours = {}
    for group in svg.iter(f"{SVG}g"):
        if group.get("class") == "node":
            hint = next(a.get(TITLE) for a in group.iter(f"{SVG}a"))
            fill = group.find(f".//{SVG}polygon").get("fill")
            colours[hint.split("\n")[0]] = int(fill[3:5], 16)
    hot, cold = colours["main"], colours["shop::(anonymous namespace)::temporary()"]
    assert hot < 150 < 230 < cold  # green fades as it gets hotter


def test_dot_of_nothing_is_a_graph(scene):
    assert titles(svg_of(scene("empty").export("dot")), "node") == {}


@pytest.mark.parametrize("name", SCENES)
def test_gprof2dot_reads_the_same_self_and_whole(scene, name):
    import gprof2dot

    it = scene(name)
    with open(it.export("gprof2dot", "--cost", "total")) as file:
        profile = gprof2dot.JsonParser(file).parse()
    assert profile[gprof2dot.SAMPLES] == it.whole("--cost", "total")
    found = collections.Counter()
    for function in profile.functions.values():
        found[function.name] += function[gprof2dot.SAMPLES]
    assert found == collections.Counter({key: own for key, (own, _) in it.functions("--cost", "total").items()})


def test_gprof2dot_draws_the_shares_of_the_report(scene):
    it = scene("plain")
    path = it.export("gprof2dot", "--at", "peak")
    text = output_of(tool("gprof2dot", "pip install gprof2dot"), "-f", "json", "-n", "0", "-e", "0", path)
    whole = it.whole("--cost", "peak")
    found = {}
    for label in re.findall(r'^\t\d+ \[.*label="((?:[^"\\]|\\.)*)"', text, re.MULTILINE):
        _, function, total, own = label.split("\\n")[:4]
        found[function] = (total, own)
    for function, (own, total) in it.safe_functions("--cost", "peak").items():
        if "::even" in function or "::odd" in function:
            continue  # they call each other: gprof2dot shares that out without knowing who called first
        assert found[function] == (f"{100 * total / whole:.2f}%", f"({100 * own / whole:.2f}%)")
    assert "<svg" in output_of("dot", "-Tsvg", input=text)


def test_gprof2dot_of_nothing_is_a_graph(scene):
    assert "digraph" in output_of("gprof2dot", "-f", "json", scene("empty").export("gprof2dot"))


def annotate(path, *options):
    """By function: what callgrind_annotate says; and the total. Not from the folder of the sources: a file below it has
    two names then, with and without the folder."""
    program = tool("callgrind_annotate", "apt install valgrind")
    text = output_of(program, "--threshold=100", "--auto=no", *options, path, cwd=path.parent)
    lines = re.findall(r"^ *([\d,]+) \([ \d.]+%\)  (.*)$", text, re.MULTILINE)
    whole = next(int(n.replace(",", "")) for n, what in lines if what == "PROGRAM TOTALS")
    found = collections.Counter()
    for number, what in lines:
        place = re.fullmatch(r".*?:(.*?)(?: \[[^\]]*\])?", what)
        if place:
            found[place[1]] += int(number.replace(",", ""))
    return found, whole


@pytest.mark.parametrize("name", SCENES)
def test_callgrind_annotate_says_of_each_function_what_the_report_says(scene, name):
    it = scene(name)
    path = it.export("callgrind", "--cost", "total")
    functions = it.safe_functions("--cost", "total")
    found, whole = annotate(path)
    assert whole == it.whole("--cost", "total")
    assert found == {key: own for key, (own, _) in functions.items() if own}
    found, _ = annotate(path, "--inclusive=yes")
    assert found == {key: total for key, (_, total) in functions.items()}


def test_callgrind_annotate_shows_the_line_that_asked(scene):
    it = scene("plain")
    path = it.export("callgrind", "--cost", "total")
    source = next(s["stack"][0] for s in it.sites() if "take" in s["stack"][0]["function"])
    text = output_of("callgrind_annotate", "--threshold=100", path, source["file"])
    line = next(line for line in text.splitlines() if "void *p = malloc(bytes);" in line)
    assert line.split()[0] == f'{it.functions("--cost", "total")[source["function"]][0]:,}'


def test_callgrind_of_nothing_is_read(scene):
    text = output_of("callgrind_annotate", scene("empty").export("callgrind"))
    assert "PROGRAM TOTALS" in text

# SPDX-License-Identifier: Apache-2.0
"""A saved page filters in the browser: its sums are those of `heapgauge report --format json` with the same filter.

tests/web/saved.mjs looks at the pages in Chromium; the tests here compare sums, rows and whole trees with the command.
"""

import collections
import json
import os
import pathlib
import subprocess

import pytest

from compiled import WAIT_SECONDS
from serving import commander, digits, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROWS = 60  # compared; the browser has all of them in sight

# Each cost that a saved page offers: the address of the page, the options of the command, and the key of the number.
COSTS = {
    "cost=peak": (["--cost", "peak"], "live_bytes"),
    "cost=leaked": (["--cost", "leaked"], "live_bytes"),
    "cost=peak&unit=blocks": (["--cost", "blocks", "--at", "peak"], "live_blocks"),
    "cost=leaked&unit=blocks": (["--cost", "blocks", "--at", "end"], "live_blocks"),
    "cost=total": (["--cost", "total"], "total_bytes"),
    "cost=calls": (["--cost", "calls"], "calls"),
    "cost=temporary": (["--cost", "temporary"], "temporary_calls"),
    "cost=max": (["--cost", "max"], "max_bytes"),
    "cost=waste": (["--cost", "waste"], "internal_fragmentation_bytes"),
    "cost=lifetime": (["--cost", "lifetime"], "lifetime_ns"),
    "cost=realloc": (["--cost", "realloc"], "copied_bytes"),
    "cost=rate": (["--cost", "rate"], "calls_per_second"),
}

# Filters of each recording. The first is asked with every cost, the others with one.
FILTERS = {
    "sqlite": [["focus=sqlite3"], ["ignore=[[:lower:]]+3V?dbe"], ["module=sqlite"], ["not-module=libc"], ["min-size=64", "max-size=1.5KiB"], []],
    "compiler": [["focus=xmalloc|obstack", "ignore=^main_"], ["process=cc1"], ["module=/cc1"], ["focus=alloc", "process=as", "kind=all"], ["language=c++"], ["entry=^calloc$"], []],
    "tagged": [["ignore=^nosuch$"], ["tag=."], ["label=.*"], ["kind=pool"], ["pool=."], ["kind=all", "max-size=1000"], []],
}
AXES = {"function": "Function", "own": "Own code", "module": "Module", "line": "Source line", "type": "Type", "tag": "Tag", "entry": "Called function"}


def addresses():
    """By recording: the address of each view, and what to ask the command."""
    for name, filters in FILTERS.items():
        for filter in filters:
            for cost in COSTS if filter is filters[0] else ["cost=total"]:
                asked = "&".join([cost, *(one.replace("+", "%2B") for one in filter)])
                yield name, f"flame?{asked}", "flame", cost, filter, []
                yield name, f"sites?{asked}", "sites", cost, filter, []
                for axis in AXES if not filter else ["function", "own"]:
                    yield name, f"sites?{asked}&by={axis}", "functions", cost, filter, ["--by", axis]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def command(heapgauge, folder):
    return commander(heapgauge, page_env(folder), folder)


@pytest.fixture(scope="module")
def seen(command, target, build, folder):
    (folder / "small.c").write_text("#include <stdio.h>\nint main(void) { return printf(\"%d\\n\", 1) < 0; }\n")
    statements = "create table t(a, b); with recursive n(i) as (select 1 union all select i+1 from n where i<2000) insert into t select i, hex(i) from n; select count(*) from t;"
    command("record", "-q", "-o", "sqlite.hg", "--", "sqlite3", ":memory:", statements)
    command("record", "-q", "-o", "compiler.hg", "--", "gcc", "-O1", "-c", "small.c", "-o", "small.o")
    command("record", "-q", "-o", "tagged.hg", "--", target("shown_called"))
    command("record", "-q", "--mode", "sample", "--interval", "4KiB", "-o", "sampled.hg", "--", target("shown_course"))
    asked = collections.defaultdict(list)
    for name, address, *_ in addresses():
        asked[name].append(address)
    asked["sampled"] = ["sites"]
    for name in asked:
        command("report", f"{name}.hg", "--format", "html", "-o", f"{name}.html")
    return look(folder, asked)


def look(folder, asked):
    plan = [{"url": (folder / f"{name}.html").as_uri(), "addresses": list(of)} for name, of in asked.items()]
    (folder / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(["node", ROOT / "tests" / "web" / "saved.mjs", folder / "plan.json"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, json.loads(done.stdout)))


def options_of(filter, view):
    words = [word for one in filter for word in (f"--{one.split('=', 1)[0]}={one.split('=', 1)[1]}",)]
    heap = view == "sites" and not any(one.startswith(("kind=", "pool=")) for one in filter)
    return words + (["--kind", "heap"] if heap else [])


def tree_of(result):
    """By path: value and self, like saved.mjs."""
    paths, nodes = [], {}
    for name, parent, value, own in zip(*(result["nodes"][key] for key in ("name", "parent", "value", "self"))):
        frame = result["names"][name]
        paths.append(f"{paths[parent] if parent >= 0 else ''}\n{frame['function']}|{frame['file'] or ''}|{frame['module'] or ''}")
        nodes[paths[-1]] = (value, own)
    return nodes


def heaviest(rows):
    """Those before a row that others may be as heavy as: equal ones stand in any order."""
    return sorted(row for row in rows if len(rows) < ROWS or row[0] > rows[-1][0])


def shown_groups(page, axis, cost):
    heads = {"function": "Self", "module": "Self", "line": "Self"}
    first = heads.get(axis) or next(iter(page["rows"][0]))
    return heaviest([(digits(row[first]), digits(row["With callees"]) if axis in heads else 0) for row in page["rows"][:ROWS]])


def groups(result, axis, key):
    rows = next(value for name, value in result.items() if name.endswith("s") and isinstance(value, list))
    of_frames = axis in ("function", "module", "line")
    return heaviest([(row["self"] if of_frames else row[key], row[key] if of_frames else 0) for row in rows])


def sites_of(rows):
    return heaviest([tuple(row) for row in rows])


@pytest.mark.parametrize("recording", FILTERS)
def test_a_saved_page_sums_like_the_command(command, seen, recording):
    compared = matched = 0
    for name, address, view, cost, filter, more in addresses():
        if name != recording:
            continue
        options, key = COSTS[cost]
        limit = [] if view == "flame" else ["--limit", str(ROWS)]
        result = json.loads(command("report", f"{name}.hg", "--view", view, *options, *options_of(filter, view), *more, *limit, "--format", "json"))
        page = seen[name]["seen"][address]
        kinds = [one for one in filter if one.startswith(("kind=", "pool="))]
        if view == "sites" or kinds:
            assert digits(page["sum"]) == result["shown"], address
        compared += 1
        if not result["shown"]:
            continue
        matched += 1
        if view == "flame":
            assert {path: (value, own) for path, value, own in page["tree"]} == tree_of(result), address
        elif view == "functions":
            axis = more[1]
            assert shown_groups(page, axis, cost) == groups(result, axis, key), address
        else:
            mine = [(digits(row["Total"]), digits(row["Calls"]), digits(row["At end"]), row["Requested by"]["title"]) for row in page["rows"][:ROWS]]
            theirs = [
                (site["total_bytes"], site["calls"], site["not_freed_bytes"], "\n".join(result["frames"][frame]["function"] for frame in site["stack"]))
                for site in result["sites"]
            ]
            if len(theirs) < ROWS:
                assert sorted(mine) == sorted(theirs), address
            else:
                assert [row[0] for row in mine] == [row[0] for row in theirs] or cost != "cost=total", address
    assert compared > 60 and matched > compared / 2
    assert seen[recording]["errors"] == [] and set(seen[recording]["hosts"]) == {"null"}


def test_what_a_saved_page_lacks_is_disabled_with_the_reason(seen):
    disabled = {option["text"]: option["title"] for option in seen["sqlite"]["options"]}
    assert disabled.keys() == {f"{label} (not in a saved page)" for label in ("Live at a moment", "Grown between two moments", "Thread", "Requested size")}
    assert all(title.startswith("A saved page has ") for title in disabled.values())
    assert seen["sqlite"]["filter"] == {"disabled": False, "title": "", "described": ""}
    assert seen["sqlite"]["refused"] == "A saved page has the sums over all threads."


def test_a_saved_page_of_estimates_does_not_filter(seen):
    box = seen["sampled"]["filter"]
    assert box["disabled"] and "estimates" in box["title"] and box["described"] == box["title"]
    assert len(seen["sampled"]["seen"]["sites"]["rows"]) > 3


def test_a_saved_page_is_small(seen, folder):
    for name in ("sqlite", "tagged", "sampled"):
        assert (folder / f"{name}.html").stat().st_size < 1_000_000, name


@pytest.mark.skipif(not LONG, reason="long form")
def test_a_hundred_thousand_stacks_open_in_two_seconds(command, build, folder):
    subprocess.run([build / "made" / "make_recording", folder / "large.hg", "100000", "10"], check=True, timeout=WAIT_SECONDS)
    command("report", "large.hg", "--format", "html", "-o", "large.html")
    page = look(folder, {"large": ["sites?cost=total&focus=read"]})["large"]
    print(page["cpu_s"], (folder / "large.html").stat().st_size)
    assert page["cpu_s"] < 2
    assert len(page["seen"]["sites?cost=total&focus=read"]["rows"]) > 100

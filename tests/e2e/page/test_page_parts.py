# SPDX-License-Identifier: Apache-2.0
"""What the page has only of some recordings: pages, retainers, and the time of calls. Its numbers are those of the report, and other
recordings show nothing of it. tests/web/parts.mjs looks at it in Chromium."""

import json
import os
import pathlib
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for
from serving import Server, commander, digits, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES, MAP, RETAINERS, TIME = "sites?tab=pages", "sites?tab=map", "sites?tab=retainers", "sites?cost=time"
RECYCLING = "sites?cols=peak_bytes,name,total_bytes,max_bytes,recycled"
TIMED = [TIME, "sites?cost=time&by=function", "flame?cost=time", "tree?cost=time", "threads?cost=time", "start?cost=time", "tags?cost=time", "time?cost=time"]
#: Columns of the page by their keys in JSON.
OF_PAGES = {
    "Resident": "resident_bytes", "Live": "pages_live_bytes", "If freed": "sole_bytes", "Pins": "pinned_bytes",
    "If in an arena": "arena_bytes", "Not resident": "untouched_bytes", "Blocks": "pages_blocks",
}
OF_RETAINERS = {
    "Unreachable": "unreachable_bytes", "Retains": "retained_bytes", "Live": "not_freed_bytes", "Blocks": "not_freed_blocks",
    "Unreachable blocks": "unreachable_blocks",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def command(heapgauge, folder):
    return commander(heapgauge, page_env(folder), folder)


def record_waiting(heapgauge, folder, options, argv, ready, last):
    """Records a program that says `ready` and waits; last(pid) is called then, and says what to write to it."""
    with subprocess.Popen(
        [heapgauge, "record", "-q", *options, "--", *argv], env=page_env(folder), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        while run.stdout.readline().strip() != ready:
            assert run.poll() is None
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
        run.communicate(last(wait_for(lambda: children.read_text().split(), "the program")[0]), timeout=WAIT_SECONDS)
        assert run.returncode == 0


@pytest.fixture(scope="module")
def recordings(heapgauge, command, target, folder):
    def image(pid):
        command("image", pid, "-o", "image.hg")
        return ""

    def lay_out(file, layout):
        options, argv = ["-o", f"{file}.hg", "--pages-on", "end"], [target("pages_truth"), layout]
        record_waiting(heapgauge, folder, options, argv, "READY", lambda _: "end\n")

    lay_out("pages", "mixed")
    lay_out("held", "end-of-heap")
    record_waiting(heapgauge, folder, ["-o", "without.hg"], [target("reach_truth")], "ready", image)
    command("record", "-q", "-o", "timed.hg", "--time-calls=8", "--", target("t_threads_cross_free"))
    for name in ("pages", "image", "timed"):
        command("report", f"{name}.hg", "--format", "html", "-o", f"{name}.html")


@pytest.fixture(scope="module")
def report(command, recordings):
    def run(file, view, *options):
        return json.loads(command("report", f"{file}.hg", "--view", view, "--format", "json", "--limit", "5000", *options))

    return run


@pytest.fixture(scope="module")
def seen(heapgauge, folder, recordings):
    looks = {
        "pages": {"label": "Pages", "addresses": [PAGES, f"{PAGES}&focus=keep", f"{PAGES}&sort=-pinned_bytes", "sites", MAP, f"{MAP}&colour=age", f"{MAP}&colour=occupancy"]},
        "held": {"label": "Pages", "addresses": [PAGES]},
        "image": {"label": "Retainers", "addresses": [RETAINERS, f"{RETAINERS}&focus=hide_pointer", "sites"]},
        "timed": {"label": "Sites", "addresses": TIMED},
        "without": {"label": "Sites", "addresses": ["sites", PAGES, RETAINERS, TIME, RECYCLING]},
    }
    servers = {name: Server(heapgauge, f"{name}.hg", "--no-open", env=page_env(folder), cwd=folder) for name in looks}
    pages = {name: look | {"url": servers[name].url} for name, look in looks.items()}
    for name, addresses in {"pages": [PAGES, MAP], "image": [RETAINERS], "timed": [TIME, "flame?cost=time", "threads?cost=time"]}.items():
        pages[f"{name}-saved"] = looks[name] | {"addresses": addresses, "url": (folder / f"{name}.html").as_uri()}
    (folder / "plan.json").write_text(json.dumps({"pages": pages, "shots": os.environ.get("HEAPGAUGE_SHOTS", "")}))
    try:
        script = ROOT / "tests" / "web" / "parts.mjs"
        done = subprocess.run(["node", script, folder / "plan.json"], capture_output=True, text=True, timeout=900, check=False)
    finally:
        for server in servers.values():
            server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_refused_or_wrong(seen):
    for name, page in seen.items():
        assert page["errors"] == [] and page["refused"] == [], name
        for address, shown in page["seen"].items():
            assert shown["wrong"] == [], (name, address)
            assert "No answer" not in shown["words"] and "Not in this file" not in shown["words"], (name, address)


def compared(rows, sites, keys):
    assert [{title: digits(row[title]) for title in keys} for row in rows] == [{title: site[key] for title, key in keys.items()} for site in sites]


def amounts(balance):
    return {cells[1]["text"]: digits(cells[2]) for cells in balance}


@pytest.mark.parametrize("name", ["pages", "pages-saved"])
def test_pages_are_those_of_the_report_and_add_up(seen, report, name):
    result, page = report("pages", "pages"), seen[name]
    shown = page["seen"][PAGES]
    assert shown["parts"] == ["Sites", "Pages", "Map"] and page["picked"] in ("use", "keep")
    assert len(shown["rows"]) == len(result["sites"]) >= 4
    compared(shown["rows"], result["sites"], OF_PAGES)
    sums, lines = result["pages"], amounts(shown["balance"])
    rss = lines.pop("RSS")
    assert rss == sums["rss_bytes"] == sum(lines.values())
    assert (lines["sites"], lines["free"]) == (sums["sites_bytes"], sums["free_bytes"]) and lines["sites"] > 20 << 20
    assert "Swapped" not in shown["rows"][0], "no site has swapped memory"


@pytest.mark.parametrize("name", ["pages", "pages-saved"])
def test_the_map_is_that_of_the_report(seen, report, name):
    result, shown = report("pages", "map"), seen[name]["seen"][MAP]
    rows = [
        {"Resident": one["resident_bytes"], "Used": one["used_bytes"], "Size": one["size_bytes"], "Blocks": one["blocks"]}
        for one in result["regions"]
    ]
    for row, region in zip(shown["regions"], rows, strict=False):
        assert {title: digits(row[title]) for title in region if region[title]} == {title: number for title, number in region.items() if number}
    assert len(shown["regions"]) >= 5 and shown["regions"][0]["Region"]["text"].startswith("heap 0x")
    tiles = sum(len(one["tiles"]["offset"]) for one in result["regions"])
    assert int(shown["map"]["squares"]) * int(shown["map"]["unit"]) >= tiles * 4096 - 4096 and int(shown["map"]["squares"]) > 500


def test_keys_zoom_the_map_to_blocks_and_back(seen, report):
    walked = seen["pages"]["walked"]
    said, heap = walked["said"], report("pages", "map")["regions"][0]
    assert said[0]["words"] and said[0]["words"] != said[1]["words"]
    units = [step["unit"] for step in said]
    assert units[7] == 16 <= units[8] < units[9] == units[0] > 1024 and sorted(units[:8], reverse=True) == units[:8]

    def shown(step):
        begin, end = map(int, step["hash"].split("zoom=")[1].split("-"))
        return end - begin

    assert shown(said[7]) < shown(said[8]) and "zoom=" not in said[9]["hash"]
    assert shown(said[10]) == 4096 * len(heap["tiles"]["offset"])
    assert walked["colours"] >= 4 and "heap" in walked["tip"]


def test_pages_filter_and_sort(seen, report):
    page = seen["pages"]["seen"]
    sites = report("pages", "pages", "--focus", "keep")["sites"]
    compared(page[f"{PAGES}&focus=keep"]["rows"], sites, {title: key for title, key in OF_PAGES.items() if title != "Not resident"})
    assert len(sites) == 1 and sites[0]["untouched_bytes"] == 0 and "Not resident" not in page[f"{PAGES}&focus=keep"]["rows"][0]
    pinned = [digits(row["Pins"]) for row in page[f"{PAGES}&sort=-pinned_bytes"]["rows"]]
    assert pinned == sorted(pinned, reverse=True) and pinned[: 2] == [site["pinned_bytes"] for site in report("pages", "pins")["sites"]]


def test_the_block_that_keeps_the_end_of_a_heap_is_named(seen, report):
    sums = report("held", "pages")["pages"]
    said = " ".join(seen["held"]["seen"][PAGES]["words"].split())
    assert sums["holder_blocks"] == 1
    assert f"At the end of a heap 1 block of 2.0 KiB keeps {sums['held_bytes'] / (1 << 20):.1f} MiB of free pages from being returned: keep" in said, said


@pytest.mark.parametrize("name", ["image", "image-saved"])
def test_retainers_are_those_of_the_report_and_add_up(seen, report, name):
    result, page = report("image", "leaks"), seen[name]
    shown = page["seen"][RETAINERS]
    assert shown["parts"] == ["Sites", "Retainers"] and page["picked"]
    assert len(shown["rows"]) >= 20
    compared(shown["rows"], result["sites"][: len(shown["rows"])], OF_RETAINERS)
    holders = [row["Held by"]["text"] for row in shown["rows"]]
    roots = [site["path"][0]["name"] if site["path"] else "" for site in result["sites"][: len(holders)]]
    assert [holder.removeprefix("the rest: ").split(" +0x")[0] for holder in holders] == roots and any("(reach_truth) +0x0 > grow_tree" in holder for holder in holders)
    lines = amounts(shown["balance"])
    live = lines.pop("live")
    assert live == sum(lines.values()) == sum(site["not_freed_bytes"] for site in result["sites"])
    unreachable = sum(lines[name] for name in ("lost", "indirectly lost", "cycles"))
    assert unreachable == sum(site["unreachable_bytes"] for site in result["sites"]) > 0
    assert lines["global"] == result["reach"]["global_bytes"] == sum(site["reach"]["global_bytes"] for site in result["sites"]) > 0


def test_retainers_filter(seen, report):
    shown = seen["image"]["seen"][f"{RETAINERS}&focus=hide_pointer"]
    sites = report("image", "leaks", "--focus", "hide_pointer")["sites"]
    compared(shown["rows"], sites, OF_RETAINERS)
    assert amounts(shown["balance"])["live"] == sum(site["not_freed_bytes"] for site in sites)


def test_recycling_is_the_total_over_the_own_maximum(seen, report):
    rows = seen["without"]["seen"][RECYCLING]["rows"]
    sites = report("without", "sites", "--cost", "peak")["sites"][: len(rows)]
    assert len(rows) == len(sites) > 0
    for row, site in zip(rows, sites, strict=True):
        assert row["Recycling"]["text"] == (f"{site['total_bytes'] / site['max_bytes']:.1f}×" if site["max_bytes"] else "–")


@pytest.mark.parametrize("name", ["timed", "timed-saved"])
def test_the_time_of_calls_is_that_of_the_report(seen, report, name):
    page = seen[name]
    result = report("timed", "sites", "--cost", "time", "--kind", "heap")
    assert "Time in the allocator" in page["choices"]
    assert page["seen"][TIME]["sum"]["title"].startswith(f"{result['shown']:,} ns") and result["shown"] > 0
    for row, site in zip(page["seen"][TIME]["rows"], result["sites"], strict=True):
        if site["allocator_ns"] is None:  # no call of it was timed
            assert row["Time"]["text"] == "–"
        else:
            assert row["Time"]["title"].startswith(f"{site['allocator_ns']:,} ns")


def test_the_time_of_calls_is_in_every_view(seen):
    sums = {address: shown["sum"] for address, shown in seen["timed"]["seen"].items()}
    assert len({one["title"] for one in sums.values()}) == 1, sums


def test_other_recordings_show_nothing_of_it(seen):
    page = seen["without"]
    assert "Time in the allocator" not in page["choices"] and len(page["choices"]) == 12
    first = page["seen"]["sites"]
    for address, shown in page["seen"].items():
        assert shown["parts"] == [] and shown["sum"] == first["sum"], address
        same = address == RECYCLING or shown["rows"][:20] == first["rows"][:20]
        assert same and len(first["rows"]) > 20, address
    assert seen["pages"]["seen"]["sites"]["parts"] == ["Sites", "Pages", "Map"]

# SPDX-License-Identifier: Apache-2.0
"""The page draws an answer only for the question it answers (P1 to P5, P7), of a recording of several processes.

tests/web/questions.mjs says what it saw; the numbers are compared with `heapgauge report --format json`.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

from serving import Server, commander, digits, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]
SORTS = {"calls": "Calls", "temporary_calls": "Temporary", "not_freed_bytes": "At end", "total_bytes": "Total", "mean_bytes": "Mean size"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(scope="module")
def env(folder):
    return page_env(folder)


@pytest.fixture(scope="module")
def command(heapgauge, env, folder, target):
    run = commander(heapgauge, env, folder)
    for name, times in (("old.hg", 1), ("new.hg", 2)):
        run("record", "-q", "-o", name, "--", target("shown_family"), times)
    return run


@pytest.fixture(scope="module")
def report(command):
    def run(view, *options):
        return json.loads(command("report", "new.hg", "--view", view, "--format", "json", *options))

    return run


@pytest.fixture(scope="module")
def processes(report):
    """Of the program: the one that was started, the one with the largest heap, the one that maps."""
    found = report("processes")["processes"]
    assert len(found) == 3
    return {"started": found[0], "heavy": max(found, key=lambda one: one["peak_bytes"]), "maps": max(found, key=lambda one: one["mmap_peak_bytes"])}


@pytest.fixture(scope="module")
def seen(heapgauge, env, folder, command, report, processes, target):
    command("report", "new.hg", "--format", "html", "-o", "saved.html")
    server = Server(heapgauge, "new.hg", "--against", "old.hg", "--no-open", env=env, cwd=folder)
    worker = max(report("threads")["threads"], key=lambda one: one["started_ns"])["tid"]
    plan = {"url": server.url, "pids": [one["pid"] for one in processes.values()], "sorts": list(SORTS), "worker": worker}
    plan["saved"] = (folder / "saved.html").as_uri()
    command("record", "-q", "-o", "replaced.hg", "--", "sh", "-c", f"exec {target('shown_course')}")
    command("report", "replaced.hg", "--format", "html", "-o", "replaced.html")
    plan["replaced"] = (folder / "replaced.html").as_uri()
    plan["shots"] = os.environ.get("HEAPGAUGE_SHOTS", "")  # a folder for pictures to look at
    (folder / "plan.json").write_text(json.dumps(plan))
    try:
        done = subprocess.run(
            ["node", ROOT / "tests" / "web" / "questions.mjs", folder / "plan.json"], capture_output=True, text=True, timeout=900, check=False
        )
    finally:
        server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def scene(seen):
    def get(name):
        assert "failed" not in seen[name], seen[name]["failed"]
        return seen[name]

    return get


def percent(part, whole):
    """As the page writes it: rounded half up."""
    tenths = (part * 1000 + whole // 2) // whole
    return f"{tenths // 10}.{tenths % 10} %"


# ---- percentages ----


@pytest.mark.parametrize("key", SORTS)
def test_the_share_of_a_site_is_of_the_number_beside_it_however_rows_are_sorted(scene, report, key):
    """P1: sorted by Calls, Temporary or At end, the share of the peak was that of the other number's whole."""
    whole = report("sites", "--cost", "peak", "--kind", "heap")["shown"]
    rows = scene("sorted")[key]
    values = [digits(row[SORTS[key]]) for row in rows]
    assert values == sorted(values, reverse=True) and len(rows) > 8
    for row in rows:
        assert row["%"]["text"] == percent(digits(row["At peak"]), whole)


def test_what_is_no_part_of_a_whole_has_a_sign_and_no_percentage(scene, report):
    """P5: of a thread that frees what others allocated; of what grew."""
    threads = report("functions", "--by", "thread", "--cost", "leaked")["threads"]
    shown = scene("signs")["threads"]
    assert [digits(row["At end"]) for row in shown] == [one["live_bytes"] for one in threads]
    assert ("%" in shown[0]) == all(one["live_bytes"] >= 0 for one in threads)
    worker = scene("signs")["worker"]
    assert digits(worker["sum"]) < 0 and worker["sum"]["text"].startswith("−") and "%" not in worker["words"] or digits(worker["sum"]) >= 0
    assert all("%" not in row for row in scene("signs")["grown"] + scene("signs")["tree"])


# ---- one question, one answer ----


def test_compare_on_sites_shows_what_changed_and_leaves_every_tab_working(scene, seen, command):
    """P2: an exception, after which every tab showed the table of Sites."""
    stacks = json.loads(command("diff", "old.hg", "new.hg", "--view", "sites", "--kind", "heap", "--format", "json"))["stacks"]
    compared = scene("compared")
    assert [digits(row["Change"]) for row in compared["stacks"]] == [one["change"] for one in stacks]
    for tab, heading, sites in compared["tabs"]:
        assert tab == heading and sites == (tab == "Sites")
    assert {name: errors for name, errors in seen["errors"].items() if errors} == {}


def test_what_does_not_compare_is_of_the_newer_recording_and_says_so(scene):
    """P2: Size × lifetime and Size × time never came."""
    for name, shown in scene("compared")["maps"].items():
        assert shown["cells"] > 8, name
        assert "comparison: not for this view" in shown["note"], name


def test_a_late_answer_is_dropped(scene, report):
    """P2: while an answer is on its way nothing of another question is shown, and when it is late it stays away."""
    late = scene("late")
    assert late["waiting"] == {"rows": 0, "sum": 0}
    sites = report("sites", "--cost", "total", "--kind", "heap", "--limit", "12")
    for rows in (late["before"], late["after"]):
        assert [digits(row["Total"]) for row in rows] == [site["total_bytes"] for site in sites["sites"]]
    assert digits(late["sum"]) == sites["shown"]


def test_an_error_of_the_page_is_told_with_a_text_to_report_and_the_next_tab_works(scene):
    """P2."""
    broken = scene("broken")
    assert 'failed to draw the view "Threads"' in broken["said"] and "bug report" in broken["said"]
    assert "address: #/threads" in broken["copied"] and "TypeError" in broken["copied"] and "heapgauge 0." in broken["copied"]
    assert len(broken["next"]) > 8 and len(broken["again"]) == 4
    assert "Something failed in the background" in broken["unexpected"] and broken["left"] == 0
    assert len(broken["errors"]) == 2


def test_axe_finds_nothing_wrong_with_errors_and_with_several_processes(scene):
    assert scene("broken")["wrong"] == [] and scene("processes")["wrongs"] == []


# ---- several processes ----

CARDS = ["peak_bytes", "not_freed_bytes", None, None, "peak_rss_bytes", "mmap_peak_bytes"]
LISTS = {
    "Most at the peak": ("peak", "live_bytes"), "Most not freed at exit": ("leaked", "live_bytes"), "Most allocations": ("calls", "calls"),
    "Most temporary allocations": ("temporary", "temporary_calls"),
}  # fmt: skip


def check_start(start, chosen, report, *process):
    for figure, key in zip(start["figures"], CARDS):
        if key:
            assert digits(figure) == sum(one[key] for one in chosen), key
    assert digits(start["figures"][2]["text"]) == sum(one["calls"] for one in chosen)
    assert digits(start["sum"]) == sum(one["peak_bytes"] for one in chosen)
    for title, (cost, key) in LISTS.items():
        answer = report("functions", "--by", "own", "--cost", cost, *process)
        rows = [(row[key], percent(row[key], answer["shown"])) for row in answer["owners"] if row[key]][:7]
        assert [(digits(value), share) for value, share in start["tops"][title]] == rows, title


@pytest.mark.parametrize("which", ["started", "heavy", "maps"])
def test_everything_on_start_is_of_the_chosen_process(scene, report, processes, which):
    """P3: cards of one process, balance of another, lists of all, and a fourth number above."""
    process = processes[which]
    start = scene("processes")[str(process["pid"])]
    filtered = ("--process", str(process["pid"]))
    check_start(start, [process], report, *filtered)
    assert f"(pid {process['pid']})" in start["headline"]
    assert f"process {process['pid']} at" in start["balance"]["caption"]
    timeline = report("timeline", *filtered)["timeline"]
    assert start["strip"].startswith(f"live heap, at most {amount(max(one['live_bytes'] for one in timeline))}")
    peak = next(one for one in timeline if one["peak"])
    assert f"at {time(peak['at_ns'])}" in start["cards"][0]["text"]
    mapped = start["tops"].get("Most mapped", [])
    assert [digits(value) for value, _ in mapped] == ([process["mmap_peak_bytes"]] if process["mmap_calls"] else [])


def test_the_process_shown_first_is_the_one_that_was_started(scene, processes):
    """P3."""
    shown, pid = scene("processes")["started"], str(processes["started"]["pid"])
    chosen = scene("processes")[pid]
    assert {key: shown[key] for key in ("figures", "tops", "balance", "strip", "headline", "sum")} == {
        key: chosen[key] for key in ("figures", "tops", "balance", "strip", "headline", "sum")
    }
    assert shown["words"].startswith(f"process {pid}, ")
    assert shown["processes"][0][0]["text"] == pid
    # What is opened from there is about the same process.
    assert f"process={pid}" in scene("processes")["opened"]["hash"] and scene("processes")["opened"]["sum"] == shown["sum"]


def test_a_saved_page_shows_the_process_that_was_started_too(scene):
    """P3."""
    saved, shown = scene("saved"), scene("processes")["started"]
    assert saved["states"] == []
    for key in ("figures", "tops", "balance", "headline", "sum", "words", "processes"):
        assert saved[key] == shown[key], key


def test_a_process_that_called_exec_is_judged_as_what_it_became(scene, command):
    """The verdict was about the shell, and the layers about the first moment."""
    became = json.loads(command("report", "replaced.hg", "--format", "json"))["processes"][-1]
    assert f"Peak {amount(became['peak_bytes'])}" in scene("replaced")["verdict"]
    assert sum(digits(cell) for cell in scene("replaced")["layers"]) > 0


def test_all_processes_are_listed_with_what_they_mapped_and_their_rss(scene, report):
    """P3: mappings that dominate were one row."""
    rows = [[cell["text"] for cell in row[:5]] for row in scene("processes")["started"]["processes"]]
    columns = ("peak_bytes", "not_freed_bytes", "mmap_peak_bytes", "peak_rss_bytes")
    assert rows == [[str(one["pid"]), *(amount(one[key]) for key in columns)] for one in report("processes")["processes"]]


def test_the_verdict_on_one_of_several_processes_says_so_and_is_no_good_news_of_all(scene, report):
    pid = report("processes")["processes"][0]["pid"]
    one, several = scene("processes")["started"], scene("processes")["all"]
    assert several["verdict"] == f"Process {pid} alone: {one['verdict']}"
    assert "edge-good" not in several["edge"]


def test_several_processes_are_added_up_everywhere(scene, report):
    """P3."""
    start = scene("processes")["all"]
    check_start(start, report("processes")["processes"], report)
    assert "sums over 3 processes" in start["headline"] and "each process at its own peak" in start["cards"][0]["text"]


@pytest.mark.parametrize("which", ["started", "heavy", "maps"])
def test_rss_is_shown_with_the_live_heap_of_its_own_moment(scene, report, processes, which):
    """P4: the RSS of the last look was divided by the live heap of the end."""
    pid = processes[which]["pid"]
    start = scene("processes")[str(pid)]
    last = report("memory", "--process", str(pid))["memory"][-1]
    card = next(card["text"] for card in start["cards"] if card["text"].startswith("RSS"))
    assert f"{amount(last['rss_bytes'])} at {time(last['at_ns'])}, when {amount(last['live_bytes'])} of heap was live" in card
    rows = {row[1]["text"]: digits(row[2]) for row in start["balance"]["rows"]}
    assert (rows["requested"], rows["RSS"]) == (last["live_bytes"], last["rss_bytes"])
    assert time(last["at_ns"]) in start["balance"]["caption"]


def test_moments_have_their_names_and_are_told_apart(scene, report):
    """P7: names appeared nowhere, and the list had the same time four times."""
    seen = scene("names")
    named = report("snapshots")["snapshots"]
    assert [(row[0]["text"], row[1]["text"]) for row in seen["named"]] == [(time(one["at_ns"]), one["name"]) for one in named]
    assert len(set(seen["moments"])) == len(seen["moments"]) > 4
    for one in named:
        if one["snapshot"] is not None:
            assert any(text.startswith(f"{one['name']}, {time(one['at_ns'])}") for text in seen["moments"])
    chosen = report("sites", "--cost", "live", "--at", f"snap:{named[0]['snapshot']}", "--kind", "heap")
    assert f"at=snap%3A{named[0]['snapshot']}" in seen["hash"] and digits(seen["sum"]) == chosen["shown"]


def scaled(value, step, plain, names):
    """src/util/text/units.c"""
    if value < step:
        return f"{value}{plain}"
    unit, i = step, 0
    while i + 1 < len(names) and (value * 10 + unit // 2) // unit >= step * 10:
        unit, i = unit * step, i + 1
    tenths = (value * 10 + unit // 2) // unit
    return f"{tenths // 10}.{tenths % 10} {names[i]}"


def amount(value):
    return scaled(value, 1024, " B", ["KiB", "MiB", "GiB"])


def time(value):
    return scaled(value, 1000, " ns", ["us", "ms", "s"])

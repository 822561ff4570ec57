# SPDX-License-Identifier: Apache-2.0
"""The page of `heapgauge view` in Chromium: its numbers are those of `heapgauge report --format json`.

tests/web/page.mjs looks at everything once and says what it saw; the tests here compare. Numbers are read with all their
digits from the tooltips.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

from compiled import compile_c
from reading import with_frames
from serving import Server, commander, digits, page_env
from test_threads_shared import PROGRAM as MANY_THREADS

ROOT = pathlib.Path(__file__).resolve().parents[3]
STATEMENTS = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<%d) insert into t select i, hex(randomblob(16)), i*0.5 from n;
create index tb on t(b);
select count(*), sum(c) from t where b like '%%A1%%';
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def env(folder):
    return page_env(folder)


@pytest.fixture(scope="module")
def command(heapgauge, env, folder):
    return commander(heapgauge, env, folder)


@pytest.fixture(scope="module")
def recordings(command, target, folder):
    command("record", "-q", "-o", "old.hg", "--", "sqlite3", ":memory:", STATEMENTS % 240000)
    command("record", "-q", "-o", "new.hg", "--", "sqlite3", ":memory:", STATEMENTS % 360000)
    command("record", "-q", "-o", "threads.hg", "--", target("t_threads_cross_free"))
    command("record", "-q", "-o", "crowd.hg", "--", compile_c(folder, "crowd", MANY_THREADS, "-pthread"))
    command("record", "-q", "--mode", "sample", "--interval", "4KiB", "-o", "sampled.hg", "--", target("shown_course"))
    command("record", "-q", "-o", "tagged.hg", "--", target("shown_called"))
    command("report", "new.hg", "--format", "html", "-o", "saved.html")


@pytest.fixture(scope="module")
def report(command, recordings):
    """report("sites", "--cost", "total"): parsed."""

    def run(view, *options, file="new.hg"):
        return with_frames(json.loads(command("report", file, "--view", view, "--format", "json", *options)))

    return run


@pytest.fixture(scope="module")
def diff(command, recordings):
    def run(view, *options):
        return with_frames(json.loads(command("diff", "old.hg", "new.hg", "--view", view, "--format", "json", *options)))

    return run


@pytest.fixture(scope="module")
def source(report):
    """The file of the program with threads."""
    files = {f["file"] for site in report("sites", file="threads.hg")["sites"] for f in site["stack"] if f["file"]}
    return [file for file in files if file.endswith("t_threads_cross_free.c")][0]


@pytest.fixture(scope="module")
def crowd(report):
    """Rows of very many threads, and one of those that share counters."""
    rows = report("threads", "--limit", "100000", file="crowd.hg")["threads"]
    return {"rows": rows, "shared": next(row for row in rows if row["slot_threads"] > 1)}


@pytest.fixture(scope="module")
def producer(report):
    """A thread whose blocks others free."""
    return max(report("threads", file="threads.hg")["threads"], key=lambda one: one["freed_by_others_bytes"] or 0)["tid"]


@pytest.fixture(scope="module")
def seen(heapgauge, env, folder, recordings, source, producer, crowd):
    """What the browser saw."""
    arguments = {"url": ["new.hg"], "threads": ["threads.hg"], "crowd": ["crowd.hg"], "sampled": ["sampled.hg"], "tagged": ["tagged.hg"], "compared": ["new.hg", "--against", "old.hg"], "runs": ["new.hg", "threads.hg", "tagged.hg", "--against", "old.hg"]}
    servers = {name: Server(heapgauge, *words, "--no-open", env=env, cwd=folder) for name, words in arguments.items()}
    plan = {name: server.url for name, server in servers.items()} | {"source": source, "saved": (folder / "saved.html").as_uri()}
    plan["producer"], plan["shared"] = producer, crowd["shared"]["tid"]
    plan["shots"] = os.environ.get("HEAPGAUGE_SHOTS", "")  # a folder for pictures to look at
    (folder / "plan.json").write_text(json.dumps(plan))
    try:
        done = subprocess.run(
            ["node", ROOT / "tests" / "web" / "page.mjs", folder / "plan.json"], capture_output=True, text=True, timeout=900, check=False
        )
    finally:
        for server in servers.values():
            server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def scene(seen):
    def get(name):
        found = seen["scenes"][name]
        assert "failed" not in found, found["failed"]
        return found

    return get


def words(cell):
    """The same of the text itself, where counts stand whole."""
    return int(re.match(r"[+−\d,]+", cell["text"]).group().replace(",", "").replace("−", "-").replace("+", ""))


# ---- every view shows what the report says ----


def test_start_here_has_the_numbers_of_the_summary(scene, report):
    start = scene("start")
    process = report("summary")["processes"][0]
    peak, leaked, churn, _, rss = start["figures"]
    assert (digits(peak), digits(leaked), digits(rss)) == (process["peak_bytes"], process["not_freed_bytes"], process["peak_rss_bytes"])
    assert words(churn) == process["calls"]
    assert digits(start["sum"]) == process["peak_bytes"]
    assert start["badge"]["text"] == "exact, nothing lost" or "to know" in start["badge"]["text"]
    assert len(start["findings"]) == report("advice")["finding_count"]
    left, held = (part["text"] for part in start["verdict"])
    assert "freed" in left and held.startswith("Peak ") and report("summary")["verdict"]["peak_owner"] in held


def test_the_balance_sheet_is_that_of_memory(scene, report):
    rows = {row[1]["text"]: digits(row[2]) for row in scene("start")["balance"]}
    last = report("memory")["memory"][-1]
    assert rows["requested"] == last["live_bytes"]
    assert rows["held"] == last["allocator_overhead_bytes"]
    assert rows["recorder"] == last["recorder_bytes"]
    assert rows["RSS"] == last["rss_bytes"]
    assert rows["private"] == last["private_bytes"]


@pytest.mark.parametrize(
    "title, cost, key",
    [
        ("Most at the peak", "peak", "live_bytes"),
        ("Most not freed at exit", "leaked", "live_bytes"),
        ("Most allocations", "calls", "calls"),
        ("Most temporary allocations", "temporary", "temporary_calls"),
    ],
)
def test_top_lists_are_the_owners_of_the_most(scene, report, title, cost, key):
    shown = scene("start")["tops"][title]
    owners = [row for row in report("functions", "--by", "own", "--cost", cost, "--limit", "7")["owners"] if row[key]]
    assert [digits(row["value"]) for row in shown] == [row[key] for row in owners]
    assert [row["name"] for row in shown] == [row["own"] for row in owners]


def test_a_site_is_called_after_the_frame_that_the_terminal_names(scene, command):
    text = command("report", "new.hg", "--view", "sites", "--cost", "total", "--kind", "heap", "--limit", "5", "--names", "full")
    for row in scene("sites")["rows"][:5]:
        name = row["Requested by"]["text"]
        assert re.sub(r"(lib\w+\.so.*|sqlite3)$", "", name) in text


def test_sites_are_those_of_the_report(scene, report):
    sites = report("sites", "--cost", "total", "--kind", "heap", "--limit", "12")["sites"]
    rows = scene("sites")["rows"]
    columns = {"Total": "total_bytes", "At peak": "peak_bytes", "At end": "not_freed_bytes", "Calls": "calls", "Temporary": "temporary_calls"}
    for row, site in zip(rows, sites, strict=True):
        assert {key: digits(row[title]) for title, key in columns.items()} == {key: site[key] for key in columns.values()}
        assert row["Requested by"]["title"].split("\n")[0] == site["stack"][0]["function"]


def test_groups_are_those_of_the_report(scene, report):
    for row, group in zip(scene("sites")["functions"], report("functions", "--cost", "calls", "--limit", "12")["functions"], strict=True):
        assert (digits(row["Self"]), digits(row["With callees"])) == (group["self"], group["calls"])
        assert row["Function"]["title"] == group["function"]
    modules = report("functions", "--cost", "leaked", "--by", "module")["modules"]
    assert [(r["Module"]["title"], digits(r["Self"])) for r in scene("sites")["modules"]] == [(m["module"], m["self"]) for m in modules]


def test_a_chosen_site_shows_its_whole_stack(scene, report):
    site = report("sites", "--cost", "total", "--kind", "heap", "--limit", "1")["sites"][0]
    assert [frame["title"] for frame in scene("siteDetail")["stack"]] == [frame["function"] for frame in site["stack"]]
    assert digits(scene("siteDetail")["facts"][0]) == site["peak_bytes"]


def heaviest_path(tree):
    """Of rows in preorder: the first child, and its first child, and so on."""
    return [row for i, row in enumerate(tree) if row["depth"] == i + 1 and all(tree[j]["depth"] == j + 1 for j in range(i))]


def test_the_flame_graph_is_the_tree(scene, report):
    path = heaviest_path(report("tree", "--no-own", "--cost", "total", "--threshold", "0")["tree"])[:6]
    assert [(node["name"], digits(node["value"])) for node in scene("flame")["path"]] == [(row["function"], row["total_bytes"]) for row in path]


def test_what_a_search_matches_is_what_focus_leaves(scene, report):
    shown = report("sites", "--cost", "total", "--kind", "heap", "--focus", "sqlite3Vdbe|main")
    share = shown["shown"] / shown["total"] * 100
    assert scene("flame")["matched"].startswith(f"{share:.1f} %, ")


def test_callers_and_callees_sum_up_the_function(scene, report):
    row = [f for f in report("functions", "--cost", "total")["functions"] if f["function"] == "sqlite3VdbeExec"][0]
    share = row["total_bytes"] / report("functions", "--cost", "total")["shown"] * 100
    assert f"{share:.1f} %" in scene("pivot")["pivot"]
    assert f"{share:.1f} %" in [cell["text"] for cell in scene("tree")["callees"]]


def test_the_tree_is_the_tree(scene, report):
    tree = report("tree", "--no-own", "--cost", "total", "--threshold", "0")["tree"]
    for shown, row in zip(scene("tree")["rows"], tree):
        assert (digits(shown["Total"]), shown["Function"]["title"]) == (row["total_bytes"], row["function"])


def test_time_reads_the_peak(scene, report):
    peak = [row for row in report("timeline")["timeline"] if row["peak"]][0]
    at, live, blocks, rss = scene("time")["reading"][:4]
    assert (digits(at), digits(live), digits(blocks)) == (peak["at_ns"], peak["live_bytes"], peak["live_blocks"])
    assert digits(rss) == peak["rss_bytes"]


def test_time_shows_the_memory_of_the_machine(scene, report):
    rows = report("memory")["memory"]
    assert len({row["at_ns"] for row in rows}) > 1 and scene("time")["charts"] == 6
    least = min(row["system_available_bytes"] for row in rows)
    (title,) = [title["title"] for title in scene("time")["titles"] if title["text"].startswith("The machine: at least ")]
    assert title == f"{least:,} B of {rows[0]['system_bytes']:,} B"


def test_layers_are_the_owners_of_the_most_over_time(scene, report):
    history = report("history", "--by", "own", "--cost", "peak", "--limit", "9")
    peak = [row for row in report("timeline")["timeline"] if row["peak"]][0]["at_ns"]
    column = history["snapshot_at_ns"].index(peak)
    shown = [digits(row[1]) for row in scene("time")["layers"]]
    owners = [owner["history"][column] for owner in history["owners"]]
    assert shown[: len(owners)] == owners
    assert sum(shown) == report("summary")["processes"][0]["peak_bytes"]


def test_sizes_are_those_of_the_report(scene, report):
    sizes = report("sizes", "--cost", "calls")["sizes"][:12]
    for row, size in zip(scene("sizes")["sizes"], sizes, strict=True):
        assert (words(row["Calls"]), digits(row["Total"])) == (size["calls"], size["total_bytes"])


def test_lifetimes_are_those_of_the_report(scene, report):
    lifetimes = report("lifetimes")
    for row, site in zip(scene("sizes")["lifetimes"], lifetimes["sites"]):
        assert (digits(row["Within 1 ms"]), digits(row["Freed"])) == (site["short_lived_frees"], site["frees"])
    assert len(scene("sizes")["bars"]) == len(lifetimes["lifetimes"])
    for bar, expected in zip(scene("sizes")["bars"], lifetimes["lifetimes"]):
        assert f"{expected['count']:,}" in bar["text"]


def test_reallocs_are_those_of_the_report(scene, report):
    for row, site in zip(scene("sizes")["reallocs"], report("reallocs")["sites"]):
        assert digits(row["Copied"]) == site["copied_bytes"]
        assert (words(row["Reallocs"]), words(row["Grown"])) == (site["realloc"]["calls"], site["realloc"]["grown_calls"])


def test_the_map_of_reallocs_holds_every_one(scene, report):
    counts = sorted(count for row in report("reallocs")["steps"].values() for count in row.values())
    assert counts and sorted(words({"text": cell["title"]}) for cell in scene("sizes")["steps"]) == counts


def test_the_map_over_time_adds_up_what_sites_held(scene, report):
    history = report("history", "--cost", "peak", "--limit", "300")
    columns = list(zip(*scene("sizes")["course"]))
    assert digits(columns[0][0]) >= 0 and len(columns) <= 18
    held = [sum(max(0, site["history"][i]) for site in history["sites"]) for i in range(len(history["snapshot_at_ns"]))]
    assert {sum(digits(cell) for cell in column) for column in columns} <= set(held)


def test_the_heat_map_holds_every_freed_block(scene, report):
    result = report("lifetimes")
    counts = sorted(count for row in result["lifetimes_by_size"].values() for count in row.values())
    assert sum(counts) == sum(bar["count"] for bar in result["lifetimes"])
    assert sorted(words({"text": cell["title"]}) for cell in scene("sizes")["heat"]) == counts


def test_threads_are_those_of_the_report(scene, report):
    threads = report("threads", file="threads.hg")
    columns = {"Calls": "calls", "Total": "total_bytes", "Frees": "frees", "Holds": "live_bytes", "For others": "freed_for_others_bytes"}
    for row, thread in zip(scene("threads")["threads"], threads["threads"]):
        assert {key: digits(row[title]) for title, key in columns.items()} == {key: thread[key] for key in columns.values()}
        if thread["stack_most_bytes"] is not None:
            assert digits(row["Stack"]) == thread["stack_most_bytes"] and digits(row["Reserved"]) == thread["stack_reserved_bytes"]
    assert sum(digits(cell) for cell in scene("threads")["handover"]) == threads["cross_thread_freed_bytes"] > 0
    process = report("processes", file="threads.hg")["processes"][0]
    assert digits(scene("threads")["processes"][0]["Peak"]) == process["peak_bytes"]


def test_the_end_is_shown_where_the_peak_of_threads_is_not_known_and_why(scene, report, producer):
    """Decision 025: the page asked for the peak, which is refused, and every view was an error."""
    peaks, filters = scene("peaks"), ("--thread", str(producer))
    held = report("sites", "--cost", "leaked", "--kind", "heap", *filters, file="threads.hg")
    assert held["shown"] > 0
    for view in ("sites", "flame", "tree", "source", "tags", "start"):
        shown = peaks[view]
        assert (shown["alerts"], digits(shown["sum"]), shown["asked"]) == (0, held["shown"], "peak"), view
        (why,) = shown["why"]
        assert "peak is not known" in why["text"] and "This is the end" in why["text"] and why["title"] == report("sites", *filters, file="threads.hg")["note"]
        assert "cost" not in shown["hash"], "what was asked for stays in the address"
        assert view == "start" or "--cost leaked" in shown["command"]
    assert peaks["start"]["lists"] == ["not known of these threads"] and peaks["start"]["card"] == "not known"
    assert digits(peaks["blocks"]["sum"]) == report("sites", "--cost", "blocks", "--at", "end", "--kind", "heap", *filters, file="threads.hg")["shown"]
    assert peaks["calls"]["alerts"] == 0 and peaks["calls"]["why"] == [], "another question is not about the peak"
    rows = report("functions", "--by", "thread", "--cost", "leaked", file="threads.hg")["threads"]
    assert [digits(row["At end"]) for row in peaks["each"]["rows"]] == [row["live_bytes"] for row in rows]
    assert len(peaks["each"]["why"]) == 1
    for known in ("all", "none"):
        peak = report("sites", "--cost", "peak", "--kind", "heap", file="threads.hg")["shown"]
        assert (digits(peaks[known]["sum"]), peaks[known]["why"]) == (peak, [])
    assert peaks["wrong"] == [] and peaks["refused"] == [], "nothing was asked that is refused"


def test_threads_that_share_counters_are_named(scene, report, crowd, heapgauge, env, folder):
    shown, rows = scene("crowd"), {row["tid"]: row for row in crowd["rows"]}
    assert any(note["text"] == report("threads", file="crowd.hg")["note"] for note in shown["notes"])
    columns = {"Holds": "live_bytes", "Freed by others": "freed_by_others_bytes", "For others": "freed_for_others_bytes"}
    together = 0
    for row in shown["threads"]:
        thread = rows[words(row["TID"])]
        for title, key in columns.items():
            assert (None if row[title]["text"] == "–" else digits(row[title])) == thread[key], (title, thread)
        others = thread["slot_threads"] - 1
        assert ("counted together with" in row["Thread"]["text"]) == (others > 0)
        together += others > 0
    assert together, "some of those in sight share counters"
    done = subprocess.run(
        [heapgauge, "report", "crowd.hg", "--view", "sites", "--cost", "peak", "--thread", str(crowd["shared"]["tid"])],
        env=env, cwd=folder, capture_output=True, text=True, check=False,
    )
    assert done.returncode != 0 and any(done.stderr.strip().removeprefix("heapgauge: ") in state for state in shown["shared"]["states"])
    assert shown["refused"] and all("status of 400" in text for text in shown["refused"])
    assert any("later in its place" in row["Thread"]["text"] for row in shown["groups"])


def test_filters_that_match_nothing_say_what_the_command_line_says(scene, heapgauge, env, folder):
    """An empty table said nothing, where the command line has a sentence."""
    assert len(scene("unmatched")["seen"]) == 12
    for address, shown in scene("unmatched")["seen"].items():
        line = shlex.split(shown["command"])
        done = subprocess.run([heapgauge, *line[1:]], env=env, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "--focus nobody" in done.stderr
        sentence = done.stderr.strip().removeprefix("heapgauge: ")
        assert f"Nothing matches{sentence}" in shown["states"], (address, shown)
        assert shown["alerts"] == 0
    assert len(scene("unmatched")["lists"]) >= 4 and all("matches --focus nobody" in text for text in scene("unmatched")["lists"])


def test_source_lines_have_the_numbers_of_the_report(scene, report, source):
    text = pathlib.Path(source).read_text().split("\n")
    lines = {row["source_line"]: row for row in report("functions", "--by", "line", "--cost", "total", file="threads.hg")["lines"] if row["source_file"] == source}
    shown = {int(row[2]["text"]): row for row in scene("source")["lines"]}
    assert lines.keys() & shown.keys()
    for number, row in shown.items():
        assert row[3]["text"] == text[number - 1].strip()
        if number in lines:
            assert (digits(row[0]), digits(row[1])) == (lines[number]["self"], lines[number]["total_bytes"])
        else:
            assert row[0]["title"] == row[1]["title"] == ""


def test_run_shows_command_modules_and_cost(scene, report):
    facts = {row[0]["text"]: row[1]["text"] for row in scene("run")["facts"]}
    run = report("summary")["run"]
    assert facts["Command"].split() == run["command"].split()
    assert (facts["Host"], facts["Kernel"]) == (run["host"], run["kernel"])
    shown = [(row[0]["text"], row[1]["text"], row[5]["title"]) for row in scene("run")["modules"][1:]]
    assert shown == [(m["module"], f"{m['frames']:,}", m["build_id"]) for m in report("modules")["modules"]]
    variables = report("globals", "--limit", "100")["variables"]
    shown = [(row[0]["text"], digits(row[1]), row[4]["text"], row[6]["title"]) for row in scene("run")["globals"][1:]]
    assert shown == [(v["variable"] or "[no symbols]", v["bytes"], v["section"], v["module"]) for v in variables] and len(shown) > 10


def test_compare_shows_what_diff_says(scene, diff):
    compare = scene("compare")
    for row, change in zip(compare["changes"][1:], diff("summary")["changes"], strict=True):
        assert row[0]["text"] == {"leaked": "not freed", "leaked blocks": "blocks not freed"}.get(change["measure"], change["measure"])
        assert [digits(cell) for cell in row[1:4]] == [change["before"], change["after"], change["change"]]
    for row, stack in zip(compare["stacks"], diff("sites", "--cost", "peak", "--kind", "heap")["stacks"]):
        assert [digits(row[title]) for title in ("Change", "Before", "After")] == [stack["change"], stack["before"], stack["after"]]
    for row, group in zip(compare["functions"], diff("functions", "--cost", "total")["functions"]):
        assert (digits(row["Self"]), row["Function"]["title"]) == (group["self"], group["function"])
    assert digits(compare["flame"]) == diff("tree", "--no-own", "--cost", "total", "--threshold", "0")["tree"][0]["total_bytes"]


def test_compare_opens_on_the_measure_that_changed_most(scene, diff):
    story = scene("compareStory")
    changes = {change["measure"]: abs(change["change"]) / change["before"] for change in diff("summary")["changes"] if change["before"]}
    most = max(("peak", "leaked", "total", "calls"), key=lambda measure: changes.get(measure, 0))
    assert most != "peak" and story["opened"] == f"#/compare?compare=1&cost={most}"
    assert story["chosen"].endswith("cost=peak")  # and stays there


def test_the_verdict_of_compare_is_first_and_that_of_diff(scene, command, recordings):
    story = scene("compareStory")
    line = re.search(r"^  verdict +(.*)$", command("diff", "old.hg", "new.hg"), re.M).group(1)
    plain = story["verdict"].replace("−", "-")
    if line.startswith("Peak and memory not freed"):
        line = line.removeprefix("Peak and memory not freed")
        assert plain == f"Peak{line} Not freed{line}"
    else:
        assert plain == line
    parts = ["Peak", "Live heap over time", "The change by function", "Measure", "Stacks that changed"]
    assert all(part["text"].startswith(words) for part, words in zip(story["order"], parts, strict=True)), story["order"]


def live_at(points, at):
    """The last point until then; None: the run had ended, or was not observed yet."""
    until = [point for point in points if point["at_ns"] <= at]
    return until[-1] if until and at <= points[-1]["at_ns"] else None


def test_compare_overlays_both_timelines(scene, report):
    overlaid = scene("compareStory")["overlaid"]
    answers = [report("timeline", "--limit", "1000", file=file) for file in ("old.hg", "new.hg")]
    runs = [answer["timeline"] for answer in answers]
    moments = set()
    for head, *rows in overlaid["shown"]:
        at = digits(head[5])
        moments.add(at)
        for row, name, answer in zip(rows, ("before old.hg", "after new.hg"), answers, strict=True):
            points = answer["timeline"]
            peak = next(point for point in points if point["peak"])
            here = live_at(points, at)
            assert row[0]["text"] == name
            assert [digits(cell) for cell in row[1:5]] == [peak["live_bytes"], peak["at_ns"], points[-1]["live_bytes"], answer["run"]["duration_ns"]]
            assert digits(row[5]) == here["live_bytes"] if here else row[5]["text"] in ("ended", "not yet observed")
    assert {0, max(runs[0][-1]["at_ns"], runs[1][-1]["at_ns"]), next(p["at_ns"] for p in runs[1] if p["peak"])} < moments
    assert re.match("At .*: before .*, after ", overlaid["said"])
    # The dashed mark of a peak alone is less than half of the height.
    assert all(count > 300 for count in scene("compareStory")["pixels"].values()), scene("compareStory")["pixels"]


def test_compare_has_the_differential_flame_graph(scene, diff):
    tree = scene("compareStory")["tree"]
    cost = re.search(r"cost=(\w+)", tree["hash"]).group(1)
    flame = diff("flame", "--cost", cost, "--fold-libraries", "--limit", "300")
    assert tree["whole"] == flame["shown"] == diff("sites", "--cost", cost, "--kind", "heap")["shown"] != 0
    at = -1
    for shown in tree["path"]:
        at = flame["nodes"]["parent"].index(at)
        assert digits(shown) == flame["nodes"]["value"][at]
        assert shown["text"].startswith(flame["names"][flame["nodes"]["name"][at]]["function"].split("(")[0])
        assert "before " in shown["text"]
    assert tree["hash"].startswith("#/flame?") and "compare=1" in tree["hash"]
    assert digits(tree["flame"]) == digits(tree["path"][-1]) and tree["path"][-1]["text"].startswith(tree["name"])


def test_compare_shows_the_spread_of_more_than_two_runs(scene, report):
    trend = scene("trend")
    runs = [report("summary", file=file)["processes"][0] for file in ("old.hg", "new.hg", "threads.hg", "tagged.hg")]
    keys = {"peak": "peak_bytes", "not freed": "not_freed_bytes", "total": "total_bytes", "calls": "calls"}
    for row, dots, (name, key) in zip(trend["rows"][1:], trend["dots"], keys.items(), strict=True):
        before, *newer = values = [run[key] for run in runs]
        least, median, most = sorted(newer)
        assert row[0]["text"] == name
        assert [digits(cell) for cell in row[2:]] == [before, least, median, most, most - least]
        assert [digits(dot) for dot in dots["titles"]] == values
        assert dots["heights"].index(min(dots["heights"])) == values.index(max(values))  # the largest is highest
    assert [digits(row[2]) for row in trend["second"][1:2]] == [runs[2]["peak_bytes"]]
    assert trend["wrong"] == [0, 0]


def test_every_question_has_the_sum_of_the_report(scene, report):
    sums = scene("questions")
    for cost in ("peak", "leaked", "total", "calls", "temporary", "max", "waste", "lifetime", "realloc", "rate"):
        assert digits(sums[cost]) == report("sites", "--cost", cost, "--kind", "heap", "--limit", "1")["shown"], cost
    assert digits(sums["blocks"]) == report("sites", "--cost", "blocks", "--at", "peak", "--kind", "heap", "--limit", "1")["shown"]


# ---- what a person does ----


def test_keys_lead_to_views_and_questions(scene):
    keys = scene("keys")
    names = ["flame", "sites", "tree", "source", "time", "sizes", "threads", "compare", "run", "tags", "start"]
    assert keys["views"] == [f"#/{name}" for name in names]
    assert keys["asked"] == ["#/start?cost=leaked", "#/start?cost=total", "#/start?cost=leaked"]
    assert keys["listed"] > 10 and keys["closed"] == 0
    assert keys["themes"] == ["light", "dark"]
    assert keys["focused"] == "filter"


def test_the_copied_command_prints_the_same_numbers(scene, command, report):
    words = scene("keys")["copied"].split()
    assert words[0] == "heapgauge"
    printed = json.loads(command(*words[1:], "--format", "json", "--limit", "5"))
    assert printed["shown"] == report("summary")["processes"][0]["peak_bytes"]


def test_arrows_move_in_a_table_and_headings_sort_it(scene, report):
    table = scene("table")
    sites = [f"{s['pid']}.{s['site']}" for s in report("sites", "--cost", "total", "--kind", "heap")["sites"]]
    chosen = [address.split("site=")[1] for address in table["hashes"]]
    assert chosen[:3] == [sites[0], sites[1], sites[0]]
    # The first 300 come at once, the others when they come into sight.
    assert chosen[3] == sites[min(300, len(sites)) - 1] and chosen[4] == sites[0]
    assert table["active"] == "row-0"
    means = [digits(row["Mean size"]) for row in table["sorted"]]
    assert means == sorted(means, reverse=True)
    assert "sort=-mean_bytes" in table["sortHash"]
    # Of all sites, not of those that were loaded.
    heaviest = report("sites", "--cost", "calls", "--kind", "heap", "--limit", "12")["sites"]
    assert [digits(row["Calls"]) for row in table["byCalls"]] == [site["calls"] for site in heaviest]
    assert [digits(row["Total"]) for row in table["byCalls"]] == [site["total_bytes"] for site in heaviest]
    assert [re.search(r"sort=([-\w]+)", address).group(1) for address in table["byKeys"]] == ["calls", "-mean_bytes", "-calls"]
    assert "Own max" in table["widened"][0]


def test_enter_zooms_into_the_flame_graph_and_backspace_out(scene):
    flame = scene("flameKeys")
    assert "zoom=0*8" in flame["zoomed"] and "zoom=0*7" in flame["out"] and "zoom" not in flame["whole"]


def test_a_flame_graph_that_is_zoomed_in_is_moved_by_dragging_and_by_keys(scene):
    seen = scene("flamePan")
    (low, high), (dragged, _), (moved, _) = seen["zoomed"], seen["dragged"], seen["moved"]
    span = high - low
    assert low > 0 and abs(dragged - low - span * 100 / seen["width"]) < span / 100
    assert abs(dragged - moved - span / 5) < span / 100
    assert seen["left"][0] == 0 and abs(seen["left"][1] - span) < span / 1000, "it does not leave the graph"
    assert "node=" not in seen["chosen"], "a drag selects nothing"
    (begin, out), (first, last) = seen["out"], seen["into"]
    assert out - begin > span * 1.2 and abs(last - first - 0.7 * (out - begin)) < span / 100, "o and i zoom as the wheel does"
    assert "%" in seen["tip"] and re.search(r"\.c|\.so|sqlite3", seen["tip"])


def test_a_narrow_page_draws_the_rows_that_are_seen_and_no_others(scene):
    """All rows were in the document, which asked for more and more of them, and the source was below all functions."""
    seen = scene("narrow")
    assert all(0 < count < 100 for count in seen["lines"].values()), seen
    assert seen["code"] < 844, seen


def test_names_are_in_sight_on_a_narrow_page(scene):
    """Without scrolling to the side, however deep in a tree."""
    for address, places in scene("narrow")["names"].items():
        assert places and all(left < 280 and right <= 390 for left, right in places), (address, places)


def test_the_picture_of_the_peak_leads_with_own_code_and_opens_the_flame_graph(scene, report):
    """Its nodes are those of the tree, which leaves out what is before main."""
    icicle = scene("icicle")
    path = heaviest_path(report("tree", "--cost", "peak", "--threshold", "0")["tree"])[:3]
    assert [text.split(", ")[0].split(" (")[0] for text in icicle["path"]] == [row["function"] for row in path]
    assert "#/flame?" in icicle["hash"] and "fold-libraries=1" in icicle["hash"] and "zoom=" in icicle["hash"]
    assert icicle["opened"] == path[-1]["function"]


def test_filters_are_those_of_the_report(scene, report):
    filters = scene("filters")
    total = ("--cost", "total", "--kind", "heap", "--limit", "1")
    assert digits(filters["focus"]["sum"]) == report("sites", *total, "--focus", "sqlite3VdbeExec")["shown"]
    both = report("sites", *total, "--focus", "sqlite3VdbeExec", "--ignore", "sqlite3BtreeInsert")["shown"]
    assert digits(filters["both"]["sum"]) == both
    assert [chip["text"] for chip in filters["both"]["chips"]] == ["sqlite3VdbeExec", "sqlite3BtreeInsert"]
    assert filters["back"] == filters["focus"]["hash"]
    assert digits(filters["size"]["sum"]) == report("sites", *total, "--min-size", "4k")["shown"]


def test_the_brush_asks_for_kept_moments(scene, report):
    brush = scene("brush")
    at = re.search(r"at=snap%3A(\d+)", brush["click"]["hash"]).group(1)
    live = ("--cost", "live", "--kind", "heap", "--limit", "1")
    assert digits(brush["click"]["sum"]) == report("sites", *live, "--at", f"snap:{at}")["shown"]
    # The peak is a snapshot, too, and may be the nearest one.
    later, earlier = re.search(r"cost=grown&at=(snap%3A\d+|peak|end)&minus=(snap%3A\d+|peak)", brush["drag"]["hash"]).groups()
    assert later != earlier
    later, earlier = later.replace("%3A", ":"), earlier.replace("%3A", ":")
    grown = report("sites", *live, "--at", later, "--minus", earlier)
    assert digits(brush["drag"]["sum"]) == grown["shown"]
    assert brush["drag"]["moment"] == grown["moment"]
    assert "cost=live" in brush["stepped"] and "cost=grown" in brush["ranged"]


def test_a_range_counts_what_was_allocated_in_it(scene, report):
    brush = scene("brushCounted")
    later, earlier = re.search(r"cost=calls&at=(snap%3A\d+|end)&minus=(snap%3A\d+)", brush["drag"]["hash"]).groups()
    window = ("--at", later.replace("%3A", ":"), "--minus", earlier.replace("%3A", ":"))
    calls = report("sites", "--cost", "calls", "--kind", "heap", *window)
    assert digits(brush["drag"]["sum"]) == calls["shown"] < report("sites", "--cost", "calls", "--kind", "heap", "--limit", "1")["shown"]
    assert brush["drag"]["moment"].endswith(calls["moment"])
    # The range stays when another number is chosen that is counted, until the whole run is.
    total = report("sites", "--cost", "total", "--kind", "heap", "--limit", "1", *window)
    assert digits(brush["total"]["sum"]) == total["shown"] and "minus=" in brush["total"]["hash"]
    whole = report("sites", "--cost", "total", "--kind", "heap", "--limit", "1")
    assert digits(brush["whole"]["sum"]) == whole["shown"] and "minus=" not in brush["whole"]["hash"]
    assert brush["whole"]["moment"].endswith("over the whole run")


def test_an_address_shows_another_person_the_same(scene):
    trip = scene("roundTrip")
    assert trip["here"] == trip["there"]
    assert "ignore=" in trip["hash"] and "sort=" in trip["hash"] and trip["here"]["side"]


# ---- what holds for the page as a whole ----


def test_axe_finds_nothing_wrong_in_any_view_state_theme_or_width(seen):
    states = {"detail", "keys", "columns", "filtered", "zoomed", "pointed", "moment", "pivot"}
    for theme in ("light", "dark"):
        for width in (1280, 390):
            looked = {where.removeprefix(f"{theme} {width} ") for where in seen["wrongs"] if where.startswith(f"{theme} {width} ")}
            assert len(looked) >= 21 + len(states) and states <= looked
    assert {where: wrong for where, wrong in seen["wrongs"].items() if wrong} == {}


def test_nothing_is_wider_than_the_screen(seen):
    assert len(seen["overflows"]) >= 4 * 21
    assert {where: over for where, over in seen["overflows"].items() if over > 0} == {}


def test_no_error_on_the_console(seen):
    assert {where: errors for where, errors in seen["errors"].items() if errors} == {}


def test_nobody_else_is_asked(seen):
    for where, hosts in seen["hosts"].items():
        assert all(host == "null" if where == "saved" else host.startswith("http://127.0.0.1:") for host in hosts), where
        assert len(hosts) == 1


def test_the_saved_page_opens_from_disk(scene, report):
    saved = scene("saved")
    assert digits(saved["figures"][0]) == report("summary")["processes"][0]["peak_bytes"]
    assert saved["flame"] == 1 and saved["rows"] > 5
    assert saved["absent"].startswith("Not in this file") and "heapgauge view new.hg" in saved["absent"]


def test_troubles_are_said_in_words(scene):
    troubles = scene("troubles")
    assert "is not a regular expression" in troubles["broken"]
    assert "Restart it" in troubles["gone"]


# ---- estimates ----


def error_of(cell):
    """What a tooltip has behind the ±; 0 if nothing."""
    title = cell["title"] if isinstance(cell, dict) else cell
    found = re.search(r" ± ([\d,]+)", title)
    return int(found.group(1).replace(",", "")) if found else 0


def near(shown, error):
    """The error as the report has it, to its last digit."""
    return abs(shown - error) <= 1


def test_estimates_have_their_errors_beside_them(scene, report):
    seen = scene("sampled")
    process = report("summary", file="sampled.hg")["processes"][0]
    assert process["mode"] == "sampled"
    peak, leaked, churn, *_ = seen["start"]["figures"]
    assert "±" in peak["text"] and "±" not in churn["text"] and digits(peak) == process["peak_bytes"]
    assert "samples" in seen["start"]["note"] and "too high on average" in seen["start"]["note"]
    assert seen["start"]["badge"].startswith("sampled 1 in 4 KiB, ±")
    assert "±" in seen["start"]["sum"]["text"] and near(error_of(seen["start"]["sum"]), process["peak_bytes_error"])
    sites = report("sites", "--cost", "total", "--kind", "heap", file="sampled.hg")["sites"]
    for row, site in zip(seen["sites"], sites):
        for title, key in {"Total": "total_bytes", "Calls": "calls", "At peak": "peak_bytes", "At end": "not_freed_bytes"}.items():
            assert digits(row[title]) == site[key] and near(error_of(row[title]), site[f"{key}_error"])
            assert ("±" in row[title]["text"]) == (site[f"{key}_error"] > 0)
    assert any(error_of(fact) for fact in seen["facts"]) and seen["whiskers"] > 0
    functions = report("functions", "--cost", "total", file="sampled.hg")["functions"]
    for row, group in zip(seen["functions"], functions):
        assert near(error_of(row["Self"]), group["self_error"]) and near(error_of(row["With callees"]), group["total_bytes_error"])


def test_trees_sizes_threads_and_tags_have_errors_too(scene, report):
    seen = scene("sampled")
    tree = report("tree", "--no-own", "--cost", "total", "--threshold", "0", file="sampled.hg")["tree"]
    assert near(error_of(seen["tree"][0]["Total"]), tree[0]["total_bytes_error"]) and tree[0]["total_bytes_error"] > 0
    assert near(error_of(seen["flame"]), tree[0]["total_bytes_error"]) and "±" in seen["tip"]
    for row, size in zip(seen["sizes"], report("sizes", file="sampled.hg")["sizes"]):
        assert near(error_of(row["Calls"]), size["calls_error"])
    threads = report("threads", file="sampled.hg")["threads"]
    assert near(error_of(seen["threads"][0]["Frees"]), threads[0]["frees_error"]) and threads[0]["frees_error"] > 0
    tags = report("tags", file="sampled.hg")["tags"]
    for row, tag in zip(seen["tags"], tags):
        assert near(error_of(row["Total"]), tag["total_bytes_error"])
    assert any("±" in row["Total"]["text"] for row in seen["tags"])


def test_lines_over_time_have_a_band(scene):
    seen = scene("sampled")
    assert any("±" in one["text"] for one in seen["reading"])
    assert seen["band"] > 1000


# ---- what the program says of its memory ----


def test_tags_are_a_tree_with_self_and_total(scene, report):
    seen = scene("tags")
    tags = report("tags", "--cost", "total", file="tagged.hg")["tags"]
    columns = {
        "Total": "value", "Self": "self", "Calls": "calls", "At peak": "peak_bytes", "At end": "not_freed_bytes",
    }  # fmt: skip
    for row, tag in zip(seen["rows"], tags, strict=True):
        assert {title: digits(row[title]) for title in columns} == {title: tag[key] for title, key in columns.items()}
        assert row["Tag"]["title"] == (tag["tag"] or "")
        if tag["visits"]:
            assert digits(row["Visits"]) == tag["visits"] and digits(row["Per visit"]) == tag["bytes_per_visit"]
    deeper = [a["depth"] < b["depth"] for a, b in zip(tags, tags[1:])] + [False]
    assert seen["levels"] == [[str(tag["depth"]), "true" if inner else None] for tag, inner in zip(tags, deeper)]
    # Shut, the first tag hides what is inside it.
    assert [row["Tag"]["title"] for row in seen["shut"]] == [tag["tag"] or "" for tag in tags if not (tag["tag"] or "").startswith("serve/")]
    # By visits, the fewest first among siblings.
    visits = {tag["tag"]: tag["visits"] for tag in tags}
    inside = [row["Tag"]["title"] for row in seen["sorted"] if row["Tag"]["title"].startswith("serve/tenant=acme/")]
    assert len(inside) == 2 and visits[inside[0]] < visits[inside[1]]


def test_a_chosen_tag_shows_all_its_numbers(scene, report):
    tag = report("tags", "--cost", "total", file="tagged.hg")["tags"][0]
    rows = {row[0]["text"]: [digits(cell) for cell in row[1:]] for row in scene("tags")["detail"] if row[0]["text"] in ("Total", "Calls", "At end")}
    assert rows == {
        "Total": [tag["total_bytes"], tag["self_total_bytes"]],
        "Calls": [tag["calls"], tag["self_calls"]],
        "At end": [tag["not_freed_bytes"], tag["self_not_freed_bytes"]],
    }


def test_tags_labels_and_pools_filter_every_view(scene, report):
    seen = scene("tags")
    assert "tag=" in seen["filtered"]["hash"]
    assert digits(seen["filtered"]["sum"]) == report("sites", "--cost", "total", "--tag", "^serve(/|$)", file="tagged.hg")["shown"]
    assert all(chips == ["^serve(/|$)"] for chips in seen["sums"].values())
    labels = report("functions", "--by", "label", "--cost", "total", file="tagged.hg")["labels"]
    assert [(row["Label"]["text"], digits(row["Total"])) for row in seen["labels"]] == [(one["label"], one["total_bytes"]) for one in labels]
    assert digits(seen["labelled"]) == labels[0]["total_bytes"]
    (pool,) = report("pools", file="tagged.hg")["pools"]
    (row,) = seen["pools"]
    assert (row["Pool"]["text"], digits(row["Live at the end"]), digits(row["Calls"])) == ("arena", pool["live_bytes"], pool["calls"])
    assert {"acme", "globex"} & {one["text"] for one in seen["named"]}

# SPDX-License-Identifier: Apache-2.0
"""The views of time, growth and timeline, on programs with one site of each course (tests/targets/blocks/t_growth.c, growth_courses.c)."""

import re
import shlex
import shutil
import subprocess

import pytest

from running import stood_still

LEAKED_PER_SECOND = 1000 * 1000 / 5  # 1000 bytes every 5 ms


def by_function(result, program="t_growth"):
    """The rows by the innermost function of the program itself."""
    rows = {}
    for row in result["sites"]:
        for frame in row["stack"]:
            if frame["module"].endswith(program):
                rows[frame["function"]] = row
                break
    return rows


def test_each_course_gets_its_verdict(record, report_json, target):
    run = undisturbed(record, report_json, [target("t_growth"), "3000"])
    assert run.returncode == 0
    result = report_json(run.path, "growth")
    sites = by_function(result)
    assert {name: row["verdict"] for name, row in sites.items()} == {
        "leak": "growing",
        "fill_cache": "bounded",
        "add_to_batch": "bounded",
    }
    assert result["unknown_sites"] == 1, "what began late"
    leak = sites["leak"]
    # A loaded machine delays single steps, but the clock they go by is absolute.
    assert leak["bytes_per_second"] == pytest.approx(LEAKED_PER_SECOND, rel=0.15)
    assert leak["slowest_bytes_per_second"] <= leak["bytes_per_second"] <= leak["fastest_bytes_per_second"]
    assert leak["confidence_per_mille"] >= 990
    assert leak["frees"] == 0 and leak["live_bytes"] == 600 * 1000
    assert abs(sites["add_to_batch"]["bytes_per_second"]) < LEAKED_PER_SECOND / 3
    assert result["sites"][0] == leak, "the growing one comes first"
    assert result["growing_sites"] == 1
    assert result["growing_bytes_per_second"] == leak["bytes_per_second"]


def test_a_short_run_gives_no_verdict(record, report_json, target):
    run = record([target("t_growth"), "500"])
    result = report_json(run.path, "growth")
    assert result["sites"] == [] and result["unknown_sites"] == 4
    assert result["growing_sites"] == 0
    assert result["heap_verdict"] == "unknown"


def test_n14_too_little_data_is_one_line(record, heapgauge, target):
    """N14: and not a table of sites about which nothing is known."""
    run = record([target("t_growth"), "500"])
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    text = subprocess.run([heapgauge, "report", run.path, "--view", "growth"], **ask).stdout
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("  !")]
    assert len(lines) == 1 and "unknown" in lines[0]
    assert "\n  growth" not in subprocess.run([heapgauge, "report", run.path], **ask).stdout


GROWING = {"leaks", "leaks_slowly", "begins_late"}
BOUNDED = {"stops_early", "stops_late", "at_start", "replaces", "rises_and_falls", "comes_and_goes"}


def undisturbed(record, report_json, argv, *options):
    """A run during which neither program nor collector stood still for long; else the last of a few."""
    for _ in range(8):
        run = record(argv, *options)
        if not stood_still(report_json(run.path, "timeline")["timeline"]):
            break
    return run


def judged(record, report_json, target, end="keeps"):
    """A run of which enough is known to judge every site: on a busy machine it has to be longer. A wrong verdict is no reason for another."""
    for milliseconds in (4000, 8000, 16000):
        run = undisturbed(record, report_json, [target("growth_courses"), str(milliseconds), end])
        rows = by_function(report_json(run.path, "growth"), "growth_courses")
        if all(rows.get(name, {}).get("verdict", "unknown") != "unknown" for name in GROWING | BOUNDED):
            break
    return run


@pytest.mark.parametrize("end", ["keeps", "frees"])
def test_n14_growth_is_what_still_rises_at_the_end(record, report_json, target, end):
    """N14: what climbs for three quarters of the run grows, whether or not the program frees it on its way out; what stopped
    does not. C13: nor is anything said of a site with four blocks."""
    run = judged(record, report_json, target, end)
    rows = by_function(report_json(run.path, "growth"), "growth_courses")
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert {name for name in verdicts if verdicts[name] == "growing"} == GROWING
    assert {name for name in verdicts if verdicts[name] == "bounded"} - {"four_blocks"} == BOUNDED
    assert verdicts.get("four_blocks") != "growing"


def said_by_all(heapgauge, report_json, path):
    """What grows, in bytes a second and sites: by the view, and in the words of the summary, which are the view's."""
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    view = report_json(path, "growth")
    headline = subprocess.run([heapgauge, "report", path, "--view", "growth"], **ask).stdout.splitlines()[0]
    summary = subprocess.run([heapgauge, "report", path], **ask).stdout
    words = re.search(r"\S+ \S+/s in \d+ sites?", headline)
    if words:
        assert summary.count(words.group()) == 2, "its line, and where to look next"
    else:
        assert "growing" not in summary and "\n  growth" not in summary and view["growing_bytes_per_second"] == 0
    checked = subprocess.run(
        [heapgauge, "check", path, "--max-growth", "0", "--format", "json"], stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    assert f'"value":{view["growing_bytes_per_second"]}' in checked.replace(" ", "")
    assert view["growing_bytes_per_second"] == sum(
        row["bytes_per_second"] for row in view["sites"] if row["verdict"] == "growing"
    )
    return view


def test_n14_summary_view_and_check_agree(record, report_json, heapgauge, target):
    """N14, C13: one definition, and the summary's rate is of the sites that it is said of."""
    run = judged(record, report_json, target)
    view = said_by_all(heapgauge, report_json, run.path)
    growing = {name for name, row in by_function(view, "growth_courses").items() if row["verdict"] == "growing"}
    assert growing - {"four_blocks"} == GROWING and view["growing_sites"] == len(growing)
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    summary = subprocess.run([heapgauge, "report", run.path], **ask).stdout.splitlines()
    line = next(line for line in summary if line.startswith("  growth"))
    assert "leaks (growth_courses.c" in line
    left = next(line for line in summary if line.startswith("  not freed"))
    assert "growing" not in left


def test_growth_of_samples_has_its_error(record, report_json, target):
    run = undisturbed(record, report_json, [target("growth_courses"), "3000"], "--mode", "sample", "--interval", "2KiB")
    row = by_function(report_json(run.path, "growth"), "growth_courses")["leaks"]
    assert row["verdict"] == "growing" and 0 < row["bytes_per_second_error"] < row["bytes_per_second"]


NUMBERS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {}) "
BUSY = NUMBERS + "SELECT sum(x * x % 7) FROM c;\n"
INSERT = NUMBERS + "INSERT INTO t SELECT x, randomblob(200) FROM c;\n"


@pytest.mark.skipif(not shutil.which("sqlite3"), reason="needs sqlite3")
@pytest.mark.parametrize("flat", [True, False])
def test_n14_a_database_that_has_its_size_does_not_grow(record, report_json, heapgauge, scratch, flat):
    """N14: sqlite, flat for the second half of its time, and the same where it fills until the end; both free all of it."""
    fill = (INSERT.format(4000) + BUSY.format(100000)) * 20
    work = BUSY.format(400000) * 7
    script = scratch / "script.sql"
    script.write_text("CREATE TABLE t(a, b);\n" + (fill + work if flat else work + fill * 2))
    run = undisturbed(record, report_json, ["sqlite3", ":memory:", f".read {script}"])
    assert run.returncode == 0
    view = said_by_all(heapgauge, report_json, run.path)
    assert view["heap_verdict"] == ("bounded" if flat else "growing")
    assert (view["growing_sites"] == 0) == flat
    summary = subprocess.run([heapgauge, "report", run.path], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "sqlite3Malloc" not in summary.replace(" via sqlite3Malloc", ""), "N20: sqlite's wrapper of malloc"


def test_timeline_and_kept_moments_agree(record, report_json, target):
    for milliseconds in "700", "2800", "11200":  # on a busy machine a moment comes when the collector has its turn
        run = record([target("t_growth"), milliseconds])
        rows = report_json(run.path, "timeline")["timeline"]
        if sum(bool(row["snapshot"]) for row in rows) >= 5:
            break
    assert [row["at_ns"] for row in rows] == sorted(row["at_ns"] for row in rows)
    summary = report_json(run.path)["processes"][0]
    peaks = [row for row in rows if row["peak"]]
    peak_at_ns = summary["started_offset_ns"] + summary["peak_at_ns"]
    assert [(row["live_bytes"], row["at_ns"]) for row in peaks] == [(summary["peak_bytes"], peak_at_ns)]
    # Every point is within the peak, which is exact to its bound.
    assert max(row["live_bytes"] for row in rows) <= summary["peak_bytes"] + summary["peak_bound_bytes"]
    assert rows[-1]["live_bytes"] == summary["not_freed_bytes"] and rows[-1]["calls"] == summary["calls"]
    kept = {row["snapshot"]: row for row in rows if row["snapshot"]}
    later = {row["snapshot"]: max(next_row["live_bytes"] for next_row in rows[i : i + 4]) for i, row in enumerate(rows)}
    assert list(kept) == list(range(1, len(kept) + 1)) and len(kept) >= 5
    for number in (1, len(kept) // 2, len(kept)):
        at = report_json(run.path, "functions", "--by", "process", "--cost", "live", "--at", f"snap:{number}")
        # Sites are read one after the other while the program goes on, for as long as the reader waits for a CPU.
        assert kept[number]["live_bytes"] - 20000 <= at["shown"] <= later[number] + 20000


def test_timeline_for_people_is_as_long_as_asked_and_has_the_peak(record, heapgauge, target):
    run = record([target("t_growth"), "400"])
    done = subprocess.run(
        [heapgauge, "report", run.path, "--view", "timeline", "--limit", "8"],
        env={"LC_ALL": "C"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    chart = [line for line in done.stdout.splitlines() if "#" in line]
    assert 4 <= len(chart) <= 8
    assert sum("peak" in line for line in chart) == 1
    assert max(chart, key=lambda line: line.count("#")).count("#") == 40


def test_the_summary_says_what_grows_and_its_next_commands_work(record, heapgauge, target):
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    for milliseconds in "2400", "9600", "38400":  # on a busy machine a short run has few samples, of which nothing is sure
        run = record([target("t_growth"), milliseconds])
        text = subprocess.run([heapgauge, "report", run.path], **ask).stdout
        growth = next((line for line in text.splitlines() if line.startswith("  growth")), None)
        if growth:
            break
    rate = float(re.search(r"growth +([0-9.]+) KiB/s", growth).group(1))
    assert rate * 1024 == pytest.approx(LEAKED_PER_SECOND, rel=0.2)
    commands = re.findall(r"-> heapgauge (report .*)", text)
    assert [command.rpartition("--view ")[2] for command in commands] == ["advice", "growth", "leaks"]
    for command in commands:
        shown = subprocess.run([heapgauge, *shlex.split(command)], **ask).stdout
        assert "leak" in shown

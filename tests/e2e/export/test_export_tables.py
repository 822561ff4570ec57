# SPDX-License-Identifier: Apache-2.0
"""Sites as CSV and JSON lines, and docs/howto/sql.md: every command and query of it, over a real recording."""

import csv
import json
import os
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS
from exports import ROOT, safe, scene  # noqa: F401

CASES = [
    ("plain", []),
    ("plain", ["--at", "peak"]),
    ("plain", ["--kind", "mmap"]),
    ("plain", ["--focus", "take"]),
    ("tree", []),
    ("odd", []),
    ("bare", []),
]
PAGE = (ROOT / "docs" / "howto" / "sql.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
# Report and export call them the same, except for what is one number of several there.
NUMBERS = (
    "calls total_bytes frees freed_bytes live_bytes live_blocks not_freed_bytes not_freed_blocks peak_bytes peak_blocks max_bytes"
    " temporary_calls internal_fragmentation_bytes lifetime_ns copied_bytes"
).split()


def by_site(rows):
    return {(int(row["pid"]), int(row["site"])): row for row in rows}


@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_tables_have_every_number_of_every_site(scene, name, options):
    it = scene(name)
    with open(it.export("csv", *options), newline="", encoding="utf-8") as file:
        rows = by_site(csv.DictReader(file))
    lines = by_site(map(json.loads, it.export("jsonl", *options).read_text().splitlines()))
    asked = [*options, *([] if "--at" in options else ["--cost", "leaked"])]
    sites = by_site(it.sites(*asked, *([] if "--kind" in options else ["--kind", "all"])))
    assert rows.keys() == lines.keys() == sites.keys()
    for key, site in sites.items():
        expected = [site[number] for number in NUMBERS]
        assert [int(rows[key][number]) for number in NUMBERS] == [lines[key][number] for number in NUMBERS] == expected
        assert int(rows[key]["realloc_calls"]) == site["realloc"]["calls"]
        assert int(rows[key]["moved_calls"]) == site["realloc"]["moved_calls"]
        stack = [frame["function"] for frame in site["stack"][::-1]]
        assert lines[key]["stack"] == stack
        assert rows[key]["stack"] == ";".join(safe(frame).replace(";", ":") for frame in stack)
        assert rows[key]["kind"] == lines[key]["kind"] == site["kind"]
        assert rows[key]["function"] == safe(lines[key]["function"])
        assert rows[key]["file"] == (lines[key]["file"] or "")


def test_tables_of_a_thread_have_its_numbers_alone(scene):
    it = scene("plain")
    thread = str(next(t for t in it.report("threads")["threads"] if t["total_bytes"] == 6500)["tid"])
    lines = [json.loads(line) for line in it.export("jsonl", "--thread", thread).read_text().splitlines()]
    assert sum(line["total_bytes"] for line in lines) == 6500
    assert sum(line["live_bytes"] for line in lines) == it.whole("--cost", "leaked", "--thread", thread)


def test_duckdb_reads_odd_names_and_nothing(scene):
    import duckdb

    names = duckdb.sql(f"SELECT function FROM '{scene('odd').export('csv')}'").fetchall()
    assert {row[0] for row in names} >= {'semi;colon, comma 12', "quote\"d 'name' \\back", "bytes \ufffd\ufffd end", "wörter 名前"}
    assert duckdb.sql(f"SELECT count(*) FROM read_csv('{scene('empty').export('csv')}', header = true)").fetchall() == [(0,)]


@pytest.fixture(scope="module")
def page(heapgauge, target, tmp_path_factory):
    """Runs the blocks of the page in order, in one folder. A table for each query, as a list of dicts."""
    import duckdb

    folder = tmp_path_factory.mktemp("sql")
    shutil.copy(target("exported"), folder / "server")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    env["PATH"] = f"{heapgauge.parent}:{env['PATH']}"
    tables = []
    here = os.getcwd()
    os.chdir(folder)
    try:
        for language, text in BLOCKS:
            if language == "sh":
                done = subprocess.run(["bash", "-e", "-c", text], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
                assert done.returncode == 0, done.stderr
            elif language == "sql":
                answer = duckdb.sql(text)
                tables.append([dict(zip(answer.columns, row)) for row in answer.fetchall()] if answer else [])
    finally:
        os.chdir(here)
    return folder, tables


def test_every_query_of_the_page_answers(page):
    folder, tables = page
    assert len(tables) == PAGE.count("```sql") == 10
    assert all(tables[:-1]), "a query that finds nothing shows nothing"
    assert (folder / "runs.parquet").stat().st_size > 0


def test_the_queries_agree_with_the_report(page, heapgauge):
    from exports import Scene

    folder, tables = page
    it = Scene(heapgauge, folder / "run.hg")
    modules, functions, callees, small, lifetimes, grown, leaks, change, *_ = tables
    assert sum(row["bytes"] for row in modules) == it.whole("--cost", "peak")
    said = it.functions("--cost", "total")
    assert len(functions) == 20 and all(row["bytes"] == said[row["function"]][1] for row in functions)
    assert functions[0]["bytes"] == max(total for _, total in said.values())
    below = {row["callee"]: row["peak"] for row in callees}
    assert below["shop::(anonymous namespace)::freed_after_peak()"] == 123456
    assert {(row["calls"], row["mean_bytes"]) for row in small} == {
        (s["calls"], s["total_bytes"] / s["calls"]) for s in it.sites() if s["total_bytes"] <= 64 * s["calls"]
    }
    assert sum(row["freed"] for row in lifetimes) == sum(s["frees"] for s in it.sites("--kind", "all"))
    assert sum(row["realloc_calls"] for row in grown) == 4
    assert sum(row["bytes"] for row in leaks) == it.whole("--cost", "leaked")
    # The second run has a child process; both hold something more at their peaks, on one stack.
    assert change[0]["stack"].endswith("main;shop::(anonymous namespace)::take(unsigned long)")
    assert change[0]["change"] > 0


def test_the_page_names_every_column(scene):
    header = scene("plain").export("csv").read_text().splitlines()[0].split(",")
    named = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", PAGE, re.M)))
    assert named == header

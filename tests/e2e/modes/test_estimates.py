# SPDX-License-Identifier: Apache-2.0
"""Every number of a sampled recording has its standard error beside it, in every view and export, and the error tells the
truth: the same program recorded exactly is within a few of them."""

import csv
import gzip
import io
import json
import math
import subprocess

import pytest

from compiled import compile_c

# Known sites, sizes, threads and tags; it holds most at its end but for the last frees.
PROGRAM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
enum { SMALL = 150000, MIDDLE = 40000, LARGE = 40 };
static void *kept[SMALL + MIDDLE + LARGE];
static int count;
static void keep(void *block) { kept[count++] = block; }
__attribute__((noinline)) static void *small_block(void) { return malloc(64); }
__attribute__((noinline)) static void *middle_block(int i) { return malloc(i % 2 ? 700 : 1500); }
__attribute__((noinline)) static void *large_block(void) { return calloc(1, 300000); }
static void *churn(void *unused)
{
	for (int i = 0; i < MIDDLE; i++) free(middle_block(i));
	return unused;
}
int main(void)
{
	{
		HG_SCOPE("load");
		for (int i = 0; i < SMALL; i++) { void *p = small_block(); if (i % 3 == 0) keep(p); else free(p); }
	}
	pthread_t thread;
	pthread_create(&thread, NULL, churn, NULL);
	pthread_join(thread, NULL);
	{
		HG_SCOPE("build");
		for (int i = 0; i < MIDDLE / 2; i++) keep(middle_block(i));
		for (int i = 0; i < LARGE; i++) keep(large_block());
	}
	hg_snapshot("built");
	usleep(60000);
	for (int i = 0; i < SMALL / 6; i++) free(kept[i]);
	return 0;
}
"""
INTERVAL = "16KiB"
SITE_VIEWS = ["sites", "leaks", "peak", "temporary", "lifetimes"]
AXES = ["function", "line", "file", "module", "thread", "type", "process", "tag"]
# Made of the clock, of what the kernel says, or of when the collector looked.
BY_THE_CLOCK = ("per_second", "lifetime", "_ns", "memory", "beyond", "slack", "ages", "waste_each")


@pytest.fixture
def pair(heapgauge, record, scratch):
    """(exact, sampled): the paths of two recordings of the program."""
    include = heapgauge.parents[2] / "include"
    program = compile_c(scratch, "estimated", PROGRAM, f"-I{include}", "-pthread", "-O1")
    exact = record([program])
    kept = scratch / "exact.hg"
    exact.path.rename(kept)
    sampled = record([program], "--mode", "sample", "--interval", INTERVAL)
    assert (exact.returncode, sampled.returncode) == (0, 0)
    return kept, sampled.path


def stack_key(row):
    return (tuple(frame["function"] for frame in row["stack"]), row.get("kind"))


def rows_of(result, view, axis=None):
    """Rows by something that two recordings have in common."""
    if view in SITE_VIEWS or view in ("growth", "history"):
        return {stack_key(row): row for row in result["sites"]}
    if view == "functions":
        table = next(t for t in (axis + "s", axis + "es") if t in result)
        names = [row[axis].split(" ")[0] if axis in ("thread", "process") else row[axis] for row in result[table]]
        return {name if axis != "process" else "it": row for name, row in zip(names, result[table])}
    if view == "sizes":
        return {(row["low_bytes"], row["high_bytes"]): row for row in result["sizes"]}
    if view == "threads":
        return dict(enumerate(sorted(result["threads"], key=lambda row: row["started_ns"])))
    if view == "tags":
        return {row["tag"]: row for row in result["tags"]}
    if view == "snapshots":
        return {row["name"]: row for row in result["snapshots"]}
    if view == "tree":
        path, rows = [], {}
        for row in result["tree"]:
            path[row["depth"] :] = [row["function"]]
            rows[tuple(path)] = row
        return rows
    return {"it": result["processes"][0]}


def is_bars(value):
    return isinstance(value, list) and value and isinstance(value[0], dict) and "count" in value[0]


def numbers(row, prefix=""):
    """(name, number, its error) of what has an error beside it, bars and records too."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}.")
        elif is_bars(value):
            for bar in value:
                low = bar.get("low_bytes", bar.get("low_ms"))
                yield from numbers({"count": bar["count"], "count_error": bar.get("count_error", 0)}, f"{prefix}{name}.{low}.")
        elif f"{name}_error" in row and isinstance(value, int):
            yield prefix + name, value, row[f"{name}_error"]


def compare(exact, sampled):
    """How many numbers were compared; fails where one is off by more than chance makes of it."""
    compared, estimated = 0, 0
    for key, row in sampled.items():
        truth = dict_of_numbers(exact.get(key, {}))
        for name, value, error in numbers(row):
            if any(word in name for word in BY_THE_CLOCK) or "realloc" in name or "history" in name:
                continue
            estimated += error > 0
            # With fewer than a hundred samples the error itself is a guess.
            if name not in truth or error > value / 10:
                continue
            compared += 1
            bias = 3 * error if "peak" in name or "max" in name or name in ("self", "live_bytes", "live_blocks") else 0
            assert abs(value - truth[name]) <= 5 * error + bias + 300, (key, name, value, truth[name], error)
    return compared, estimated


def dict_of_numbers(row, prefix=""):
    found = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found.update(dict_of_numbers(value, f"{prefix}{name}."))
        elif is_bars(value):
            for bar in value:
                found[f"{prefix}{name}.{bar.get('low_bytes', bar.get('low_ms'))}.count"] = bar["count"]
        elif isinstance(value, int):
            found[prefix + name] = value
    return found


def test_every_view(pair, report_json):
    exact, sampled = pair
    questions = [(view, ()) for view in SITE_VIEWS + ["summary", "processes", "sizes", "threads", "tags", "tree"]]
    questions += [("functions", ("--by", axis)) for axis in AXES] + [("functions", ("--by", "function", "--cost", "total"))]
    questions += [("sites", ("--at", "snap:built")), ("sites", ("--cost", "waste")), ("tree", ("--cost", "calls"))]
    for view, options in questions:
        axis = options[1] if view == "functions" else None
        a, b = (rows_of(report_json(path, view, *options), view, axis) for path in (exact, sampled))
        compared, estimated = compare(a, b)
        assert compared > 0 and estimated > 0, (view, options)


def test_exact_recordings_have_no_errors(pair, report_json):
    for view in SITE_VIEWS + ["summary", "threads", "tree", "timeline", "flame", "sizes"]:
        result = report_json(pair[0], view)
        assert "_error" not in json.dumps(result) and result["sampling"] is None


def test_views_over_time(pair, report_json):
    sampled = report_json(pair[1], "timeline")
    assert sampled["sampling"]["interval_bytes"] == 16384 and sampled["sampling"]["samples"] > 1000
    last = sampled["timeline"][-1]
    exact = report_json(pair[0], "timeline")["timeline"][-1]
    for name in ("live_bytes", "live_blocks", "calls", "total_bytes", "frees"):
        assert 0 < last[f"{name}_error"] < last[name] / 4
        assert abs(last[name] - exact[name]) < 5 * last[f"{name}_error"]
    # At its last snapshot a site has the error of what is left of it: large blocks, which are exact, do not blur the others.
    (process,) = report_json(pair[1])["processes"]
    assert 0.6 < last["live_bytes_error"] / process["not_freed_bytes_error"] < 1.6
    (snap,) = (row for row in report_json(pair[1], "snapshots")["snapshots"] if row["name"] == "built")
    (true,) = (row for row in report_json(pair[0], "snapshots")["snapshots"] if row["name"] == "built")
    assert 0 < snap["live_bytes_error"] and abs(snap["live_bytes"] - true["live_bytes"]) < 5 * snap["live_bytes_error"]
    for row in report_json(pair[1], "history")["sites"]:
        if any(row["history_error"]):
            assert len(row["history_error"]) == len(row["history"])


def test_flame(pair, report_json):
    def whole(path):
        result = report_json(path, "flame", "--cost", "total")
        nodes = result["nodes"]
        return result, {
            (result["names"][name]["function"], parent): at
            for at, (name, parent) in enumerate(zip(nodes["name"], nodes["parent"]))
            if name >= 0
        }

    (exact, exact_at), (sampled, sampled_at) = whole(pair[0]), whole(pair[1])
    nodes = sampled["nodes"]
    assert len(nodes["value_error"]) == len(nodes["self_error"]) == len(nodes["value"])
    main = [at for (name, _), at in sampled_at.items() if name == "main"][0]
    true = [at for (name, _), at in exact_at.items() if name == "main"][0]
    assert 0 < nodes["value_error"][main] < nodes["value"][main] / 20
    assert abs(nodes["value"][main] - exact["nodes"]["value"][true]) < 5 * nodes["value_error"][main]
    # What is through a node is its own and its children's, and so are the variances.
    below = [at for at, parent in enumerate(nodes["parent"]) if parent == main]
    variance = sum(nodes["value_error"][at] ** 2 for at in below) + nodes["self_error"][main] ** 2
    assert math.isclose(math.sqrt(variance), nodes["value_error"][main], rel_tol=0.02)


def test_text_and_csv(pair, heapgauge):
    def report(*options, path=pair[1]):
        return subprocess.run(
            [heapgauge, "report", path, *options], check=True, capture_output=True, text=True, env={"LC_ALL": "C"}
        ).stdout

    text = report("--view", "sites")
    assert "sampled" in text and "+-" in text and "samples, one for each 16.0 KiB" in text
    assert "the largest of many estimates" in text  # the peak
    assert "+-" not in report("--view", "sites", path=pair[0])
    rows = list(csv.DictReader(io.StringIO(report("--view", "sites", "--format", "csv"))))
    assert all(float(row["calls_error"]) >= 0 for row in rows) and any(float(row["calls_error"]) for row in rows)


def test_a_difference_within_noise(pair, heapgauge, record, scratch):
    def diff(a, b, *options):
        done = subprocess.run(
            [heapgauge, "diff", a, b, "--format", "json", *options], check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout)

    for row in diff(*pair)["changes"]:
        assert row.get("before_error", 0) == 0 and math.isclose(row["change_error"], row["after_error"], rel_tol=0.01)
        if row["measure"] in ("calls", "total", "leaked", "leaked blocks"):
            assert abs(row["change"]) < 5 * row["change_error"]
            errors = abs(row["change"]) / row["change_error"]
            assert row["within_noise"] == (errors <= 1.96) or abs(errors - 1.96) < 0.01  # both are rounded
    # Twice an estimate: the root of the sum of squares.
    both = diff(pair[1], pair[1])["changes"][3]
    expected = math.hypot(both["before_error"], both["after_error"])
    assert math.isclose(both["change_error"], expected, rel_tol=0.01) and both["within_noise"]
    # A change that is there is not noise.
    half = PROGRAM.replace("SMALL = 150000", "SMALL = 90000")
    program = compile_c(scratch, "fewer", half, f"-I{heapgauge.parents[2] / 'include'}", "-pthread", "-O1")
    fewer = record([program], "--mode", "sample", "--interval", INTERVAL)
    stacks = diff(pair[1], fewer.path, "--view", "sites", "--cost", "calls")["stacks"]
    assert stacks[0]["change"] < -30000 and not stacks[0]["within_noise"] and stacks[0]["change_error"] > 0
    assert all(not row["within_noise"] for row in diff(pair[0], pair[0], "--view", "sites")["stacks"])


def test_budgets_do_not_take_noise_for_truth(pair, heapgauge):
    def check(*options):
        done = subprocess.run(
            [heapgauge, "check", pair[1], "--format", "json", *options], capture_output=True, text=True
        )
        (row,) = json.loads(done.stdout)["budgets"]
        return done.returncode, row

    status, row = check("--max-leaked", "1GiB")
    assert (status, row["verdict"]) == (0, "ok") and row["low"] < row["value"] < row["high"] < 1 << 30
    assert row["value_error"] > 0
    assert check("--max-leaked", str(row["high"] + 1))[0] == 0
    assert check("--max-leaked", str(row["value"] + 1))[0] == 2
    assert check("--max-leaked", str(row["value"] - 1))[0] == 2
    assert check("--max-leaked", str(row["low"] - 1))[0] == 1
    # Calls and bytes are counted, unless some sites are asked for.
    status, row = check("--max-total", "1GiB")
    assert (status, row["verdict"]) == (0, "ok") and "low" not in row and "value_error" not in row
    assert check("--max-total", str(row["value"]))[0] == 0
    assert check("--max-total", str(row["value"] - 1))[0] == 1
    assert check("--max-total", "1GiB", "--site", "main")[1]["value_error"] > 0
    # Nothing was sampled of it: that is not to say that there is nothing.
    status, row = check("--max-leaked", "0", "--site", "churn")
    assert (status, row["verdict"], row["value"]) == (2, "unknown", 0) and row["high"] == 3 * 16384


def test_exports_carry_errors_or_say_so(pair, heapgauge, scratch):
    def export(name, path=pair[1]):
        out = scratch / f"out.{name}"
        done = subprocess.run(
            [heapgauge, "export", path, "--format", name, "--cost", "total", "-o", out]
            if name in ("pprof", "otlp", "folded", "speedscope", "dot", "dot-tags", "gprof2dot", "callgrind")
            else [heapgauge, "export", path, "--format", name, "-o", out],
            check=True,
            capture_output=True,
            text=True,
        )
        return out.read_bytes(), done.stderr

    about = "standard errors: total "
    for name in ("massif", "dhat", "heaptrack", "gprof2dot"):
        assert about in export(name)[0].decode() and about not in export(name, pair[0])[0].decode()
    assert "folded stacks cannot carry standard errors" in export("folded")[1]
    assert "estimates" not in export("folded", pair[0])[1]
    assert all(" ±" in p["name"] for p in json.loads(export("speedscope")[0])["profiles"])
    assert " +-" in export("dot")[0].decode() and " +-" in export("dot-tags")[0].decode()
    rows = list(csv.DictReader(io.StringIO(export("csv")[0].decode())))
    assert sum(float(row["total_bytes_error"]) ** 2 for row in rows) > 0
    lines = [json.loads(line) for line in export("jsonl")[0].splitlines()]
    variance = sum(line["total_bytes_error"] ** 2 for line in lines)
    assert variance > 0 and "calls_error" not in json.loads(export("jsonl", pair[0])[0].splitlines()[0])
    head = export("callgrind")[0].decode().split("\n\n")[0]
    assert "events: total_bytes total_bytes_variance" in head
    assert math.isclose(int(head.split("summary: ")[1].split()[1]), variance, rel_tol=0.01)
    text = gzip.decompress(export("pprof")[0])
    assert b"alloc_space_variance" in text and b"standard errors: total" in text
    assert b"variance" not in gzip.decompress(export("pprof", pair[0])[0])
    sampled, said = export("otlp")
    assert b"alloc_space_variance" in sampled and "variances" in said
    assert b"variance" not in export("otlp", pair[0])[0]

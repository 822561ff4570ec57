# SPDX-License-Identifier: Apache-2.0
"""What a sampled recording says, beside an exact one of the same program: calls and bytes equal to the truth, and the stated interval of
a site holds it at 95 % confidence.

Short: two programs, few runs. HEAPGAUGE_LONG=1: 60 runs of each program; prints the figures that docs/estimates.md has.
"""

import collections
import json
import math
import os
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
RUNS = 60 if LONG else 6

TINY = r"""
#include <stdlib.h>
#define NI __attribute__((noinline))
static void *volatile kept;
NI void tiny(void) { kept = malloc(16); __asm__(""); }
NI void small(void) { kept = malloc(100); free(kept); __asm__(""); }
NI void large(void) { kept = malloc(100000); __asm__(""); }
int main(void) { for (int i = 0; i < 200; i++) { large(); for (int k = 0; k < 400; k++) { tiny(); small(); } } }
"""


def tiny(folder):
    return [compile_c(folder, "tiny", TINY)]


def sqlite(folder):
    script = folder / "script.sql"
    script.write_text(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);\n"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " INSERT INTO t SELECT i, hex(i * 7919) FROM n;\n"
        "SELECT count(*) FROM (SELECT DISTINCT substr(b, 1, 3) FROM t);\nSELECT group_concat(b) FROM t LIMIT 1;\n"
    )
    return ["sqlite3", "-batch", ":memory:", f".read {script}"]


def jq(folder):
    text = folder / "in.json"
    text.write_text("[" + ",".join('{"a":%d,"b":"%s"}' % (i, "x" * (i % 90)) for i in range(20000)) + "]")
    return ["jq", "[.[] | {c: .a, d: .b}] | group_by(.c % 7) | length", text]


def python(folder):
    script = folder / "script.py"
    script.write_text("x = [str(i) * (i % 40) for i in range(60000)]\ny = {k: len(k) for k in x}\nprint(len(y))\n")
    return ["/usr/bin/python3", "-I", "-S", script]


def vim(folder):
    text = folder / "text"
    text.write_text("".join(f"line {i} of the text\n" for i in range(20000)))
    return ["vim", "-u", "NONE", "-i", "NONE", "-n", "-N", "-es", "-c", "%s/line/row/g", "-c", "g/7/t.", "-c", "qa!", text]


def ripgrep(folder):
    for i in range(50):
        (folder / f"file{i}").write_text("".join(f"needle {j} in hay {j * j}\n" for j in range(2000)))
    return ["rg", "-j1", "--no-config", "--sort", "path", "-c", "hay [0-9]*6$", folder]


PROGRAMS = {"tiny": tiny, "jq": jq} | ({"sqlite": sqlite, "python": python, "vim": vim, "ripgrep": ripgrep} if LONG else {})


def sites_of(report, process):
    """{stack: site}, the stacks by what does not change from run to run."""
    frames = report["frames"]
    found = collections.defaultdict(lambda: [0, 0.0, 0])
    for site in report["sites"]:
        if site["pid"] != process["pid"] or site["kind"] != "heap":
            continue
        key = tuple((frames[i]["module"], frames[i]["offset"]) for i in site["stack"])
        row = found[key]
        row[0] += site["total_bytes"]
        row[1] += site.get("total_bytes_error", 0) ** 2
        row[2] += site["samples"] if "samples" in site else 0
    return found


def interval_of(value, variance, samples, interval):
    """As docs/estimates.md says."""
    if variance == 0:  # no sample, or only of blocks that are as large as the interval and always seen
        return value, value + 3 * interval
    factor = 12.7 if samples < 2 else 1.96 + 2.4 / (samples - 1) + 8.3 / samples**2
    return value - factor * math.sqrt(variance), value + factor * math.sqrt(variance)


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def program(request, tmp_path_factory):
    argv = PROGRAMS[request.param](tmp_path_factory.mktemp(request.param))
    if not shutil.which(argv[0]):
        pytest.skip(f"needs {argv[0]}")
    return argv


def answer(heapgauge, env, path, view):
    ask = [heapgauge, "report", path, "--view", view, "--format", "json"]
    return json.loads(subprocess.run(ask, env=env, capture_output=True, check=True, timeout=WAIT_SECONDS).stdout)


def recorded(heapgauge, env, path, program, *options):
    """The process and its sites."""
    command = [heapgauge, "record", "-q", "-o", path, *options, "--", *program]
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True, timeout=WAIT_SECONDS)
    process = answer(heapgauge, env, path, "processes")["processes"][0]
    assert losses(process) == {}
    return process, sites_of(answer(heapgauge, env, path, "sites"), process)


def test_totals_are_the_truth_and_intervals_hold_it(program, heapgauge, clean_env, scratch):
    """C4, N19: pooled over sites of which at least one sample is expected."""
    env = clean_env | {"PYTHONHASHSEED": "0"}
    truth, sites = recorded(heapgauge, env, scratch / "exact.hg", program)
    interval = 16384
    expected = {key: row[0] for key, row in sites.items() if row[0] >= interval}
    held, widths = 0, []
    for run in range(RUNS):
        process, seen = recorded(heapgauge, env, scratch / "sampled.hg", program, "--mode", "sample", "--interval", str(interval))
        assert (process["calls"], process["total_bytes"]) == (truth["calls"], truth["total_bytes"])
        for key, bytes in expected.items():
            low, high = interval_of(*seen.get(key, (0, 0, 0)), interval)
            held += low <= bytes <= high
            widths.append((high - low) / bytes)
    site_runs = RUNS * len(expected)
    print(f"{program[0]}: {held} of {site_runs} site-runs hold the truth, {100 * held / site_runs:.1f} %; mean width {sum(widths) / site_runs:.2f}")
    assert len(expected) > 1
    # 95 % of site-runs, less four standard errors of that share in a short run.
    assert held >= (0.93 if LONG else 0.95 - 4 * math.sqrt(0.05 * 0.95 / site_runs)) * site_runs

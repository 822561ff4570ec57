#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the recorder adds to each malloc+free pair, in instructions counted by valgrind: the same on any machine, twice.

    cost.py --build build/release                        print the figures
    cost.py --build build/release --check [WORKLOAD...]  fail if one is more than 5 % above docs/performance.md

Each workload runs at two sizes, with and without the recorder; the difference of the differences, divided by the
allocations that lie between the two sizes, is what a pair costs once the program has started; `scopes` is entering and
leaving one, `snapshot` a snapshot of 64 stacks, and under churn one of 1024. `true` is the start itself: all instructions that the recorder adds to a program that does nothing."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PERFORMANCE = HERE.parents[1] / "docs" / "performance.md"
TOOL = pathlib.Path("/usr/libexec/valgrind/cachegrind-amd64-linux")
ALLOWED = 1.05
SKIPPED = 77  # for ctest
SCOPES = (20_000, 120_000)
SNAPSHOTS = (100, 600)
CHURN, CHURN_EVERY = 60_000, 1_500
# A hundred snapshots in a second may take two hundredths of a core that does a thousand million instructions.
SNAPSHOT_MOST = 0.02 * 1e9 / 100


def write_rows(path, count):
    """A table in memory: inserts, an index, a sort, a join, a delete."""
    with open(path, "w", encoding="ascii") as sql:
        sql.write("create table t(id integer primary key, name text, kind int, value real);\nbegin;\n")
        for i in range(count):
            sql.write(f"insert into t values({i}, 'name {i * 7919 % 9973}', {i % 37}, {i % 1009 / 7:.3f});\n")
        sql.write(
            "commit;\ncreate index by_name on t(name);\nselect kind, count(*), sum(value) from t group by kind;\n"
            "select a.id, b.id from t a join t b on a.name = b.name and a.id < b.id order by a.value limit 5;\n"
            "delete from t where kind < 9;\n"
        )
    return path


def workloads(build, scratch):
    paths = build / "tests" / "cost-paths-omit"
    paths_fp = build / "tests" / "cost-paths-no-omit"
    return {
        "paths": [[paths, "1", str(n)] for n in (20_000, 80_000)],
        "paths, frame pointers": [[paths_fp, "1", str(n)] for n in (20_000, 60_000)],
        "paths, 16 threads": [[paths, "16", str(n)] for n in (160_000, 320_000)],
        "paths, ten days old": [[paths, "1", str(n)] for n in (20_000, 80_000)],
        "sqlite": [["/usr/bin/sqlite3", ":memory:", f".read {write_rows(scratch / f'{n}.sql', n)}"] for n in (600, 2400)],
        "python": [["/usr/bin/python3", "-S", HERE / "documents.py", str(n)] for n in (2, 5)],
        "scopes": [[build / "tests" / "cost-scopes", str(n)] for n in SCOPES],
        "pools": [[build / "tests" / "cost-scopes", str(n), "pools"] for n in SCOPES],
        "snapshot": [[build / "tests" / "cost-scopes", str(n), "snapshots"] for n in SNAPSHOTS],
        "snapshot under churn": [[build / "tests" / "cost-scopes", str(CHURN), "churn", str(n)] for n in (0, CHURN_EVERY)],
        "paths, free sites": [[paths, "1", str(n)] for n in (20_000, 80_000)],
        "paths, timed": [[paths, "1", str(n)] for n in (20_000, 80_000)],
        "paths, sampled": [[paths, "1", str(n)] for n in (100_000, 300_000)],
        "paths, dormant": [[paths, "1", str(n)] for n in (100_000, 300_000)],
        "true": [["/bin/true"]],
    }


MODES = {"paths, sampled": "sample", "paths, dormant": "dormant"}  # else exact
CLOCKS = {"paths, ten days old": 10 * 24 * 3600 * 1000}  # ms at which the clock stands; else it began just now


OPTIONS = {"paths, free sites": {"COST_FREE_SITES": "1"}, "paths, timed": {"COST_TIME_CALLS": "64"}}


def tool_command(output):
    # The tool itself and not `valgrind`, which would be recorded too.
    return [TOOL, "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={output}"]


def environment(mode, clock_ms=0, options=None):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    return env | {
        "COST_MODE": mode,
        "COST_CLOCK_MS": str(clock_ms),
        "VALGRIND_LIB": str(TOOL.parent),
        "VALGRIND_LAUNCHER": "/usr/bin/valgrind",
        **(options or {}),
    }


def instructions_of(output):
    return int(re.search(r"^summary: (\d+)", output.read_text(), re.M)[1])


def count(argv, recorder, scratch, mode="exact", clock_ms=0, options=None):
    """(instructions, allocations recorded) of one run."""
    output = pathlib.Path(tempfile.mkstemp(prefix="counts-", dir=scratch)[1])
    done = subprocess.run(
        [*recorder, *tool_command(output), *argv],
        env=environment(mode, clock_ms, options),
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"cost.py: {' '.join(map(str, argv))} failed:\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    recorded = re.search(r"^calls (\d+) ", done.stdout, re.M)
    return instructions_of(output), int(recorded[1]) if recorded else 0


def measure(name, sizes, recorder, scratch):
    mode, clock_ms = MODES.get(name, "exact"), CLOCKS.get(name, 0)
    with_us = [count(argv, recorder, scratch, mode, clock_ms, OPTIONS.get(name)) for argv in sizes]
    without = [count(argv, [], scratch) for argv in sizes]
    added = [a[0] - b[0] for a, b in zip(with_us, without)]
    if len(sizes) == 1:
        return added[0]
    if "churn" in sizes[0]:  # the same blocks, without and with snapshots
        return (added[1] - added[0]) / (CHURN / CHURN_EVERY)
    if mode != "exact" or with_us[1][1] == with_us[0][1]:  # estimates, or no allocations but calls of ours: the program knows
        few, many = (int([word for word in map(str, argv) if word.isdigit()][-1]) for argv in sizes)
        return (added[1] - added[0]) / (many - few)
    return (added[1] - added[0]) / (with_us[1][1] - with_us[0][1])


def recorded_figures():
    """The rows "| workload | N |" below the heading about instructions."""
    section = PERFORMANCE.read_text().split("## Instructions", 1)[1].split("\n## ", 1)[0]
    return {name: int(figure.replace(",", "")) for name, figure in re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|", section, re.M)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("workload", nargs="*")
    args = parser.parse_args()
    if not TOOL.exists():
        print("cost.py: valgrind is not installed: nothing was counted")
        return SKIPPED
    build = args.build.resolve()
    recorder = [build / "tests" / "cost-collector", build / "libheapgauge.so"]
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-cost-"))
    figures = recorded_figures() if args.check else {}
    worse = 0
    chosen = {name: sizes for name, sizes in workloads(build, scratch).items() if not args.workload or name in args.workload}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # instructions do not depend on who runs beside
        costs = pool.map(lambda name: measure(name, chosen[name], recorder, scratch), chosen)
    for name, cost in zip(chosen, costs):
        line = f"| {name} | {cost:,.0f} |"
        if args.check:
            line += f"  recorded: {figures[name]:,}"
            worse += cost > ALLOWED * figures[name] or (name.startswith("snapshot") and cost > SNAPSHOT_MOST)
        print(line, flush=True)
    shutil.rmtree(scratch)
    if worse:
        print(f"cost.py: {worse} of these grew by more than 5 %. If that is the price of something, write it into {PERFORMANCE}.")
    return 1 if worse else 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())

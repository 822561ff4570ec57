#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/cost/processes.py [--build BUILD] [--rounds N]: what recording costs forks, threads and a stopped collector.

Bare and recorded runs in turn: the least, the median and the most of each, and how many processes and calls the recording has. Programs
with many threads wait for each other's locks in malloc and differ by a factor of ten from run to run without a recorder: where the bare
runs spread like that, a ratio says nothing. By hand, on an idle machine: no test depends on time.
"""

import argparse
import json
import pathlib
import resource
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = {
    "10,000 forks that allocate": ("many_forks", "in-turn", "10000"),
    "512 threads": ("t_threads_crowd", "8000", "512"),
    "1,000 threads": ("t_threads_crowd", "4000", "1000"),
}


def cost(argv):
    """Wall and CPU seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(rows, column):
    values = sorted(row[column] for row in rows)
    return f"{values[0]:.2f} / {statistics.median(values):.2f} / {values[-1]:.2f} s"


def recorded_of(heapgauge, path):
    """What the last recording has: a run that records nothing costs nothing."""
    argv = [heapgauge, "report", path, "--view", "processes", "--format", "json"]
    rows = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)["processes"]
    return f"{len(rows):,} processes, {sum(row['calls'] for row in rows):,} calls recorded"


def stopped_collector(heapgauge, path):
    """How much longer 100 execs take while the collector is stopped than while it runs."""
    loop = "read line; time for i in $(seq 100); do /bin/true; done"
    walls = []
    for stop in (False, True):
        run = subprocess.Popen(
            [heapgauge, "record", "-q", "-o", path, "--", "bash", "-c", loop], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(0.5)
        if stop:
            run.send_signal(signal.SIGSTOP)
        run.stdin.write("go\n")
        run.stdin.flush()
        line = next(line for line in run.stderr if line.startswith("real"))
        walls.append(float(line.split("m")[1].rstrip("s\n")))
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)
    return walls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    heapgauge = args.build / "heapgauge"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.hg"
        for name, (target, *options) in WORK.items():
            argv = [args.build / "targets" / target, *options]
            for mode in ("exact", "sample"):
                record = [heapgauge, "record", "-q", "--mode", mode, "-o", path, "--"]
                bare, recorded = [], []
                for _ in range(args.rounds):
                    bare.append(cost(argv))
                    path.unlink(missing_ok=True)
                    recorded.append(cost([*record, *argv]))
                print(f"{name}, {mode}: {recorded_of(heapgauge, path)}")
                for what, column in (("wall", 0), ("CPU", 1)):
                    print(f"  {what}: bare {spread(bare, column)}, recorded {spread(recorded, column)}", flush=True)
        path.unlink(missing_ok=True)
        running, stopped = stopped_collector(heapgauge, path)
        print(f"100 execs: {running:.3f} s, with a stopped collector {stopped:.3f} s")


if __name__ == "__main__":
    main()

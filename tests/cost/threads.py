#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU that recording adds to a malloc+free pair with 1, 2, 4, 8 and 16 threads that keep to their own blocks.

    tests/cost/threads.py --build build/release CHURN       CHURN: the benchmark's workload `churn`, built

Bare and recorded runs interleaved, minima. More threads than cores show what sharing costs, not what waiting does: CPU
time is compared, not the clock.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

PAIRS = 5_000_000
THREADS = (1, 2, 4, 8, 16)


def cpu(argv):
    """User and system seconds of a process and of its descendants."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, argv
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("churn", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        record = [args.build.resolve() / "heapgauge", "record", "-q", "-o", f"{scratch}/run.hg", "--"]
        bare, recorded = {}, {}
        for _ in range(args.runs):
            for count in THREADS:
                argv = [args.churn.resolve(), str(count)]
                bare.setdefault(count, []).append(cpu(argv))
                recorded.setdefault(count, []).append(cpu(record + argv))
    for count in THREADS:
        added = (min(recorded[count]) - min(bare[count])) / PAIRS * 1e9
        print(f"| {count} | {min(bare[count]) / PAIRS * 1e9:.0f} | {added:.0f} |")


if __name__ == "__main__":
    main()

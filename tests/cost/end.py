#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long somebody waits from the program's end to the prompt.

    end.py --build build/release [--base OTHER/BUILD] [--rounds 10] [-- PROGRAM ARGUMENT...]

Without a program it is the C++ compiler on bench/templates.cpp. The program is started by a shell that writes down when it has ended.
Builds take turns, with the summary and without (-q); each row has the least and the median, in milliseconds."""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import bench  # noqa: E402


def one(build, program, quiet, folder):
    ended = folder / "ended"
    script = f'"$@"; date +%s%N > {ended}'
    command = [build / "heapgauge", "record", *(["-q"] if quiet else []), "-o", folder / "run.hg", "--", "sh", "-c", script, "sh"]
    subprocess.run([*command, *program], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.time_ns() - int(ended.read_text())) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--base", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("program", nargs="*")
    args = parser.parse_args()
    builds = {"base": args.base, "heapgauge": args.build}
    builds = {name: build.resolve() for name, build in builds.items() if build}
    program = args.program or bench.workloads(pathlib.Path())["cc1plus"][0]
    found = {(name, quiet): [] for name in builds for quiet in (True, False)}
    with tempfile.TemporaryDirectory(prefix="heapgauge-end-") as folder:
        for _ in range(args.rounds):
            for name, quiet in found:
                found[name, quiet].append(one(builds[name], program, quiet, pathlib.Path(folder)))
    print("| build | | least | median |\n|---|---|---|---|")
    for (name, quiet), runs in found.items():
        print(f"| {name} | {'-q' if quiet else 'with the summary'} | {min(runs):.0f} ms | {statistics.median(runs):.0f} ms |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sampling adds to whole programs, in instructions counted by valgrind: independent of other load on the machine.

    sampled.py --build build/release [--mode sample|dormant|exact|forward] [WORKLOAD...]

Each workload runs at two sizes, with and without the recorder: the increase from one size to the other is what the program does
once it has started. redis-server gets a fixed number of requests from one client of redis-benchmark; what its timers do meanwhile
varies by run, so it is counted three times and the row has the median and the range. Mode `forward` is no recorder but the least that a
library before malloc can do."""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import cost

GOAL_PERCENT = 1.0
WAIT_SECONDS = 120


def redis_server(scratch):
    socket = scratch / "socket"
    return socket, ["/usr/bin/redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--hz", "1", "--activerehashing", "no"]


def count_redis(requests, recorder, scratch, mode):
    socket, argv = redis_server(scratch)
    output = scratch / "counts"
    env, tool = cost.environment(mode), cost.tool_command(output)
    server = subprocess.Popen([*recorder, *tool, *argv], env=env, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    end = time.monotonic() + WAIT_SECONDS
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > end:
            sys.exit("sampled.py: redis-server did not start")
        time.sleep(0.05)
    client = ["redis-benchmark", "-s", socket, "-q", "-c", "1", "-t", "set,get,lpush,sadd,hset", "-d", "200", "-r", "1000"]
    subprocess.run([*client, "-n", str(requests)], check=True, stdout=subprocess.DEVNULL, timeout=1800)
    subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], check=False, stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS)
    server.wait(WAIT_SECONDS)
    return cost.instructions_of(output)


def counters(build, scratch):
    """name -> (function of a size, with or without the recorder; two sizes; runs)"""
    rows = {n: cost.write_rows(scratch / f"{n}.sql", n) for n in (1000, 6000)}

    def sqlite(n, recorder, mode):
        return cost.count(["/usr/bin/sqlite3", ":memory:", f".read {rows[n]}"], recorder, scratch, mode)[0]

    def python(n, recorder, mode):
        return cost.count(["/usr/bin/python3", "-S", cost.HERE / "documents.py", str(n)], recorder, scratch, mode)[0]

    def redis(n, recorder, mode):
        return count_redis(n, recorder, scratch, mode)

    return {"sqlite": (sqlite, (1000, 6000), 1), "python": (python, (2, 8), 1), "redis": (redis, (500, 4000), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mode", default="sample", choices=("sample", "dormant", "exact", "forward"))
    parser.add_argument("workload", nargs="*")
    args = parser.parse_args()
    build = args.build.resolve()
    recorder = [build / "tests" / "cost-collector", build / "libheapgauge.so"]
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-sampled-"))
    if args.mode == "forward":
        library = scratch / "forward.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", cost.HERE / "forward.c", "-o", library], check=True)
        recorder = ["/usr/bin/env", f"LD_PRELOAD={library}"]
    print("| workload | mode | instructions | goal | verdict |\n|---|---|---|---|---|")
    for name, (counted, (few, many), runs) in counters(build, scratch).items():
        if args.workload and name not in args.workload:
            continue
        added = []
        for _ in range(runs):
            bare = counted(many, [], args.mode) - counted(few, [], args.mode)
            ours = counted(many, recorder, args.mode) - counted(few, recorder, args.mode)
            added.append(100 * (ours - bare) / bare)
        middle = statistics.median(added)
        spread = f" [{min(added):+.2f}, {max(added):+.2f}]" if runs > 1 else ""
        verdict = "met" if max(added) < GOAL_PERCENT else "missed" if min(added) > GOAL_PERCENT else "not shown"
        print(f"| {name} | {args.mode} | {middle:+.2f} %{spread} | {GOAL_PERCENT:g} % | {verdict} |", flush=True)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()

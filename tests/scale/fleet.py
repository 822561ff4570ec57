#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one agent costs that reads many recorded processes.

    tests/scale/fleet.py --build build/release --processes 100 --stacks 2500 --minutes 5
    tests/scale/fleet.py --build build/release --processes 100,1000,3000,10000 --stacks 100 --minutes 2 --limit 900 --json fleet.json
    tests/scale/fleet.py --plot fleet.json docs/plots

The processes are real and record themselves (fleet.c), the agent is the real one, and it pushes to the server of tests/e2e/agent, on
this machine. Simulated is what the programs do. The first readings are all due at once: their rate is the most that the agent can do.
After them the agent has an interval to settle, and then the minutes that are counted. Needs root, for a PID namespace.

CPU seconds are those of the agent, its reader and the children of the reader, from /proc; beside them what the agent says of itself.
Memory is the peak of the agent, of its reader and of the largest process together, counting shared pages in each: at most that. The largest
is the child that reads, or the agent once more where there are thousands.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "e2e"))

import agents  # noqa: E402
from namespace import enter_namespace  # noqa: E402
from plot import draw_lines  # noqa: E402

INTERVAL_BYTES = "4KiB"  # of fleet.c's blocks every one is sampled
WINDOW_S, WINDOW_READINGS = 20, 20  # the windows of which the cheapest is shown: other load on the machine makes CPU time dearer
TICK = os.sysconf("SC_CLK_TCK")
SERVER = HERE.parent / "e2e" / "agent" / "pyroscope_server"


@contextlib.contextmanager
def running_fleet(args, count, scratch, folder):
    """The parent of the processes, when all have allocated."""
    program = scratch / "fleet"
    subprocess.run(["gcc", "-O2", "-g", HERE / "fleet.c", "-o", program], check=True)
    env = os.environ | {"LD_PRELOAD": str(args.build / "libheapgauge.so"), "HEAPGAUGE_MODE": "sample", "HEAPGAUGE_INTERVAL": INTERVAL_BYTES, "HEAPGAUGE_DIR": str(folder)}
    argv = [program, str(count), str(args.stacks), str(args.maps), str(args.pause)]
    fleet = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if fleet.stdout.readline().strip() != str(count):
            sys.exit("fleet.py: not all processes started")
        yield fleet
    finally:
        fleet.stdin.close()
        fleet.wait()


@contextlib.contextmanager
def running_server(scratch):
    """The server of the tests, without its limit of the rate. Its URL."""
    program = scratch / "server"
    environment = os.environ | {"GOFLAGS": "-buildvcs=false -mod=readonly", "GOTOOLCHAIN": "local"}
    subprocess.run(["go", "build", "-o", program, "."], cwd=SERVER, env=environment, check=True)
    server = subprocess.Popen([program, "-rate=1000000000000", f"-out={scratch}/profiles.jsonl"], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def children(pid):
    """Without searching all of /proc, which may have thousands."""
    return [int(one) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def cpu_seconds(pids):
    """With the children that each has waited for."""
    return sum(sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) for pid in pids) / TICK


def peak_bytes(pid):
    """VmHWM"""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def wait_for_first(agent, count, limit_s):
    """Seconds until every process was read once."""
    began = time.monotonic()
    while agent.numbers()["agent_readings_total.ok"] < count:
        if time.monotonic() - began > limit_s:
            break
        time.sleep(0.2 if count <= 1000 else 2)
    return time.monotonic() - began


def counted(agent, pids):
    own = agent.numbers()
    return {
        "readings": own["agent_readings_total.ok"],
        "failed": own["agent_readings_total.failed"],
        "said_cpu": own["agent_cpu_seconds_total"],
        "pushed": own.get("agent_pushed_profiles_total", 0),
        "pushed_bytes": own.get("agent_pushed_bytes_total", 0),
        "queued": own.get("agent_queue_profiles", 0),
        "processes": own["agent_processes"],
        "cpu": cpu_seconds(pids),
        "at": time.monotonic(),
    }


def measure(args, count):
    """One row."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-scale-", dir="/dev/shm"))
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-scale-"))
    row = {"processes": count, "stacks": args.stacks, "interval_s": args.interval, "names": args.names}
    try:
        with running_server(scratch) as url, running_fleet(args, count, scratch, folder) as fleet:
            row["used_bytes"] = statistics.mean(f.stat().st_blocks * 512 for f in folder.iterdir() if f".{fleet.pid}." not in f.name)
            settings = agents.write_settings(
                scratch, interval=f"{args.interval}s", agent={"names": args.names, "state": scratch / "state", "max-processes": 20000}, pyroscope={"url": url}
            )
            # A small parent: what exec replaces counts in the peak of a process.
            agent = agents.Agent(args.build / "heapgauge", settings, os.environ, before=["sh", "-c", 'ulimit -n 100000 2>/dev/null; "$@"; :', "sh"])
            pid = children(agent.process.pid)[0]
            reader = children(pid)[0]
            first_s = wait_for_first(agent, count, args.limit)
            row |= {"first_s": first_s, "first_readings": agent.numbers()["agent_readings_total.ok"]}
            row |= {"series": agent.get("/metrics")[1].count(b'pid="'), "series_left_out": agent.numbers()["agent_series_left_out"]}
            time.sleep(args.interval if args.minutes else 1)
            counts = [counted(agent, (pid, reader))]
            for _ in range(max(round(args.minutes * 60 / WINDOW_S), 1)):
                time.sleep(WINDOW_S if args.minutes else 2)
                counts.append(counted(agent, (pid, reader)))
            row["agent_peak_bytes"], row["reader_peak_bytes"] = peak_bytes(pid), peak_bytes(reader)
            os.kill(pid, signal.SIGTERM)
            _, _, usage = os.wait4(agent.process.pid, 0)
            agent.process.returncode = 0
            row["whole_cpu_s"] = usage.ru_utime + usage.ru_stime
            # The largest of the tree: a child of the reader, unless the agent itself is.
            row["largest_peak_bytes"] = usage.ru_maxrss * 1024
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    least = min((w["ms_per_reading"] for w in map(window, counts, counts[1:]) if w["readings"] >= WINDOW_READINGS), default=None)
    return row | window(counts[0], counts[-1]) | {"least_ms_per_reading": least}


def window(before, after):
    seconds = after["at"] - before["at"]
    found = {name: after[name] - before[name] for name in ("readings", "failed", "said_cpu", "cpu", "pushed", "pushed_bytes")}
    found |= {"seconds": seconds, "known": after["processes"], "queued": after["queued"]}
    found["core_percent"] = 100 * found["cpu"] / seconds
    found["ms_per_reading"] = 1000 * found["cpu"] / found["readings"] if found["readings"] else 0
    found["bytes_per_push"] = found["pushed_bytes"] / found["pushed"] if found["pushed"] else 0
    return found


def memory_bytes(row):
    return row["agent_peak_bytes"] + row["reader_peak_bytes"] + row["largest_peak_bytes"]


def print_rows(rows):
    print("| processes | used profile | first readings | readings in the window | CPU of a core | CPU per reading | peak memory | bytes per push | waiting |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['processes']:,} | {row['used_bytes'] / 2**20:.2f} MiB | {row['first_readings']:,.0f} in {row['first_s']:.1f} s "
            f"| {row['readings']:,.0f} readings in {row['seconds']:.0f} s | {row['core_percent']:.2f} % (says {100 * row['said_cpu'] / row['seconds']:.2f} %) "
            f"| {row['ms_per_reading']:.2f} ms (least {row['least_ms_per_reading'] or 0:.2f}) | {memory_bytes(row) / 1e6:.1f} MB | {row['bytes_per_push']:,.0f} | {row['queued']:,.0f} |",
            flush=True,
        )


def plot(figures, folder):
    rows = [row for path in figures for row in json.loads(path.read_text())]
    counts = [row["processes"] for row in rows]
    (folder / "agent-cpu.svg").write_text(draw_lines("Agent: CPU of one core, one push a minute", "processes", "%", counts, [row["core_percent"] for row in rows]))
    (folder / "agent-memory.svg").write_text(draw_lines("Agent: peak memory of agent, reader and child, at most", "processes", "MB", counts, [memory_bytes(row) / 1e6 for row in rows]))
    (folder / "agent-rate.svg").write_text(
        draw_lines("Agent: readings per second when all are due", "processes", "1/s", counts, [row["first_readings"] / row["first_s"] for row in rows])
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build" / "release")
    parser.add_argument("--processes", default="100")
    parser.add_argument("--stacks", type=int, default=2500, help="of each process: 2,500 make a profile of 2 MiB")
    parser.add_argument("--maps", type=int, default=100, help="further mappings of each process")
    parser.add_argument("--pause", type=int, default=10, help="seconds between the allocations of a process")
    parser.add_argument("--interval", type=int, default=60, help="of the agent, in seconds")
    parser.add_argument("--names", choices=("yes", "no"), default="no")
    parser.add_argument("--minutes", type=float, default=5, help="that are counted; 0: 2 s, to try the script")
    parser.add_argument("--limit", type=float, default=600, help="seconds for the first readings")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", nargs="+", type=pathlib.Path, metavar="FILE", help="figures and a folder: only plots")
    args = parser.parse_args()
    if args.plot:
        return plot(args.plot[:-1], args.plot[-1])
    enter_namespace()
    rows = []
    for count in map(int, args.processes.split(",")):
        rows.append(measure(args, count))
        print_rows(rows[-1:])
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    return None


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the sampled and the dormant mode cost, beside the samplers that jemalloc and tcmalloc have of their own.

    tests/cost/always_on.py --build build/release                         30 rounds: about 12 minutes, on an idle machine
    tests/cost/always_on.py --build build/release --rounds 2 --only redis
    tests/cost/always_on.py --read build/release/always-on.json --markdown

hg-record is `heapgauge record --mode sample`, hg-preload and hg-dormant are LD_PRELOAD alone (docs/howto/production.md);
everybody's samples are 512 KiB apart. jemalloc-sampled is its prof:true, tcmalloc-sampled TCMALLOC_SAMPLE_PARAMETER.

sqlite, python and redis are programs that wait for work. In each round every tool has one of them, new; they are given
the same work in turns, eight times, in an order drawn anew each time, and are stopped (SIGSTOP) in between: so a change
of the machine's speed hits all alike, and none disturbs another. A round's value is the sum of its turns, compared with
that of what the tool was added to, in the same round: heapgauge with the bare program, an allocator's sampler with that
allocator without it. A figure is the median of the rounds' values (one burst of something else ruins a mean), in
brackets its 95 % interval by bootstrap over the rounds. A goal is met if the intervals of CPU and of wall time lie
below it as a whole, and not shown if it lies inside one. `bare-again` is the bare program against itself: what it shows is noise.

CPU is user and system time, of the program and of heapgauge's collector. Programs are pinned to one core, the
collector and redis' client to another. The start is not in it, but is the row `start`: all that `true` takes more.
`pairs-flat` is timed inside the process.
"""

import argparse
import collections
import ctypes
import datetime
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parents[1] / "bench"
INTERVAL = 524_288
LIMIT = 1  # per cent of the bare program's time
FLAT_LIMITS = {"hg-record": 2.5, "hg-preload": 2.5, "hg-dormant": 2.0}  # ns per pair
TURNS = 8
FLAT_BATCHES = 800
ROWS = 9000
DOCUMENTS = 2
REDIS_TESTS = ("set", "get", "incr", "lpush", "lpop", "hset")
REDIS_REQUESTS = 10_000  # of each
RESAMPLES = 10_000
PATIENCE = 60  # seconds for one turn
DONE = b"turn done"

WORKLOADS = ("pairs-flat", "sqlite", "python", "redis", "start")
# What is compared: key of a turn, unit, factor; "%" is the ratio to the base's, the others are differences.
MEASURES = collections.defaultdict(lambda: (("program", "%", 100), ("cpu", "%", 100), ("wall", "%", 100)))
MEASURES["pairs-flat"] = (("pair", "ns", 1),)
MEASURES["start"] = (("cpu", "ms", 1000), ("wall", "ms", 1000))

# What each turn of python runs, as often as it is told.
PYTHON_LOOP = """
import runpy, sys
sys.argv = sys.argv[1:]
print("ready", flush=True)
for line in sys.stdin:
    runpy.run_path(sys.argv[0])
    print("turn done", flush=True)
"""

Tool = collections.namedtuple("Tool", "base prefix env")


def all_tools(build, scratch):
    preload = {"LD_PRELOAD": str(build / "libheapgauge.so"), "HEAPGAUGE_DIR": str(scratch), "HEAPGAUGE_INTERVAL": str(INTERVAL)}
    record = [build / "heapgauge", "record", "-q", "--mode", "sample", "--interval", str(INTERVAL)]
    record += ["-o", scratch / "run.hg", "--"]
    jemalloc = {"LD_PRELOAD": "libjemalloc.so.2"}
    tcmalloc = {"LD_PRELOAD": "libtcmalloc.so.4"}
    return {
        "bare": Tool(None, [], {}),
        "bare-again": Tool("bare", [], {}),
        "hg-record": Tool("bare", record, {}),
        "hg-preload": Tool("bare", [], preload | {"HEAPGAUGE_MODE": "sample"}),
        "hg-dormant": Tool("bare", [], preload | {"HEAPGAUGE_MODE": "dormant"}),
        "jemalloc": Tool(None, [], jemalloc),
        "jemalloc-sampled": Tool("jemalloc", [], jemalloc | {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"}),
        "tcmalloc": Tool(None, [], tcmalloc),
        "tcmalloc-sampled": Tool("tcmalloc", [], tcmalloc | {"TCMALLOC_SAMPLE_PARAMETER": str(INTERVAL)}),
    }


class Place:
    """Where everything is: the build, a scratch folder, two cores."""

    def __init__(self, build, scratch, bench):
        self.build, self.scratch, self.bench = build, scratch, bench
        cores = sorted(os.sched_getaffinity(0))
        self.core, self.other_core = cores[-1], cores[0]
        self.tools = all_tools(build, scratch)
        self.flat = scratch / "pairs"
        self.rows = scratch / "rows.sql"

    def prepare(self, workloads):
        for name in workloads:
            if name in ("pairs-flat", "sqlite", "python") and not (self.bench / "pairs.c").exists():
                sys.exit(f"always_on.py: {name} is of the benchmark, which is not in {self.bench}: say where with --bench.")
        if "pairs-flat" in workloads:
            subprocess.run(["gcc", "-O2", "-g", "-pthread", self.bench / "pairs.c", "-o", self.flat], check=True)
        if "sqlite" in workloads:
            spec = importlib.util.spec_from_file_location("bench", self.bench / "bench.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.write_rows(self.rows, ROWS)

    def spawn(self, argv, tool, core, stdin=subprocess.DEVNULL, stdout=None, **more_env):
        """Pinned by inheritance: a launcher such as taskset would be recorded, too."""
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.scratch)} | tool.env | more_env
        os.sched_setaffinity(0, {core})
        log = tempfile.TemporaryFile(dir=self.scratch)
        child = subprocess.Popen(
            [*tool.prefix, *argv], env=env, cwd=self.scratch, stdin=stdin, stdout=stdout or log, stderr=log,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        child.log = log
        os.sched_setaffinity(0, {self.other_core})
        return child


def said(child):
    """What it has written until now."""
    return os.pread(child.log.fileno(), 1 << 20, 0).decode(errors="replace")


def finish(child):
    """Waits for a good end. CPU that the process and its descendants took."""
    signal.alarm(PATIENCE)
    _, status, usage = os.wait4(child.pid, 0)
    signal.alarm(0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"it ended with {child.returncode}: {said(child)[-500:].strip()}")
    return usage.ru_utime + usage.ru_stime


def kill(child):
    signal.alarm(0)
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class WholeRun:
    """A turn is a run of a short program."""

    def __init__(self, place, workload, tool):
        self.place, self.tool = place, tool
        self.argv = [place.flat, "flat", str(FLAT_BATCHES)] if workload == "pairs-flat" else ["/bin/true"]

    def turn(self):
        start = time.monotonic()
        child = self.place.spawn(self.argv, self.tool, self.place.core)
        try:
            figures = {"cpu": finish(child), "wall": time.monotonic() - start}
        finally:
            kill(child)
        told = said(child).split("NS_PER_PAIR")
        return figures | ({"pair": float(told[1])} if len(told) == 2 else {})

    def close(self):
        pass

    kill = close


class Program:
    """One that waits for work, and is stopped while others have their turn."""

    def __init__(self, place, workload, tool):
        self.place, self.tool, self.workload = place, tool, workload
        self.address = place.scratch / f"socket-{random.getrandbits(64):x}"
        argv, env = {
            "sqlite": (["/usr/bin/sqlite3", "-interactive", ":memory:"], {}),  # interactive: it tells what it has at once
            "python": (
                ["/usr/bin/python3", "-c", PYTHON_LOOP, place.bench / "documents.py", str(DOCUMENTS)],
                {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"},
            ),
            "redis": (["redis-server", "--port", "0", "--unixsocket", self.address, "--save", "", "--appendonly", "no"], {}),
        }[workload]
        pipe = None if workload == "redis" else subprocess.PIPE
        self.child = place.spawn(argv, tool, place.core, stdin=pipe or subprocess.DEVNULL, stdout=pipe, **env)
        try:
            self.begin()
        except BaseException:
            kill(self.child)
            raise

    def begin(self):
        signal.alarm(PATIENCE)
        if self.workload == "redis":
            self.connect()
        else:
            self.read_until(b"sqlite> " if self.workload == "sqlite" else b"ready\n")
        signal.alarm(0)
        self.program = self.child.pid
        self.clocks = []
        if self.tool.prefix:
            (self.program,) = map(int, pathlib.Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split())
            self.clocks.append(cpu_clock(self.child.pid))
            for thread in os.listdir(f"/proc/{self.child.pid}/task"):
                os.sched_setaffinity(int(thread), {self.place.other_core})
        self.clocks.append(cpu_clock(self.program))
        os.killpg(self.child.pid, signal.SIGSTOP)

    def connect(self):
        while self.child.poll() is None:
            with socket.socket(socket.AF_UNIX) as connection:
                try:
                    connection.connect(str(self.address))
                    connection.sendall(b"PING\r\n")
                    if connection.recv(64).startswith(b"+PONG"):
                        return
                except OSError:
                    pass
            time.sleep(0.005)
        raise RuntimeError(f"redis-server did not start: {said(self.child)[-500:].strip()}")

    def read_until(self, word):
        got = b""
        while word not in got:
            more = os.read(self.child.stdout.fileno(), 65536)
            if not more:
                raise RuntimeError(f"it ended: {said(self.child)[-500:].strip()}")
            got += more
        if b"Error" in got:
            raise RuntimeError(got[-500:].decode(errors="replace"))

    def work(self):
        if self.workload == "redis":
            load = ["redis-benchmark", "-s", self.address, "--csv", "-c", "20", "-P", "16", "-r", "100000", "-d", "128"]
            load += ["-n", str(REDIS_REQUESTS), "-t", ",".join(REDIS_TESTS)]
            client = self.place.spawn(load, self.place.tools["bare"], self.place.other_core)
            try:
                finish(client)
            finally:
                kill(client)
            if len(said(client).splitlines()) != 1 + len(REDIS_TESTS):
                raise RuntimeError(f"redis-benchmark did not do all of it: {said(client)[-500:].strip()}")
            return
        # The shell echoes what it is told, so the words are put together there.
        told = f".read {self.place.rows}\ndrop table t;\nselect 'turn' || ' done';\n" if self.workload == "sqlite" else "\n"
        os.write(self.child.stdin.fileno(), told.encode())
        signal.alarm(PATIENCE)
        self.read_until(DONE)
        signal.alarm(0)

    def turn(self):
        before = [time.clock_gettime(clock) for clock in self.clocks]
        os.killpg(self.child.pid, signal.SIGCONT)
        start = time.monotonic()
        self.work()
        wall = time.monotonic() - start
        os.killpg(self.child.pid, signal.SIGSTOP)
        spent = [time.clock_gettime(clock) - was for clock, was in zip(self.clocks, before)]
        return {"program": spent[-1], "cpu": sum(spent), "wall": wall}

    def close(self):
        os.killpg(self.child.pid, signal.SIGCONT)
        if self.workload == "redis":
            os.kill(self.program, signal.SIGTERM)
        else:
            self.child.stdin.close()
            while os.read(self.child.stdout.fileno(), 65536):
                pass
        finish(self.child)

    def kill(self):
        kill(self.child)


def cpu_clock(pid):
    """The CPU time of a process, to the nanosecond: /proc/PID/stat has hundredths of a second."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise RuntimeError(f"process {pid} has no clock")
    return clock.value


def why_not(place, name):
    """None if the tool does what its name says, in a program that takes 40 MB; else why it is left out."""
    tool = place.tools[name]
    more = {"HEAPGAUGE_KEEP": "1"} if name.startswith("hg") else {}
    if name == "jemalloc-sampled":
        more = {"MALLOC_CONF": f"{tool.env['MALLOC_CONF']},prof_final:true,prof_prefix:{place.scratch}/jemalloc"}
    text = "kept = [bytes(2000) for _ in range(20000)]; print(open('/proc/self/maps').read())"
    child = place.spawn(["/usr/bin/python3", "-S", "-c", text], tool, place.core, PYTHONMALLOC="malloc", **more)
    try:
        finish(child)
    finally:
        kill(child)
    library = "libheapgauge" if name.startswith("hg") else f"lib{name.split('-')[0]}"
    if not name.startswith("bare") and library not in said(child).split("ERROR")[0]:
        return f"{library} is not installed, or not for this program"
    if name == "jemalloc-sampled" and not list(place.scratch.glob("jemalloc.*.heap")):
        return "this jemalloc is built without its profiler"
    if name.startswith("hg"):
        (file,) = [*place.scratch.glob("*.live"), *place.scratch.glob("*.hg")]
        report = [place.build / "heapgauge", "report", file, "--format", "json"]
        told = json.loads(subprocess.run(report, check=True, capture_output=True).stdout)["processes"][0]
        file.unlink()
        if (told["calls"] != 0) if name == "hg-dormant" else (told["samples"] == 0):
            return f"it recorded {told['calls']} calls by {told['samples']} samples"
    return None  # tcmalloc tells its samples to C++ programs only


def interval_of_median(values):
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def value_of(turns, key):
    """Of a round. A mean, so that what happens in one turn of eight counts; pairs-flat is of the quietest batches anyway."""
    values = [turn[key] for turn in turns]
    return statistics.median(values) if key == "pair" else statistics.fmean(values)


def compare(rounds, base_rounds, key, unit, factor):
    """Median and interval over the rounds that have both."""
    pairs = [(value_of(rounds[n], key), value_of(base_rounds[n], key)) for n in rounds if n in base_rounds]
    values = [(a / b - 1 if unit == "%" else a - b) * factor for a, b in pairs]
    if not values:
        return None
    low, high = interval_of_median(values)
    return {"unit": unit, "median": statistics.median(values), "low": low, "high": high, "rounds": len(values)}


def judge(workload, tool, figures):
    """(goal, verdict)"""
    if not tool.startswith("hg") or workload == "start":
        return None, ""
    goal = FLAT_LIMITS[tool] if workload == "pairs-flat" else LIMIT
    judged = [figure for key, figure in figures.items() if key != "program"]
    if any(figure["low"] > goal for figure in judged):
        return goal, "missed"
    return goal, "met" if all(figure["high"] <= goal for figure in judged) else "not shown"


def evaluate(results):
    rows = []
    for workload, by_tool in results["runs"].items():
        for tool, base in results["tools"].items():
            rounds, base_rounds = by_tool.get(tool, {}), by_tool.get(base, {})
            row = {"workload": workload, "tool": tool, "base": base}
            if base is None and rounds:
                values = {key: [value_of(turns, key) for turns in rounds.values()] for key, _, _ in MEASURES[workload]}
                rows.append(row | {"absolute": {key: statistics.median(of_rounds) for key, of_rounds in values.items()}})
            elif base and set(rounds) & set(base_rounds):
                figures = {measure[0]: compare(rounds, base_rounds, *measure) for measure in MEASURES[workload]}
                goal, verdict = judge(workload, tool, figures)
                rows.append(row | {"figures": figures, "goal": goal, "verdict": verdict})
    return rows


HEADINGS = ["workload", "tool", "compared with", "CPU of the program", "and the collector", "wall", "rounds", "goal", "verdict"]
COLUMN = {"program": 3, "pair": 3, "cpu": 4, "wall": 5}


def cells(row):
    line = [row["workload"], row["tool"], row["base"] or ""] + [""] * (len(HEADINGS) - 3)
    if row["base"] is None:
        for key, value in row["absolute"].items():
            line[COLUMN[key]] = f"{value:.2f} ns" if key == "pair" else f"{value * 1000:.2f} ms"
        return line
    for key, one in row["figures"].items():
        line[COLUMN[key]] = f"{one['median']:+.2f} {one['unit']} [{one['low']:+.2f}, {one['high']:+.2f}]"
        line[6] = str(one["rounds"])
    if row["goal"] is not None:
        line[7:] = [f"{row['goal']:g} {MEASURES[row['workload']][0][1]}", row["verdict"]]
    return line


def print_table(results, markdown):
    lines = [cells(row) for row in results["rows"]]
    for line in lines:
        if line[3] == line[4] or line[3].startswith(("+", "-")) and line[1] != "hg-record":
            line[4] = ""  # there is no collector
    if markdown:
        for line in [HEADINGS, ["---"] * len(HEADINGS), *lines]:
            print("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|")
    else:
        widths = [max(len(line[i]) for line in [HEADINGS, *lines]) for i in range(len(HEADINGS))]
        for line in [HEADINGS, *lines]:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print()
    mark = "- " if markdown else ""
    machine = results["machine"]
    where = f"{machine['cores']} cores, {machine['cpu']}, {machine['system']}"
    print(f"{mark}{machine['when']}, {where}, load before: {machine['load']:.2f}")
    print(f"{mark}{results['turns']} turns in each round; times of bare, jemalloc and tcmalloc are of one turn")
    for name in results["tools"]:
        walls = [turn["wall"] for turns in results["runs"].get("redis", {}).get(name, {}).values() for turn in turns]
        if walls:
            print(f"{mark}redis, {name}: {REDIS_REQUESTS * len(REDIS_TESTS) / statistics.median(walls):,.0f} requests a second")
    for name, why in results["left_out"].items():
        print(f"{mark}left out: {name}: {why}")
    for failure in results["failures"]:
        print(f"{mark}failed: {failure}")


def describe_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    system = os.uname()
    return {
        "cpu": (cpu or ["unknown processor"])[0],
        "cores": os.cpu_count(),
        "system": f"{system.sysname} {system.release}",
        "load": os.getloadavg()[0],
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def one_round(place, workload, tools, order, failures):
    """{tool: [turns]} of those that did all of them."""
    jobs, turns = {}, {}

    def attempt(name, what):
        try:
            return what()
        except (RuntimeError, TimeoutError, OSError) as error:
            failures.append(f"{workload}, {name}: {error}")
            turns.pop(name, None)
            if name in jobs:
                jobs.pop(name).kill()

    kind = WholeRun if workload in ("pairs-flat", "start") else Program
    try:
        for name in order.sample(tools, len(tools)):
            job = attempt(name, lambda: kind(place, workload, place.tools[name]))
            if job:
                jobs[name], turns[name] = job, []
        for _ in range(TURNS):
            for name in order.sample(tools, len(tools)):
                if name in jobs:
                    figures = attempt(name, jobs[name].turn)
                    if figures:
                        turns[name].append(figures)
        for name in list(jobs):
            attempt(name, jobs[name].close)
    finally:
        for job in jobs.values():
            job.kill()
    return turns


def measure(place, results, rounds, order):
    tools = list(results["tools"])
    workloads = list(results["runs"])
    steps = [(number, workload) for number in range(rounds) for workload in order.sample(workloads, len(workloads))]
    began = time.monotonic()
    for done, (number, workload) in enumerate(steps):
        if sys.stderr.isatty():
            gone = time.monotonic() - began
            left = f", about {gone / done * (len(steps) - done):.0f} s to go" if number else ""
            print(f"\r\033[Kround {number + 1} of {rounds}: {workload}; {gone:.0f} s{left}", end="", file=sys.stderr, flush=True)
        for name, turns in one_round(place, workload, tools, order, results["failures"]).items():
            results["runs"][workload].setdefault(name, {})[str(number)] = turns
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


def choose(given, known, what):
    names = given.split(",") if given else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"always_on.py: there is no {what} {name}: {', '.join(known)}.")
    return names


def collect(args):
    def too_long(*_):
        raise TimeoutError(f"not done after {PATIENCE} s")

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, too_long)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # else stopped programs would stay
        signal.signal(number, stop)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="always-on-", dir="/dev/shm"))  # HEAPGAUGE_DIR must be on a tmpfs
    try:
        place = Place(args.build.resolve(), scratch, args.bench.resolve())
        workloads = choose(args.only, WORKLOADS, "workload")
        wanted = choose(args.tools, place.tools, "tool")
        wanted = [name for name in place.tools if name in wanted or any(place.tools[one].base == name for one in wanted)]
        results = {"machine": describe_machine(), "seed": args.seed, "turns": TURNS, "left_out": {}, "failures": []}
        load = results["machine"]["load"]
        if load > 0.5:
            print(f"always_on.py: the machine is busy (load {load:.2f}): trust nothing of this", file=sys.stderr)
        place.prepare(workloads)
        results["left_out"] = {name: why for name in wanted if (why := why_not(place, name))}
        results["tools"] = {name: place.tools[name].base for name in wanted if name not in results["left_out"]}
        results["runs"] = {name: {} for name in workloads}
        try:
            measure(place, results, args.rounds, random.Random(args.seed))
        except KeyboardInterrupt:
            results["failures"].append("stopped by hand, before all rounds were done")
        return results
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="a release build")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", metavar="WORKLOADS", help=f"of {','.join(WORKLOADS)}")
    parser.add_argument("--tools", help="such as hg-preload,jemalloc-sampled; what they are compared with is added")
    parser.add_argument("--bench", type=pathlib.Path, default=BENCH, help="the benchmark's folder (default bench)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the turns")
    parser.add_argument("--json", type=pathlib.Path, help="where every turn is written (default BUILD/always-on.json)")
    parser.add_argument("--read", type=pathlib.Path, metavar="JSON", help="measure nothing; print what is written there")
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/performance.md")
    args = parser.parse_args()
    if not args.read and not args.build:
        parser.error("--build or --read is needed")
    results = json.loads(args.read.read_text()) if args.read else collect(args)
    results["rows"] = evaluate(results)
    if not args.read:
        (args.json or args.build / "always-on.json").write_text(json.dumps(results, indent=1))
    print_table(results, args.markdown)
    return 1 if results["failures"] or any(row.get("verdict") == "missed" for row in results["rows"]) else 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())

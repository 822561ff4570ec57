#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large the profiles of real programs are that an agent pushes.

    tests/scale/push_bytes.py --build build/release [--interval 20] [--profiles 4] [--json bytes.json]

redis-server under redis-benchmark, PostgreSQL under pgbench, a Python HTTP service under requests, and clang++ compiling, each recorded
by preloading, sampled every 512 KiB and exactly. Two real agents read the same processes, one with names and one without, and write to
folders ([files]). First the programs work for some intervals; then the services are idle for as many. The first profile of a process,
which has all that it ever allocated, is counted apart. clang++ ends before a second one.
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
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "e2e"))

import agents  # noqa: E402
from namespace import enter_namespace  # noqa: E402
from pprof_reading import read_profile  # noqa: E402

POSTGRES = next(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), None)

PYTHON_SERVICE = """
import collections, http.server, json, sqlite3
kept = collections.OrderedDict()
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table t (k integer primary key, v text)")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        key = hash(self.path) % 20000
        document = {"path": self.path, "rows": [{"id": i, "name": f"row {i}", "tags": ["a", "b", str(key)]} for i in range(200)]}
        text = json.dumps(document)
        kept[key] = json.loads(text)
        if len(kept) > 500:
            kept.popitem(last=False)
        database.execute("replace into t values (?, ?)", (key, text[:500]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
server.serve_forever()
"""
REDIS_PORT, POSTGRES_PORT, PYTHON_PORT = 17001, 17002, 17003


class Programs:
    """Those that are recorded, and what makes them work; end() ends all."""

    def __init__(self, args, mode, scratch, folder):
        self.scratch, self.running, self.working = scratch, [], threading.Event()
        self.env = os.environ | {"LD_PRELOAD": str(args.build / "libheapgauge.so"), "HEAPGAUGE_MODE": mode, "HEAPGAUGE_DIR": str(folder)}

    def start(self, argv, recorded=True, **options):
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running.append(subprocess.Popen(argv, env=self.env if recorded else os.environ, **quiet | {"cwd": self.scratch} | options))
        return self.running[-1]

    def start_redis(self):
        self.start(["redis-server", "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])

    def start_postgres(self):
        data = self.scratch / "postgres"
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        subprocess.run([*as_user, POSTGRES / "initdb", "-D", data, "-A", "trust"], **quiet)
        self.start([*as_user, POSTGRES / "postgres", "-D", data, "-p", str(POSTGRES_PORT), "-k", data, "-c", "fsync=off"], cwd="/")
        self.psql = ["-h", str(data), "-p", str(POSTGRES_PORT), "-U", "postgres"]
        while subprocess.run([POSTGRES / "pg_isready", *self.psql], stdout=subprocess.DEVNULL).returncode:
            time.sleep(0.2)
        subprocess.run([POSTGRES / "pgbench", "-i", "-s", "5", "-q", *self.psql, "postgres"], **quiet)

    def start_python(self):
        source = self.scratch / "service.py"
        source.write_text(PYTHON_SERVICE.replace("PORT", str(PYTHON_PORT)))
        self.start(["/usr/bin/python3", source])

    def work(self, seconds):
        """Starts the load; the threads and clients end with `seconds`."""
        end = time.monotonic() + seconds

        def requests():
            number = 0
            while time.monotonic() < end:
                number += 1
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PYTHON_PORT}/item/{number}", timeout=10) as answer:
                    answer.read()
                time.sleep(0.005)

        def compiles():
            while time.monotonic() < end:
                self.start(["clang++", "-O2", "-c", ROOT / "bench" / "templates.cpp", "-o", self.scratch / "out.o"]).wait()

        for target in (requests, compiles):
            threading.Thread(target=target, daemon=True).start()
        self.start([POSTGRES / "pgbench", "-n", "-c", "4", "-R", "200", "-T", str(int(seconds)), *self.psql, "postgres"], recorded=False)
        benchmark = f"timeout {int(seconds)} sh -c 'while :; do redis-benchmark -p {REDIS_PORT} -q -c 10 -n 5000 -d 200 -r 100000 -t set,get,lpush,sadd,hset; sleep 0.5; done'"
        self.start(["sh", "-c", benchmark], recorded=False)

    def end(self):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)


def profiles_in(folder):
    """{service: {process: [paths, in order]}}"""
    found = {}
    for path in folder.rglob("*.pb.gz"):
        service = path.relative_to(folder).parts[0].removeprefix("service=")
        host_pid, _, serial = path.name.removesuffix(".pb.gz").rpartition("-")
        found.setdefault(service, {}).setdefault(host_pid, []).append((int(serial), path))
    return {service: {pid: [path for _, path in sorted(paths)] for pid, paths in rows.items()} for service, rows in found.items()}


def describe(paths):
    """Medians over profiles of one service."""
    profiles = [read_profile(path) for path in paths]
    middle = statistics.median

    def new_bytes(profile):
        return profile.sums()["alloc_space"]

    return {
        "profiles": len(profiles),
        "gzipped": middle(p.gzipped for p in profiles),
        "most": max(p.gzipped for p in profiles),
        "plain": middle(p.plain for p in profiles),
        "samples": middle(len(p.samples) for p in profiles),
        "depth": middle(p.depth() for p in profiles),
        "functions": middle(p.functions for p in profiles),
        "text_bytes": middle(p.text_bytes for p in profiles),
        "without_allocations": sum(new_bytes(p) == 0 for p in profiles),
        "all_gzipped": sum(p.gzipped for p in profiles),
    }


def map_lines():
    """{pid: lines of /proc/PID/maps}, of what runs in this namespace."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[path.name] = len((path / "maps").read_bytes().splitlines())
    return found


def measure(args, mode, scratch):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-scale-", dir="/dev/shm"))
    folder.chmod(0o1777)
    programs = Programs(args, mode, scratch, folder)
    half = args.interval * args.profiles
    rows, used, lines = [], {}, {}  # by pid
    try:
        programs.start_redis()
        programs.start_postgres()
        programs.start_python()
        programs.work(half)
        with contextlib.ExitStack() as stack:
            started = {}
            for names in ("yes", "no"):
                own = scratch / f"names-{names}"
                own.mkdir()
                (own / "profiles").mkdir()
                settings = agents.write_settings(own, interval=f"{args.interval}s", agent={"names": names, "state": own / "state"}, files={"folder": own / "profiles"})
                started[names] = stack.enter_context(agents.running_agent(args.build / "heapgauge", settings, os.environ))
            for _ in range(args.profiles):
                time.sleep(args.interval)
                used |= {f.name.split(".")[-3]: f.stat().st_blocks * 512 for f in folder.iterdir()}
                lines |= map_lines()
            idle_from = time.time() + args.interval  # the profile that begins in work ends in idleness
            time.sleep(half)
        for names in started:
            for service, processes in profiles_in(scratch / f"names-{names}" / "profiles").items():
                row = {"mode": mode, "names": names, "service": service, "processes": len(processes)}
                pids = [name.rpartition("-")[2] for name in processes]
                row |= {name: statistics.median([of[pid] for pid in pids if pid in of] or [0]) for name, of in (("used_bytes", used), ("map_lines", lines))}
                first = [paths[0] for paths in processes.values()]
                later = [path for paths in processes.values() for path in paths[1:]]
                busy = [path for path in later if path.stat().st_mtime < idle_from]
                idle = [path for path in later if path.stat().st_mtime >= idle_from]
                rows.append(row | {phase: describe(paths) for phase, paths in (("first", first), ("busy", busy), ("idle", idle)) if paths})
    finally:
        programs.end()
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def print_rows(rows):
    print("| program | mode | names | processes | used profile | bytes of a profile: first | at work (most) | idle | samples | plain | idle without allocations |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: (row["service"], row["mode"], row["names"])):
        first, busy, idle = (row.get(phase) for phase in ("first", "busy", "idle"))
        usual = busy or first
        cells = [
            row["service"], row["mode"], row["names"], row["processes"], f"{row['used_bytes'] / 2**20:.2f} MiB", f"{first['gzipped']:,.0f}",
            f"{busy['gzipped']:,.0f} ({busy['most']:,})" if busy else "", f"{idle['gzipped']:,.0f}" if idle else "",
            f"{usual['samples']:,.0f}", f"{usual['plain']:,.0f}", f"{idle['without_allocations']} of {idle['profiles']}" if idle else "",
        ]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build" / "release")
    parser.add_argument("--modes", default="sample,exact")
    parser.add_argument("--interval", type=int, default=20, help="of the agents, in seconds")
    parser.add_argument("--profiles", type=int, default=4, help="intervals of work, and of idleness")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if not POSTGRES:
        sys.exit("push_bytes.py: apt install postgresql")
    enter_namespace()
    rows = []
    for mode in args.modes.split(","):
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-scale-", dir="/tmp"))
        scratch.chmod(0o755)
        try:
            rows += measure(args, mode, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    print_rows(rows)


if __name__ == "__main__":
    main()

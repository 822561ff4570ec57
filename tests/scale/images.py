#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What services do of which images are taken while they work.

    tests/scale/images.py --build build/release [--minutes 5] [--stop]

redis-server answers requests of four clients that check every answer, PostgreSQL those of pgbench; both are recorded exactly. Every second
an image of redis-server, of PostgreSQL's first process and of one that serves a client is taken (`heapgauge image`). Fails if a request
fails, an answer is wrong or late, a service ends or leaves a zombie, or no image can be taken. Needs root, for PostgreSQL's user and a PID
namespace.
"""

import argparse
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import push_bytes
from namespace import enter_namespace

CLIENTS, KEYS, LATE_S, EVERY_S = 4, 1000, 10, 1


class Client(threading.Thread):
    """Sets and gets keys of its own, and compares what it gets."""

    def __init__(self, number, end):
        super().__init__(daemon=True)
        self.number, self.end, self.requests, self.longest_s, self.wrong = number, end, 0, 0.0, []

    def ask(self, connection, file, line):
        began = time.monotonic()
        connection.sendall(line)
        answer = file.readline()
        if answer.startswith(b"$") and answer != b"$-1\r\n":
            answer = file.read(int(answer[1:]) + 2)
        self.requests += 1
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        return answer

    def run(self):
        try:
            with socket.create_connection(("127.0.0.1", push_bytes.REDIS_PORT), timeout=LATE_S) as connection:
                file = connection.makefile("rb")
                while time.monotonic() < self.end:
                    key = f"client:{self.number}:{self.requests % KEYS}"
                    value = f"{self.requests} {'x' * (self.requests % 3000)}"
                    if self.ask(connection, file, f"SET {key} '{value}'\r\n".encode()) != b"+OK\r\n":
                        self.wrong.append(f"SET {key}")
                    if self.ask(connection, file, f"GET {key}\r\n".encode()) != f"{value}\r\n".encode():
                        self.wrong.append(f"GET {key}")
        except OSError as error:
            self.wrong.append(str(error))


def processes_of(programs):
    """The pids of redis-server, of PostgreSQL's first process, and of one that serves pgbench."""
    redis, postgres = programs.running[0].pid, programs.running[1].pid
    serving = subprocess.run(["pgrep", "-P", str(postgres), "-f", "postgres: postgres postgres"], capture_output=True, text=True).stdout.split()
    return [redis, postgres, *map(int, serving[:1])]


def zombies_of(pid):
    return subprocess.run(["ps", "--ppid", str(pid), "-o", "stat=,comm="], capture_output=True, text=True).stdout.count("Z")


def take_images(args, programs, end, scratch):
    """[(pid, seconds, message of a refusal or "")]"""
    taken = []
    while time.monotonic() < end:
        began = time.monotonic()
        for pid in processes_of(programs):
            argv = [args.build / "heapgauge", "image", str(pid), "-o", scratch / "image.hg", *(["--stop"] if args.stop else [])]
            at = time.monotonic()
            done = subprocess.run(argv, capture_output=True, text=True)
            taken.append((pid, time.monotonic() - at, "" if done.returncode == 0 else done.stderr.strip()))
            (scratch / "image.hg").unlink(missing_ok=True)
        time.sleep(max(0, began + EVERY_S - time.monotonic()))
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--stop", action="store_true", help="examine the processes while they are stopped")
    args = parser.parse_args()
    enter_namespace()
    scratch, folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-images-")), pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-images-", dir="/dev/shm"))
    scratch.chmod(0o755)
    folder.chmod(0o1777)
    programs = push_bytes.Programs(args, "exact", scratch, folder)
    try:
        programs.start_redis()
        programs.start_postgres()
        end = time.monotonic() + args.minutes * 60
        clients = [Client(number, end) for number in range(CLIENTS)]
        pgbench = subprocess.Popen(
            [push_bytes.POSTGRES / "pgbench", "-n", "-c", "4", "-T", str(int(args.minutes * 60)), *programs.psql, "postgres"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for client in clients:
            client.start()
        time.sleep(1)
        taken = take_images(args, programs, end - 2, scratch)
        for client in clients:
            client.join(2 * LATE_S)
        out, messages = pgbench.communicate(timeout=60)
        problems = [word for client in clients for word in client.wrong]
        problems += [f"pgbench: {messages.strip()}"] if pgbench.returncode or "number of failed transactions: 0" not in out else []
        problems += [f"process {process.pid} has ended" for process in programs.running if process.poll() is not None]
        problems += [f"process {process.pid} has zombies" for process in programs.running if zombies_of(process.pid)]
        refused = [message for _, _, message in taken if message]
        problems += ["no image was taken"] if len(refused) == len(taken) else []
        print(f"{len(taken)} images, {len(refused)} refused, the longest took {max(seconds for _, seconds, _ in taken):.2f} s")
        for message in sorted(set(refused))[:5]:
            print(f"  refused: {message}")
        print(f"redis: {sum(client.requests for client in clients):,} requests, the longest took {1000 * max(client.longest_s for client in clients):.0f} ms")
        print("\n".join(line for line in out.splitlines() if line.startswith(("number of", "latency", "tps"))))
        print("\n".join(problems[:20]) or "no error, no lost request")
    finally:
        programs.end()
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

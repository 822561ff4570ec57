# SPDX-License-Identifier: Apache-2.0
"""The recorder's probes, and bpftrace attached to them."""

import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for

INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel
Probe = collections.namedtuple("Probe", "provider name location base semaphore arguments")


def probes_of(path):
    """The probes of an ELF file, by name."""
    notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    pattern = r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\w+), Base: (\w+), Semaphore: (\w+)\s+Arguments: (.*)"
    found = [Probe(p, n, int(at, 16), int(base, 16), int(sem, 16), args) for p, n, at, base, sem, args in re.findall(pattern, notes)]
    assert len({probe.name for probe in found}) == len(found)
    return {probe.name: probe for probe in found}


@functools.cache
def why_not():
    """Why nothing can be traced here; None: it can."""
    if os.geteuid() != 0:
        return "only root may attach to probes"
    if not shutil.which("bpftrace"):
        return "bpftrace is not installed"
    if not any(pathlib.Path(folder, "uprobe_events").exists() for folder in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")):
        return "no tracefs: mount -t tracefs none /sys/kernel/tracing"
    if os.stat("/proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE:
        return "bpftrace compares with the pids of the initial pid namespace, and this is another"
    done = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    return None if done.returncode == 0 else f"bpftrace does not work here: {done.stderr.strip()[-200:]}"


def need_bpftrace():
    if why_not():
        pytest.skip(why_not())


def bytes_at(pid, file, address, count):
    """What a process has at an address of an ELF file that it has mapped."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    start = min(int(line.split("-")[0], 16) for line in maps if line.endswith(f" {file}"))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start + address)
        return memory.read(count)


def semaphores(pid, file):
    return [int.from_bytes(bytes_at(pid, file, probe.semaphore, 2), "little") for probe in probes_of(file).values()]


def is_attached(pid, file):
    """Whether a tracer has replaced the nops."""
    nops = [(file.read_bytes()[probe.location], bytes_at(pid, file, probe.location, 1)[0]) for probe in probes_of(file).values()]
    return all(semaphores(pid, file)) and all(now != nop for nop, now in nops)


def stop(tracer):
    """bpftrace 0.17 overlooks a SIGINT that does not interrupt its poll; once it has seen one, another would kill it."""
    while tracer.poll() is None:
        caught = re.search(r"^SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{tracer.pid}/status").read_text(), re.M)
        if caught and int(caught[1], 16) & 1 << (signal.SIGINT - 1):
            tracer.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return tracer.communicate(timeout=2)
    return tracer.communicate(timeout=WAIT_SECONDS)


@contextlib.contextmanager
def traced(script, pid, file):
    """Runs bpftrace while the block runs, attached to the process before it begins; its maps are in the dictionary at the end."""
    maps = {}
    argv = ["bpftrace", "-f", "json", "-e", script]
    env = os.environ | {"BPFTRACE_MAP_KEYS_MAX": "100000"}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            wait_for(lambda: tracer.poll() is not None or is_attached(pid, file), "bpftrace attaches")
            assert tracer.poll() is None, tracer.stderr.read()
            yield maps
        finally:
            out, err = stop(tracer)
    assert tracer.returncode == 0, err
    for line in out.splitlines():
        shown = json.loads(line) if line.startswith("{") else {}
        if shown.get("type") == "map":
            maps |= shown["data"]
        assert shown.get("type") != "lost_events", line

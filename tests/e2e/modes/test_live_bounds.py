# SPDX-License-Identifier: Apache-2.0
"""Live numbers that are read while the program allocates and frees without a pause: never more than the truth plus their bound.

HEAPGAUGE_LONG=1 records each program a hundred times beside `stress-ng --cpu 4`, and also judges how wide the bounds are: that depends
on the machine. It prints what it found: pytest -s.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
RUNS = 100 if LONG else 1
WIDE = 0.05  # a bound of more than that part of the number

# Name, arguments, and what the C library and its threads allocate besides: bytes and blocks.
PROGRAMS = [
    ("one_block_each", (4, 65536, 3_000_000 if LONG else 500_000), 8192, 16),
    ("one_block_each", (1, 65536, 10_000_000 if LONG else 1_000_000), 8192, 16),
    ("random_blocks", (10_000_000 if LONG else 300_000,), 8192, 16),
]


@dataclasses.dataclass
class Readings:
    """What the reports of some runs said. A reading is a number and its bound."""

    bytes: list = dataclasses.field(default_factory=list)
    too_high: list = dataclasses.field(default_factory=list)
    fired: list = dataclasses.field(default_factory=list)

    def take(self, where, number, bound, truth):
        if number is None:
            return
        if "blocks" not in where:
            self.bytes.append((number, bound))
        if number > truth + bound:
            self.too_high.append((where, number, bound, truth))

    def wide(self):
        return sum(bound > WIDE * number for number, bound in self.bytes)


@contextlib.contextmanager
def busy_machine():
    """In the long form, a machine with more to do than processors."""
    if not LONG:
        yield
        return
    if not shutil.which("stress-ng"):
        pytest.skip("stress-ng is not installed")
    busy = subprocess.Popen(["stress-ng", "--cpu", "4"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        busy.terminate()
        busy.wait()


def recording_of(heapgauge, env, scratch, argv, limit):
    """Records the program with conditions that are never true, and looks at it once while it runs. What it printed, and what the look said."""
    path = scratch / "run.hg"
    conditions = [f"live>{limit}B", f"site>{limit}B", f"growth>{limit}B/1s"]
    collector = subprocess.Popen(
        [heapgauge, "record", "-q", "--every", "20ms", *(word for c in conditions for word in ("--on", c)), "-o", path, "--", *argv],
        env=env, stdout=subprocess.PIPE, text=True,
    )
    children = f"/proc/{collector.pid}/task/{collector.pid}/children"
    look = None
    with contextlib.suppress(OSError, IndexError, json.JSONDecodeError):
        with open(children, encoding="ascii") as pids:
            pid = pids.read().split()[0]
        done = subprocess.run([heapgauge, "report", "--pid", pid, "--format", "json"], env=env, capture_output=True, text=True,
                              timeout=WAIT_SECONDS, check=False)
        look = json.loads(done.stdout)["processes"][0]  # it may have ended, or not have begun
    output, _ = collector.communicate(timeout=WAIT_SECONDS)
    assert collector.returncode == 0
    return path, output, look


def read_all(path, report_json, bytes_, blocks, readings):
    timeline = report_json(path, "timeline", "--limit", "0")["timeline"]
    snapshots = report_json(path, "snapshots")["snapshots"]
    for row in [row for row in timeline if not row["peak"]] + snapshots:
        readings.take("series", row["live_bytes"], row["live_bound_bytes"], bytes_)
        readings.take("blocks", row["live_blocks"], row["live_bound_blocks"], blocks)
    history = report_json(path, "history")
    for site in history["sites"]:
        for number in site["history"]:
            readings.take("history", number, history["history_bound_bytes"], bytes_)
    process = report_json(path)["processes"][0]
    readings.take("blocks live", process["max_live_blocks"], 0, blocks)
    most = process["peak_bytes"] + process["peak_bound_bytes"]
    assert all(row["live_bytes"] <= most for row in timeline)
    readings.fired += [row["name"] for row in snapshots if not row["name"].startswith("every=")]


@pytest.mark.parametrize("name, arguments, more_bytes, more_blocks", PROGRAMS)
def test_live_numbers_are_never_more_than_the_truth_plus_their_bound(
    heapgauge, clean_env, scratch, target, report_json, name, arguments, more_bytes, more_blocks
):
    readings, argv = Readings(), [str(target(name)), *map(str, arguments)]
    truth = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout.split()
    bytes_, blocks = int(truth[0]) + more_bytes, int(truth[1]) + more_blocks
    with busy_machine():
        for _ in range(RUNS):
            path, output, look = recording_of(heapgauge, clean_env, scratch, argv, bytes_)
            assert output.split() == truth
            read_all(path, report_json, bytes_, blocks, readings)
            if look:
                readings.take("report --pid", look["not_freed_bytes"], look["live_bound_bytes"], bytes_)
    print(f"\n{name} {arguments}: {RUNS} runs, {len(readings.bytes)} readings, {len(readings.too_high)} above truth + bound, "
          f"{readings.wide()} with a bound above {WIDE:.0%}, {len(readings.fired)} conditions fired")
    assert not readings.too_high
    assert not readings.fired
    assert len(readings.bytes) >= RUNS
    if LONG:
        assert readings.wide() <= WIDE * len(readings.bytes)


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_reading_that_takes_long_is_no_less_true(heapgauge, clean_env, scratch, target, report_json):
    """Between two system calls of the collector, each thread allocates and frees gigabytes."""
    slowly = ["strace", "-qq", "-o", scratch / "log", "-e", "trace=pread64", "-e", "inject=pread64:delay_exit=3000"]
    most, path, readings = 4 * 65536 + 8192, scratch / "slow.hg", Readings()
    done = subprocess.run(
        [*slowly, heapgauge, "record", "-q", "--on", f"live>{most}B", "-o", path, "--", target("one_block_each"), "4", "65536", "5000000"],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )
    assert done.returncode == 0, done.stderr
    read_all(path, report_json, most, 20, readings)
    assert readings.bytes and not readings.too_high and not readings.fired, readings

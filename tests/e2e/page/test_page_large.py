# SPDX-License-Identifier: Apache-2.0
"""The page of a recording with very many stacks: what it transfers, draws and computes does not grow with them.

The short form counts bytes, elements and drawn nodes, which other load on the machine does not change. The long form has 300,000
stacks and also bounds processor time: of the server until the verdict, and of each task of the page's main thread.
"""

import json
import os
import pathlib
import subprocess

import pytest

from compiled import WAIT_SECONDS
from serving import Server

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
STACKS = 300_000 if LONG else 60_000
PIXELS = 1280 * 40  # of a row, times the rows of nodes in sight


@pytest.fixture(scope="module")
def seen(heapgauge, build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    subprocess.run([build / "made" / "make_recording", folder / "large.hg", str(STACKS), "10"], check=True, timeout=WAIT_SECONDS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))} | {"XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run([build / "made" / "make_recording", folder / "older.hg", str(STACKS * 9 // 10), "10"], check=True, timeout=WAIT_SECONDS)
    server = Server(heapgauge, folder / "large.hg", "--no-open", env=env, cwd=folder)
    compared = Server(heapgauge, folder / "large.hg", "--against", folder / "older.hg", "--no-open", env=env, cwd=folder)
    try:
        done = subprocess.run(
            ["node", ROOT / "tests" / "web" / "tasks.mjs", server.url, str(server.process.pid), compared.url], capture_output=True, text=True, timeout=600
        )
    finally:
        server.end()
        compared.end()
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_start_transfers_little(seen):
    assert 0 < seen["start_bytes"] < 60_000, seen["requests"]
    assert seen["errors"] == []


def test_compare_transfers_little(seen):
    assert 0 < seen["compare_bytes"] < 300_000, seen["compare_requests"]
    assert len([one for one, _ in seen["compare_requests"] if "view=timeline" in one]) == 2


def test_the_document_has_what_is_in_sight(seen):
    assert all(100 < count < 2_500 for count in seen["elements"].values()), seen["elements"]


def test_a_picture_visits_what_has_pixels(seen):
    drawn = seen["visited"]
    assert {"flame", "flame from allocations"} <= drawn.keys()
    # Called from main there are about as many nodes as stacks, from the allocations three times as many.
    assert all(0 < nodes < PIXELS for nodes in drawn.values()), drawn


@pytest.mark.skipif(not LONG, reason="long form")
def test_the_verdict_takes_as_long_as_the_summary(seen):
    assert seen["verdict_cpu_s"] < 1.5


@pytest.mark.skipif(not LONG, reason="long form")
def test_no_hovering_zooming_or_searching_stops_the_page(seen):
    slow = {what: ms for what, ms in seen["tasks"].items() if ms > 100 and not what.endswith(": open")}
    assert len(seen["tasks"]) > 40 and not slow

# SPDX-License-Identifier: Apache-2.0
"""docs/parity.csv: what other heap profilers have, and whether heapgauge has it. A row that says yes names a command, which is
run here and must print what the row says, or the test that proves it."""

import csv
import os
import pathlib
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[3]
with (ROOT / "docs" / "parity.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))
YES = [row for row in ROWS if row["state"] == "yes"]
# Rows share commands: each is run once, and must show what all its rows say.
COMMANDS = {}
for row in YES:
    if "heapgauge " in row["command"]:
        COMMANDS.setdefault(row["command"], set()).add(row["shows"])


@pytest.fixture(scope="module")
def place(heapgauge, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    env["PATH"] = f"{heapgauge.parent}:{env['PATH']}"
    shutil.copy(target("exported"), folder / "program")
    subprocess.run(["heapgauge", "record", "-q", "-o", "run.hg", "./program", "child"], cwd=folder, env=env, check=True)
    shutil.copy(folder / "run.hg", folder / "old.hg")
    return folder, env


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_shows_it(line, place):
    folder, env = place
    argv = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    for shows in COMMANDS[line]:
        assert shows and shows in done.stdout + done.stderr


def test_every_yes_is_proved():
    for row in YES:
        path, _, name = row["command"].partition("::")
        if "heapgauge " in row["command"]:
            continue
        assert (ROOT / path).exists(), row
        assert not name or f"def {name}(" in (ROOT / path).read_text(), row


def test_every_row_has_a_state_and_what_is_missing_has_a_reason():
    assert len(ROWS) == 261 and len({(row["section"], row["feature"]) for row in ROWS}) == 261
    for row in ROWS:
        assert row["state"] in ("yes", "partly", "no", "declined"), row
        assert bool(row["command"]) == (row["state"] == "yes"), row
        assert bool(row["reason"]) == (row["state"] != "yes"), row

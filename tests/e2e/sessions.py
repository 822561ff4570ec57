# SPDX-License-Identifier: Apache-2.0
"""Runs what a document shows: blocks of ```console, with commands after "$ " and what they print below. A line "..." leaves lines out."""

import pathlib
import re
import subprocess

from compiled import WAIT_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What depends on the machine, its load, or the debug information of its C library.
VARIES = re.compile(
    r"^ +(RSS|coverage|next|age|group|pressure|live|growth|!) |^ {13}|libc|libstdc|strdup|strndup|_start|more frames|library frames|shows? as|debug information|^\s*$"
)


def session(text):
    """The commands of all such blocks of a text, each with the lines below it."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    parts = [part.split("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(part[0], part[1:]) for part in parts]


def essence(lines):
    kept = [re.sub(r"pid \d+|[\d.]+ [mnu]?s\b|\([\d.]+ [KM]iB\)|[\d-]+ [\d:]{8}", "~", line) for line in lines if not VARIES.search(line)]
    kept = [re.sub(r"exact, (nothing lost|but see ! below)", "exact", line) for line in kept]
    # How long a run takes decides whether a trend is known, and which findings there are.
    kept = [re.sub(r"; (growth is unknown[^.]*|no growth from ~ to ~|it grew by .*? from ~ to ~[^.]*)\.", ".", line) for line in kept]
    kept = [re.sub(r"^( +)left by ", r"\1held by ", line) for line in kept]
    kept = [re.sub(r" and [\d,]+ allocations/s", "", line) for line in kept]
    kept = [re.sub(r"^( +verdict .*?\.) Also: .*", r"\1", line) for line in kept]
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in kept]


def holds(said, shown):
    """Whether what stands between the "..." of `shown` comes one after another in `said`, whole lines each."""
    at, wanted = 0, []
    for line in [*shown, "..."]:
        if line != "...":
            wanted.append(line)
            continue
        starts = range(at, len(said) - len(wanted) + 1)
        found = next((start for start in starts if said[start : start + len(wanted)] == wanted), None)
        if found is None:
            return False
        at, wanted = found + len(wanted), []
    return True


def check_session(commands, heapgauge, folder, env, statuses=(0,)):
    """Runs the commands in the folder, where examples/ and ci/ are as in the repository. All that they said."""
    everything = ""
    for name in "examples", "ci":
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    env = env | {"PATH": f"{heapgauge.parent}:{env['PATH']}"}
    for command, printed in commands:
        argv = {"shell": True, "cwd": folder, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, timeout=WAIT_SECONDS, check=False, **argv)
        said, shown = essence(done.stdout.splitlines()), essence(printed)
        assert done.returncode in statuses, done.stdout
        everything += done.stdout
        assert said == shown if "..." not in shown else holds(said, shown), (command, said, shown)
    return everything

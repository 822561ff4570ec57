# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what a new user sees: its first commands as printed, and the figures of docs/performance.md."""

import pathlib
import re
import subprocess

from compiled import WAIT_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
# What depends on the machine, its load, or the debug information of its C library.
VARIES = re.compile(r"^ +(RSS|coverage|next|age) |^ {13}|libc|strdup|_start|more frames|shows? as|debug information|^\s*$")


def session():
    """The commands of the first block, each with the lines below it."""
    block = re.search(r"```console\n(.*?)```", README, re.DOTALL)[1]
    return [(part.split("\n")[0], part.split("\n")[1:]) for part in block.split("$ ")[1:]]


def essence(lines):
    kept = [re.sub(r"pid \d+|[\d.]+ [mnµ]?s\b|\([\d.]+ KiB\)", "~", line) for line in lines if not VARIES.search(line)]
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in kept]


def test_the_first_commands_show_what_is_printed(heapgauge, scratch, clean_env):
    (scratch / "examples").symlink_to(ROOT / "examples")
    env = clean_env | {"PATH": f"{heapgauge.parent}:{clean_env['PATH']}"}
    commands = session()
    assert len(commands) == 3
    for command, printed in commands:
        done = subprocess.run(
            command, shell=True, cwd=scratch, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_SECONDS, check=True
        )
        assert essence(done.stdout.splitlines()) == essence(printed), command
    assert any("copy_field (leak.c:16)" in line for line in essence(commands[-1][1])), "the line that leaks is named"


def test_the_costs_are_those_of_the_run():
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| ([\d.]+) \|$", README, re.MULTILINE)
    assert len(rows) >= 4
    measured = dict(re.findall(r"^\| ([\w-]+ \| heap\w+) \| [\d.,]+ \| ([\d.]+) \|", (ROOT / "docs/performance.md").read_text(), re.MULTILINE))
    for name, ours, theirs in rows:
        assert (ours, theirs) == (measured[f"{name} | heapgauge"], measured[f"{name} | heaptrack"]), name


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)|src(?:set)?=\"([^\"]+)\"", README):
        path = next(filter(None, target))
        assert path.startswith("http") or (ROOT / path).exists(), path

# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what a new user sees: its first commands as printed, and the figures of docs/performance.md."""

import re

from sessions import ROOT, check_session, essence, session

README = (ROOT / "README.md").read_text()


def test_the_first_commands_show_what_is_printed(heapgauge, scratch, clean_env):
    commands = session(README)
    assert len(commands) == 3
    check_session(commands, heapgauge, scratch, clean_env)
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

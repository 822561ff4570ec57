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


def table_of_costs():
    """{workload: {tool: CPU ratio}} of the README; a tool's name is the last word of its heading that is no version."""
    table = README[README.index("| program |") :].split("\n\n")[0]
    lines = [line[1:-1].split("|") for line in table.splitlines() if "---" not in line]
    tools = [re.findall(r"[A-Za-z]\w*", cell)[-1].lower() for cell in lines[0]][1:]
    return {line[0].strip(" `"): dict(zip(tools, (cell.strip() for cell in line[1:]), strict=True)) for line in lines[1:]}


def test_the_costs_are_those_of_the_run():
    measured = dict(re.findall(r"^\| ([\w-]+ \| \w+) \| [\d.,]+ \| ([\d.]+) \|", (ROOT / "docs/performance.md").read_text(), re.MULTILINE))
    costs = table_of_costs()
    assert len(costs) >= 4 and {"heapgauge", "heaptrack", "dhat", "memray"} <= set(costs["python"])
    for workload, ratios in costs.items():
        for tool, ratio in ratios.items():
            assert ratio == measured.get(f"{workload} | {tool}", ""), f"{workload}, {tool}"


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)|src(?:set)?=\"([^\"]+)\"", README):
        path = next(filter(None, target))
        assert path.startswith("http") or (ROOT / path).exists(), path

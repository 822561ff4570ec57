# SPDX-License-Identifier: Apache-2.0
"""What the documents promise is what was measured (docs/performance.md), what other documents say, or what happens here."""

import csv
import re
import subprocess
import sys

from sessions import ROOT


def text_of(path):
    return (ROOT / path).read_text()


PERFORMANCE = text_of("docs/performance.md")
INSTRUCTIONS = dict(re.findall(r"^\| ([\w, ]+) \| ([\d,]+) \|$", PERFORMANCE, re.M))


def block_rows(path):
    """{size: the whole row} of the table of memory by block size."""
    return {int(row[1].replace(",", "")): row[0] for row in re.finditer(r"^\| ([\d,]+) B \| [\d.]+ \| [\d.]+ \| \+[\d.]+ % \|$", text_of(path), re.M)}


def test_figures_of_instructions_are_those_of_the_table():
    exact, sampled, dormant = (INSTRUCTIONS[name] for name in ("paths", "paths, sampled", "paths, dormant"))
    assert f"exact {exact}, sampled {sampled}, dormant {dormant}" in " ".join(text_of("docs/howto/production.md").split())
    assert f"costs {dormant} instructions per malloc+free pair" in " ".join(text_of("docs/faq.md").split())
    assert f"{INSTRUCTIONS['sqlite']} instructions per malloc+free pair of sqlite and {INSTRUCTIONS['python']} of CPython" in text_of("CHANGELOG.md")


def test_figures_of_sampled_programs_are_those_of_the_table():
    readme = text_of("README.md").replace("`", "")
    for workload in ("python", "sqlite", "redis"):
        percent = float(re.search(rf"^\| {workload} \| hg-preload \| bare \| \+([\d.]+) %", PERFORMANCE, re.M)[1])
        assert re.search(rf"{workload} {percent + 1e-9:.1f} %", " ".join(readme.split())), workload


def test_figures_of_memory_are_those_of_the_table():
    measured, shown = block_rows("docs/performance.md"), block_rows("README.md")
    assert len(shown) >= 5 and shown.items() <= measured.items()


def test_exact_recording_takes_the_memory_that_the_readme_shows(build):
    """The resident set, which other load on the machine does not change."""
    script = ROOT / "tests" / "cost" / "block_memory.py"
    done = subprocess.run([sys.executable, script, "--build", build, "256", "4100"], capture_output=True, text=True, check=True)
    added = {int(size.replace(",", "")): float(percent) for size, percent in re.findall(r"^\| ([\d,]+) B .* \+([\d.]+) % \|$", done.stdout, re.M)}
    for size, row in block_rows("README.md").items():
        assert size not in added or abs(added[size] - float(re.search(r"\+([\d.]+) %", row)[1])) < 2, (size, added)
    assert len(added) == 2


def test_the_sample_settings_of_the_agent_write_where_its_unit_lets_it():
    (directory,) = re.findall(r"^StateDirectory=(\S+)$", text_of("deploy/heapgauge-agent.service"), re.M)
    written = re.findall(r"^(?:state|folder|keep) = (\S+)$", text_of("docs/howto/agent.md"), re.M)
    assert len(written) == 4 and all(f"{path}/".startswith(f"/var/lib/{directory}/") for path in written), written


# What the page says that heapgauge does not do, and its row in parity.csv.
LACKS = {
    "Accesses": "Reads/writes per block, per-byte access counts",
    "Other platforms": "aarch64",
    "Any process": "Attach to a running process",
    "Static allocators": "Statically linked target",
}


def test_the_comparison_denies_no_feature_that_heapgauge_has():
    states = {row["feature"]: row["state"] for row in csv.DictReader(text_of("docs/parity.csv").splitlines())}
    section = text_of("docs/comparison.md").split("heapgauge does not, today")[1]
    denied = re.findall(r"^- \*\*(.+?)\*\*", section, re.M)
    assert denied == list(LACKS) and all(states[LACKS[name]] != "yes" for name in denied)

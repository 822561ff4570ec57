# SPDX-License-Identifier: Apache-2.0
"""Presets: names for options that go together, which they print; an option that is given beside one takes precedence."""

import subprocess

import pytest

from compiled import WAIT_SECONDS
from test_python_stacks import interpreters

SCRIPT = "import os; print(os.environ.get('PYTHONMALLOC')); x = [object() for _ in range(50_000)]"
STANDS_FOR = {
    "python": "--mode exact --python native",
    "python-only": "--mode exact --python malloc",
    "python-domains": "--mode exact --python domains",
    "python-sampled": "--mode sample --python native",
}


@pytest.fixture
def said(heapgauge, scratch, clean_env, report_json):
    """said(*options, env={...}): what a recording with them printed about the preset, and the process it has."""

    def run(*options, env=None):
        python = next(iter(interpreters().values()))
        argv = [heapgauge, "record", "-o", scratch / "run.hg", *options, "--", python, "-c", SCRIPT]
        done = subprocess.run(argv, env=clean_env | (env or {}), cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stderr.splitlines() if line.startswith("heapgauge: --preset")]
        return lines, done.stdout.strip(), report_json(scratch / "run.hg")["processes"][0]

    return run


@pytest.mark.parametrize("preset, options", STANDS_FOR.items())
def test_a_preset_prints_and_sets_its_options(preset, options, said):
    lines, malloc, process = said("--preset", preset)
    assert lines == [f"heapgauge: --preset {preset}: {options}"]
    assert process["mode"] == ("sampled" if "sample" in options else "exact")
    assert malloc == ("malloc" if "malloc" in options else "None")
    assert said("-q", "--preset", preset)[0] == []


def test_the_domains_of_a_preset_are_recorded(record, report_json):
    python = next(iter(interpreters().values()))
    run = record([python, "-c", SCRIPT], "--preset", "python-domains")
    sites = report_json(run.path, "sites", "--kind", "pool", "--cost", "calls", "--limit", "1")["sites"]
    assert sites[0]["pool"] == "python.object" and sites[0]["calls"] >= 50_000


def test_what_is_given_beside_a_preset_takes_precedence(said):
    lines, _, process = said("--mode", "tags", "--preset", "python-sampled")
    assert lines == ["heapgauge: --preset python-sampled: --python native"] and process["mode"] == "tags"
    lines, malloc, _ = said("--preset", "python-sampled", "--mode", "exact", "--python", "malloc")
    assert lines == [] and malloc == "malloc"


def test_settings_go_behind_a_typed_preset_and_before_one_of_theirs(said):
    assert said("--preset", "python", env={"HEAPGAUGE_MODE": "sample"})[2]["mode"] == "exact"
    assert said(env={"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_PRESET": "python"})[2]["mode"] == "sampled"


def test_help_has_what_each_stands_for(heapgauge, clean_env):
    shown = subprocess.run([heapgauge, "help", "record"], env=clean_env, capture_output=True, text=True, check=True).stdout
    words = " ".join(shown.split())
    assert all(f"{preset} {options}:" in words for preset, options in STANDS_FOR.items()), shown


def test_a_process_that_runs_has_chosen_already(heapgauge, clean_env):
    argv = [heapgauge, "record", "--preset", "python", "--pid", "1"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--preset cannot be combined with --pid" in done.stderr

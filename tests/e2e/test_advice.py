# SPDX-License-Identifier: Apache-2.0
"""Every rule of the view advice fires where it should, with the saving that the program counted itself, and is silent
where the same work is done well. A target says what it expects: "ADVICE rule=reserve site=grow saving_calls=50"."""

import pathlib
import subprocess

import pytest

TARGETS = sorted(path.stem for path in (pathlib.Path(__file__).parents[1] / "targets").glob("advice_*.c*"))


def expectations(stdout):
    for line in stdout.splitlines():
        if line.startswith("ADVICE "):
            yield dict(word.split("=") for word in line.split()[1:])


def owner(row, program):
    """The innermost function of the program itself."""
    own = (f["function"] for f in row["stack"] if f["module"] == str(program))
    return next(name.partition("(")[0] for name in own if "std::" not in name)


@pytest.mark.parametrize("name", TARGETS)
def test_a_rule_fires_with_the_saving_that_was_counted(record, report_json, target, name):
    run = record([target(name), "bad"])
    assert run.returncode == 0
    wanted = list(expectations(run.stdout))
    assert wanted, "the target says what it expects"
    found = report_json(run.path, "advice")["findings"]
    assert [row["rule"] for row in found] == [want["rule"] for want in wanted]
    for row, want in zip(found, wanted):
        assert owner(row, target(name)) == want["site"]
        for key in want.keys() - {"rule", "site"}:
            assert row[key] == int(want[key]), key
        assert row["todo"] and row["title"] and row["evidence"]["calls"] > 0


@pytest.mark.parametrize("name", TARGETS)
def test_a_rule_is_silent_where_it_should_be(record, report_json, heapgauge, target, name):
    run = record([target(name), "good"])
    assert run.returncode == 0
    assert report_json(run.path, "advice")["findings"] == []
    text = subprocess.run(
        [heapgauge, "report", run.path, "--view", "advice"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "no findings" in text.splitlines()[0]


def test_every_rule_has_a_target(heapgauge):
    """By the source: a rule without a target is not tested."""
    rules = (pathlib.Path(__file__).parents[2] / "src/analysis/rules.c").read_text()
    named = {line.split('"')[1] for line in rules.splitlines() if ".name =" in line}
    assert named and named <= {name.removeprefix("advice_") for name in TARGETS}

# SPDX-License-Identifier: Apache-2.0
"""The adversarial program: recorded without harm, with right counts, and with the stacks that libunwind sees."""

import os
import re
import subprocess

import pytest

from test_targets import compare, inconsistencies, parse

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROUNDS = 30000 if LONG else 1500
SEEDS = range(1, 9 if LONG else 4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("more", [[], ["nocfi"]], ids=["cfi", "nocfi"])
def test_adversary_is_counted_and_unharmed(seed, more, target, record, report_json, clean_env):
    argv = [target("adversary"), str(ROUNDS), str(seed), *more]
    bare = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=120, check=False)
    assert bare.returncode == 0
    run = record(argv)
    assert run.returncode == 0, run.stderr
    truth = parse(run.stdout)
    assert truth.output == parse(bare.stdout).output
    assert run.stderr == ""
    process = report_json(run.path)["processes"][0]
    sites = [s for s in report_json(run.path, "sites")["sites"] if s["process"] == process["pid"]]
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", SEEDS)
def test_adversary_has_the_stacks_that_libunwind_sees(seed, build, target, clean_env):
    """The recorder's other build asks libunwind at every allocation and says at the end how often they differed."""
    verifier = build / "libheapgauge-verify.so"
    if not verifier.exists():
        pytest.fail(f"{verifier} is not built")
    done = subprocess.run(
        [target("adversary"), str(ROUNDS), str(seed)],
        env=clean_env | {"LD_PRELOAD": str(verifier)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = re.search(r"(\d+) stacks compared, (\d+) differ", done.stderr)
    assert counts, done.stderr
    assert int(counts[1]) > ROUNDS * 20
    assert int(counts[2]) == 0, done.stderr

# SPDX-License-Identifier: Apache-2.0
"""The adversarial program: recorded without harm, with right counts, and with the stacks that libunwind sees."""

import os
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from test_targets import compare, inconsistencies, parse

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
COUNTED_ROUNDS = 150  # nearly every allocation has a stack of its own: the report is large
VERIFIED_ROUNDS = 12000 if LONG else 1500
SEEDS = range(1, 17 if LONG else 4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("more", [[], ["nocfi"]], ids=["cfi", "nocfi"])
def test_adversary_is_counted_and_unharmed(seed, more, target, record, report_json, clean_env):
    argv = [target("adversary"), str(COUNTED_ROUNDS), str(seed), *more]
    bare = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert bare.returncode == 0
    run = record(argv)
    assert run.returncode == 0, run.stderr
    truth = parse(run.stdout)
    assert truth.output == parse(bare.stdout).output
    assert run.stderr == ""
    process = report_json(run.path)["processes"][0]
    sites = [s for s in report_json(run.path, "sites")["sites"] if s["pid"] == process["pid"]]
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("more", [[], ["again"]], ids=["once", "again"])
def test_adversary_has_the_stacks_that_libunwind_sees(seed, more, build, target, record, scratch):
    """The recorder's other build asks libunwind at every allocation and says at the end how often they differed."""
    verifier = build / "libheapgauge-verify.so"
    if not verifier.exists():
        pytest.fail(f"{verifier} is not built")
    log = scratch / "verify.log"
    run = record(
        [target("adversary"), str(VERIFIED_ROUNDS), str(seed), *more],
        env={"HEAPGAUGE_RECORDER": str(verifier), "HEAPGAUGE_VERIFY_LOG": str(log)},
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", log.read_text().split("VERIFY ")[-1])}
    assert counts["checked"] > VERIFIED_ROUNDS * 30
    assert counts["wrong"] == 0, log.read_text()[:1200]
    # libunwind gives up in a few places; where there is no unwind information (the roots of ucontexts) we stop.
    assert counts["same"] + counts["cut"] + counts["stopped"] + counts["further"] == counts["checked"]
    assert counts["same"] > counts["checked"] / 2
    assert counts["further"] < counts["checked"] / 50
    if more:
        assert counts["remembered"] > counts["checked"] / 20

# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of a run comes from the rows that were written: a reader of the file sees the same."""

import os
import subprocess

import pytest

from compiled import WAIT_SECONDS

OPERATIONS = "20000" if os.environ.get("HEAPGAUGE_LONG") == "1" else "3000"
PROGRAMS = [
    (["shown_family"], []),
    (["shown_course"], []),
    (["many_forks", "in-turn", "20"], []),
    (["random_operations", "7", OPERATIONS], []),
    (["random_operations", "8", OPERATIONS], ["--mode", "sample", "--interval", "1KiB"]),
    (["new_stacks", "30000"], []),
    (["does_nothing"], []),
]


@pytest.mark.parametrize("words, options", PROGRAMS, ids=[" ".join(words + options) for words, options in PROGRAMS])
def test_a_reader_of_the_file_sees_what_the_summary_said(words, options, heapgauge, target, clean_env, scratch):
    path = scratch / "run.hg"
    argv = [target(words[0]), *words[1:]]
    done = subprocess.run(
        [heapgauge, "record", "-o", path, *options, "--", *argv], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    said = done.stderr[done.stderr.index("heapgauge: ") + len("heapgauge: ") : done.stderr.index("\n  wrote ")]
    read = subprocess.run(
        [heapgauge, "report", path, "--view", "summary", "--limit", "8"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert read.returncode == 0, read.stderr
    assert said == read.stdout

# SPDX-License-Identifier: Apache-2.0
"""Worker processes of Python: each has its own Python stacks, however it began."""

import collections

import pytest

from compiled import WAIT_SECONDS
from test_python_stacks import interpreters, python_part

SIZE = 54321
PROGRAM = f"""
import multiprocessing, sys

def fill(count):
    return [bytearray({SIZE - 1}) for _ in range(count)]  # and a byte for the end

def work(count):
    global kept
    kept = fill(count)
    return len(kept)

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(sum(pool.map(work, [10, 20, 30, 40], chunksize=1)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_have_their_stacks(method, record, report_json, scratch):
    program = scratch / "workers.py"
    program.write_text(PROGRAM)
    run = record([next(iter(interpreters().values())), program, method], timeout=WAIT_SECONDS)
    assert run.returncode == 0 and run.stdout == "100\n", run.stderr
    calls = collections.Counter()
    for site in report_json(run.path, "sites", "--limit", "1000000", "--min-size", str(SIZE), "--max-size", str(SIZE))["sites"]:
        names = [function for function, file, _ in python_part(site) if file == str(program)]
        if names:
            assert names[names.index("work") - 1] == "fill", names  # a forked worker goes on below the parent's functions
            calls[site["pid"]] += site["calls"]
    assert calls.total() == 100 and len(calls) <= 2, calls

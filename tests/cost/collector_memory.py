#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of `heapgauge record` itself while it records, in MB: the most that was seen before the program ended.

    tests/cost/collector_memory.py --build build/release -- PROGRAM ...

Private memory and pages of the profile are told apart: the latter belong to the program, and are counted there too.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile
import time


def status_of(pid):
    """Kind of memory -> MB; empty once the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {kind: int(kb) / 1024 for kind, kb in re.findall(r"^(RssAnon|RssFile|RssShmem):\s+(\d+) kB", text, re.M)}


def children_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("argv", nargs="+")
    args = parser.parse_args()
    most = {}
    with tempfile.TemporaryDirectory() as scratch:
        record = [args.build.resolve() / "heapgauge", "record", "-q", "-o", f"{scratch}/run.hg", "--", *args.argv]
        with subprocess.Popen(record, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
            while child.poll() is None:
                if children_of(child.pid):
                    for kind, size in status_of(child.pid).items():
                        most[kind] = max(most.get(kind, 0), size)
                time.sleep(0.005)
    print(", ".join(f"{kind} {size:.1f} MB" for kind, size in sorted(most.items())))


if __name__ == "__main__":
    main()

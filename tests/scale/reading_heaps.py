#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the pages of a heap are attributed, and what refers to its blocks is found: CPU time by size of the blocks.

    tests/scale/reading_heaps.py --build build/release [--mib 2048] [--sizes 64,1024,16384] [--runs 3] [--links near|far]

A program fills blocks of one size, each with a pointer to the block before it and one to another block: `near` to one at most 1,000 blocks
before, as in most programs, `far` to any. It waits while `heapgauge report --pid PID --view pages` and `heapgauge image PID` read it. Prints
the least user and system time of the runs, the size of the heap (chunks of glibc) for each second of it, and the most memory.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	size_t bytes = strtoul(argv[1], 0, 0), count = (strtoul(argv[2], 0, 0) << 20) / bytes;
	int near = argv[3][0] == 'n';
	void ***blocks = malloc(count * sizeof *blocks);
	unsigned long random = argc;

	for (size_t i = 0; i < count; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		blocks[i] = memset(malloc(bytes), 1, bytes);
		blocks[i][0] = i ? blocks[i - 1] : 0;
		blocks[i][1] = near ? blocks[i - (random >> 33) % (i < 1000 ? i + 1 : 1000)] : 0;
	}
	for (size_t i = 0; i < count && !near; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		blocks[i][1] = blocks[(random >> 20) % count];
	}
	printf("%zu\n", count);
	fflush(stdout);
	return getchar() == 'x';
}
"""


def least(argv, runs):
    """CPU seconds and KiB."""
    seconds, most = [], 0
    for _ in range(runs):
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        if status != 0:
            sys.exit(f"{argv[1]} failed: {said.decode()}")
        seconds.append(usage.ru_utime + usage.ru_stime)
        most = max(most, usage.ru_maxrss)
    return min(seconds), most


def measure(heapgauge, program, size, arguments, scratch):
    argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", "--", program, str(size), str(arguments.mib), arguments.links]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as collector:
        blocks = int(collector.stdout.readline())
        pid = pathlib.Path(f"/proc/{collector.pid}/task/{collector.pid}/children").read_text().split()[0]
        heap = blocks * max(32, (size + 8 + 15) // 16 * 16)
        for what in (["report", "--pid", pid, "--view", "pages", "--no-symbols"], ["image", pid, "-o", scratch / "image.hg"]):
            seconds, kib = least([heapgauge, *what], arguments.runs)
            print(f"{what[0]:6} {size:6} B  {blocks:9} blocks  {heap / 2**30:5.2f} GiB  {seconds:6.2f} s  {heap / seconds / 1e9:5.2f} GB/s  "
                  f"{kib >> 10:5} MiB  {os.getloadavg()[0]:.0f} load", flush=True)
        collector.communicate("x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--sizes", default="64,1024,16384")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--links", choices=["near", "far"], default="near")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        (scratch / "fill.c").write_text(PROGRAM)
        subprocess.run(["cc", "-O1", "-fno-builtin", "-o", scratch / "fill", scratch / "fill.c"], check=True)
        for size in arguments.sizes.split(","):
            measure(arguments.build.resolve() / "heapgauge", scratch / "fill", int(size), arguments, scratch)


if __name__ == "__main__":
    main()

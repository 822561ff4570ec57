#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that exact recording adds to a program, by the size of its blocks: a table in Markdown.

    tests/cost/block_memory.py --build build/release [--mebibytes 200] [SIZE ...]

The program holds that much memory in written blocks of one size, from one stack, and prints its largest resident set.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile

SIZES = (16, 32, 64, 128, 256, 512, 1000, 2000, 3000, 4000, 4100, 5000, 10000, 20000, 100000)
ROUNDS = 3

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    size_t size = strtoul(argv[1], 0, 10), count = (strtoul(argv[2], 0, 10) << 20) / size;
    void **last = NULL;
    for (size_t i = 0; i < count; i++) {
        void **block = memset(malloc(size), 1, size);
        *block = last;
        last = block;
    }
    /* Not ru_maxrss, which counts the process that started this one. */
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("%ld\n", atol(line + 6));
    return argc == 0 || !last;
}
"""


def rss_of(argv):
    return int(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mebibytes", type=int, default=200)
    parser.add_argument("sizes", type=int, nargs="*", metavar="SIZE", default=SIZES)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source, program = pathlib.Path(scratch, "blocks.c"), f"{scratch}/blocks"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-g", "-O1", "-o", program, source], check=True)
        print("| size of a block | RSS bare, MiB | recorded, MiB | added |\n|---|---|---|---|")
        for size in args.sizes or SIZES:
            run = [program, str(size), str(args.mebibytes)]
            record = [args.build.resolve() / "heapgauge", "record", "-q", "-o", f"{scratch}/run.hg", "--", *run]
            bare, recorded = (statistics.median(rss_of(argv) for _ in range(ROUNDS)) / 1024 for argv in (run, record))
            print(f"| {size:,} B | {bare:.1f} | {recorded:.1f} | +{(recorded / bare - 1) * 100:.1f} % |", flush=True)


if __name__ == "__main__":
    main()

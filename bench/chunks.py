#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many bytes of recordings each type of chunk takes: bench/chunks.py FILE..."""

import collections
import pathlib
import re
import struct
import sys

HEAD_BYTES = 40  # of the file, and of each chunk
TYPES = re.search(r"Types: (.*?)\. A process", (pathlib.Path(__file__).parents[1] / "docs/format.md").read_text(encoding="utf-8"), re.S)
NAMES = {int(number): name.strip() for number, name in re.findall(r"(\d+) ([a-z ]+)", TYPES[1])}


def main():
    for path in sys.argv[1:]:
        data = pathlib.Path(path).read_bytes()
        at, taken = HEAD_BYTES, collections.Counter()
        while at + HEAD_BYTES <= len(data):
            kind, _, _, length = struct.unpack_from("<HHIQ", data, at)
            taken[NAMES.get(kind, f"type {kind}")] += HEAD_BYTES + length
            at += HEAD_BYTES + length
        print(f"{path}: {len(data):,} bytes")
        for name, length in taken.most_common():
            print(f"  {length:12,}  {name}")


if __name__ == "__main__":
    main()

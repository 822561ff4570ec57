# SPDX-License-Identifier: Apache-2.0
"""Profiles that no program records: protobuf by hand, so that each rule of a store can be broken on its own."""

import gzip
import time

TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def made_profile(samples=1, values=(1, 100, 1, 100), types=TYPES, period=("space", "bytes"), age_s=0, function="main", comment="", padding=0, first_id=1, labels=0):
    """A gzipped profile of one function with equal samples; `padding` are bytes that compress well."""
    texts = [""]

    def text(value):
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    out = b"".join(block(1, number(1, text(name)) + number(2, text(unit))) for name, unit in types)
    sample = block(1, varint(first_id)) + block(2, b"".join(map(varint, values)))
    sample += b"".join(block(3, number(1, text(f"label{i}")) + number(2, text("value"))) for i in range(labels))
    out += block(2, sample) * samples
    out += block(3, number(1, 1) + number(3, 1 << 47) + number(5, text("/bin/program")))
    out += block(4, number(1, first_id) + number(2, 1) + number(3, 4096) + block(4, number(1, first_id) + number(2, 7)))
    out += block(5, number(1, first_id) + number(2, text(function)) + number(4, text("main.c")))
    out += number(9, time.time_ns() - age_s * 10**9) + number(10, 15 * 10**9)
    if period:
        out += block(11, number(1, text(period[0])) + number(2, text(period[1])))
    out += number(12, 1) + number(13, text(comment + "x" * padding))
    return gzip.compress(out + b"".join(block(6, value) for value in texts))

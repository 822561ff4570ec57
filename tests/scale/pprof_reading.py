# SPDX-License-Identifier: Apache-2.0
"""What the scripts here need of a pprof profile."""

import dataclasses
import gzip


def fields(data):
    """(number, value) of a protobuf message: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def packed(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return values


@dataclasses.dataclass
class Profile:
    gzipped: int  # bytes
    plain: int
    types: list
    samples: list  # (locations, values)
    functions: int
    mappings: int
    text_bytes: int  # of the string table

    def sums(self):
        return {name: sum(values[i] for _, values in self.samples) for i, name in enumerate(self.types)}

    def depth(self):
        return sum(len(where) for where, _ in self.samples) / max(len(self.samples), 1)


def read_profile(path):
    whole = path.read_bytes()
    data = gzip.decompress(whole)
    types, samples, texts, functions, mappings = [], [], [], 0, 0
    for number, value in fields(data):
        if number == 1:
            types.append(dict(fields(value)).get(1, 0))
        elif number == 2:
            sample = dict(fields(value))
            where = sample.get(1, b"")
            samples.append(([where] if isinstance(where, int) else packed(where), packed(sample[2])))
        elif number == 6:
            texts.append(value)
        functions += number == 5
        mappings += number == 3
    return Profile(len(whole), len(data), [texts[at].decode() for at in types], samples, functions, mappings, sum(map(len, texts)))

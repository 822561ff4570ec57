# SPDX-License-Identifier: Apache-2.0
"""Counts what is in stock."""


def stock(lines):
    counts = {}
    for line in lines:
        name, count = line.split(",")
        counts[name] = counts.get(name, 0) + int(count)
    return counts

# SPDX-License-Identifier: Apache-2.0
"""Blocks of every kind, from known lines, while tracemalloc counts them too: prints what it has of each line of this file, as JSON.

No lists, tuples, dicts and floats: tracemalloc blames whoever takes one from a free list, not who has allocated it.

Arguments: "above": tracemalloc begins before the work, above whoever is there; "under": it is stopped in the middle, and takes away
whoever came above it."""

import array
import json
import os
import sys
import threading
import tracemalloc

if not tracemalloc.is_tracing():
    tracemalloc.start()


class Node:
    __slots__ = "left", "right"

    def __init__(self, left, right):
        self.left, self.right = left, right


def fill(count):
    kept = []
    for i in range(count):
        kept.append("text %d" % (i * 1000003))  # grows by realloc
        kept.append(Node(frozenset(range(i % 7)), 10 ** (i % 100 + 20)))
        kept.append(bytearray(i % 3000))
    for i in range(0, len(kept), 2):
        kept[i] = None
    return kept


def large(count):
    numbers = array.array("d", range(count))
    numbers.extend(range(count))
    return Node(numbers, Node(b"x" * 100_000, bytes(700)))


def recursive(depth):
    return Node(recursive(depth - 1) if depth else None, b"deep" * (depth + 50))


def generate(count):
    for i in range(count):
        yield f"made {i}"


def work(kept):
    kept.append(fill(1000))
    kept.append(large(5_000))
    kept.append(recursive(60))
    kept.append(list(generate(500)))


def main():
    kept = []
    if sys.argv[1] == "under":
        tracemalloc.stop()
        fill(2000)  # long enough for somebody to notice
        tracemalloc.start()
    work(kept)
    thread = threading.Thread(target=work, args=(kept,))
    thread.start()
    thread.join()
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
    rows = {row.traceback[0].lineno: [row.size, row.count] for row in snapshot.statistics("lineno")}
    sys.stdout.write(json.dumps(rows))
    sys.stdout.flush()
    os._exit(0)  # what is live stays live


main()

# SPDX-License-Identifier: Apache-2.0
"""planted.py SECONDS CASE: as planted.c, with what Python programs do. Its objects are larger than those in pymalloc's arenas."""

import collections
import functools
import sys
import time

parts, by_time, callbacks, lines = [], {}, [], []
recent, table = collections.deque(maxlen=500), {}


def keep_part(number):
    parts.append(bytes(2000))


def store_by_time(number):
    by_time[time.monotonic_ns()] = bytearray(1800)


def register_callback(number):
    payload = bytes(2200)
    callbacks.append(lambda: payload)


def write_line(number):
    lines.append("x" * 1500 + str(number))


def push_recent(number):
    recent.append(bytes(2000))


@functools.lru_cache(maxsize=400)
def render_page(number):
    return bytes(3000 + number % 7)


def render_some(number):
    render_page(number * 13 % 2000)


def run_batch(number):
    return sum(len(bytes(1000 + i)) for i in range(50))


def replace_entry(number):
    table[number % 300] = bytes(4000)


CASES = {
    "leak_parts": keep_part,
    "leak_by_time": store_by_time,
    "leak_callbacks": register_callback,
    "leak_lines": write_line,
    "bounded_recent": push_recent,
    "bounded_pages": render_some,
    "bounded_batches": run_batch,
    "bounded_table": replace_entry,
}


def main():
    work, number, end = CASES[sys.argv[2]], 0, time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for _ in range(8):
            work(number)
            number += 1
        time.sleep(0.01)


main()

# SPDX-License-Identifier: Apache-2.0
"""Reads batches, lets a pool of threads parse them, aggregates the results, and goes on to the next batch."""
import collections
import concurrent.futures
import json
import sys
import time


def parse_part(part):
    return [json.loads(line) for line in part]


def read_batch(number):
    lines = []
    for i in range(240):
        lines.append('{"id": %d, "country": "%s", "amount": %d.5, "tags": ["a%d", "b%d"]}' % (
            number * 240 + i, "DFNUE"[i % 5], (number + i) % 90, i, number))
    return lines


def run(pool, length):
    start = time.monotonic()
    products = {"product %d" % i: {"price": i * 0.5, "stock": [i, i + 1]} for i in range(1500)}
    totals = collections.Counter()
    number = 0
    while time.monotonic() - start < length:
        lines = read_batch(number)
        futures = [pool.submit(parse_part, lines[i::3]) for i in range(3)]
        for future in futures:
            for row in future.result():
                totals[row["country"]] += row["amount"] * products["product %d" % (row["id"] % 1500)]["price"]
        number += 1
        time.sleep(0.02)
    return totals


def main():
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
        run(pool, length)


if __name__ == "__main__":
    main()

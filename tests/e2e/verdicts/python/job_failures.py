# SPDX-License-Identifier: Apache-2.0
"""Runs import jobs. The failures are collected, so that a summary can be written at the end."""
import sys
import time


class Importer:
    def __init__(self):
        self.failures = []
        self.total = 0.0

    def run_job(self, line):
        try:
            fields = line.split(b",")
            values = 0.0
            for field in fields:
                values += float(field)
            self.total += values
        except ValueError as error:
            self.failures.append(error)


def make_line(number):
    cells = [b"%d.%02d" % (number * 7 % 1000, (number + column) % 100) for column in range(70)]
    if number % 3 == 0:
        cells[-1] = b"n/a"
    return b",".join(cells)


def main():
    end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    importer = Importer()
    number = 0
    while time.monotonic() < end:
        for _ in range(6):
            number += 1
            importer.run_job(make_line(number))
        time.sleep(0.01)
    importer.failures.clear()


if __name__ == "__main__":
    main()

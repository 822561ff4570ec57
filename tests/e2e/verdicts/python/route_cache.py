# SPDX-License-Identifier: Apache-2.0
"""A router that splits request paths into segments and remembers what it has split."""
import functools
import os
import sys
import time


@functools.lru_cache(maxsize=None)
def split_path(path):
    if not path.startswith("/"):
        raise ValueError(path)
    return tuple(path.split("/"))


class Router:
    def __init__(self):
        self.handlers = {f"service{number}": number for number in range(50)}
        self.hits = dict.fromkeys(self.handlers, 0)

    def dispatch(self, path):
        segments = split_path(path)
        service = segments[1]
        self.hits[service] += 1
        return {"handler": self.handlers[service], "arguments": list(segments[2:])}


def compose_path(number):
    parts = [f"item{number * 31 + index}" for index in range(30)]
    return f"/service{number % 50}/" + "/".join(parts)


def main(seconds):
    end = time.monotonic() + seconds
    router = Router()
    number = 0
    while time.monotonic() < end:
        for _ in range(4):
            path = compose_path(number)
            router.dispatch(path)
            router.dispatch(path)
            number += 1
        time.sleep(0.012)
    os._exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)

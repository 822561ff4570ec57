# SPDX-License-Identifier: Apache-2.0
"""Serves thumbnails; the last 250 stay in a cache."""
import functools
import random
import sys
import time
import zlib


@functools.lru_cache(maxsize=250)
def thumbnail(picture, size):
    row = bytes((picture * 31 + i * size) & 0xFF for i in range(64))
    return row * (size + picture % 40)


def serve(rng, newest):
    checksum = 0
    for i in range(6):
        checksum ^= zlib.crc32(thumbnail(newest + i, 48))
        checksum ^= zlib.crc32(thumbnail(max(0, newest - rng.randrange(100)), 48))
    return checksum


def main():
    start = time.monotonic()
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    rng = random.Random(3)
    for picture in range(250):
        thumbnail(picture, 48)
    newest = 250
    while time.monotonic() - start < length:
        serve(rng, newest)
        newest += 6
        time.sleep(0.014)
    thumbnail.cache_clear()


if __name__ == "__main__":
    main()

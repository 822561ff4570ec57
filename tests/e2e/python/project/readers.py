# SPDX-License-Identifier: Apache-2.0
"""What the tests beside this file call."""

import functools


def read_all():
    return [bytes(1_000_000) for _ in range(3)]


@functools.lru_cache(maxsize=None)
def cached(number):
    return [number] * 1000

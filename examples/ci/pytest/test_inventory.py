# SPDX-License-Identifier: Apache-2.0
from inventory import stock


def test_stock():
    lines = (f"item {i % 100},{i}" for i in range(50_000))
    assert sum(stock(lines).values()) == sum(range(50_000))

# SPDX-License-Identifier: Apache-2.0
"""Tests with memory limits, which test_pytest_plugin.py runs: some are within, and some are not. Sizes are those of malloc: an object of
bytes is 33 larger than what it holds."""

import os
import threading

import pytest
import readers

kept = []


@pytest.fixture
def filled():
    return [bytes(1000) for _ in range(10_000)]


@pytest.mark.heapgauge(peak="16KiB", leaked=0)
def test_nothing_is_held():
    assert not kept


@pytest.mark.heapgauge(peak="3MB", leaked=0)
def test_within_both_limits():
    assert len([object() for _ in range(100_000)]) == 100_000


@pytest.mark.heapgauge(peak="1MiB", leaked=0)
def test_what_a_fixture_holds_is_not_the_tests(filled):
    filled.clear()


@pytest.mark.heapgauge(peak="1MB")
def test_peak_is_exceeded():
    readers.read_all()


@pytest.mark.heapgauge(leaked=0)
def test_leak_is_seen():
    for _ in range(7):
        kept.append(bytes(1000))  # seven times


@pytest.mark.heapgauge(leaked="100kB")
def test_leak_is_allowed():
    kept.append(bytes(1000))


@pytest.mark.heapgauge(leaked=0)
def test_cycles_are_no_leak():
    for _ in range(1000):
        one = []
        one.append(one)


@pytest.mark.heapgauge(leaked=0)
def test_a_cache_is_a_leak():
    readers.cached(1)


@pytest.mark.heapgauge(leaked=0, warmup=1)
def test_a_cache_that_is_warm_is_none():
    readers.cached(1)


@pytest.mark.heapgauge(peak="5MB")
def test_threads_of_the_test_count():
    thread = threading.Thread(target=lambda: bytes(6_000_000))
    thread.start()
    thread.join()


@pytest.mark.heapgauge(leaked=0)
def test_fails_as_always(record_property):
    print("said before it failed")
    record_property("seen", 3)
    assert [1, 2] == [1, 3]


@pytest.mark.heapgauge(leaked=0)
def test_skips_as_always():
    pytest.skip("not today")


@pytest.mark.xfail(raises=KeyError, strict=True)
@pytest.mark.heapgauge(leaked=0)
def test_fails_as_expected():
    raise KeyError


class Unpicklable(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


@pytest.mark.heapgauge(leaked=0)
def test_raises_what_cannot_be_pickled():
    raise Unpicklable("this", "that")


@pytest.mark.skipif("PYTEST_HEAPGAUGE" not in os.environ, reason="it ends the process that runs it")
@pytest.mark.heapgauge(leaked=0)
def test_ends_its_process():
    os.abort()


@pytest.mark.heapgauge(peek=1)
def test_has_an_unknown_limit():
    pass


@pytest.mark.heapgauge(peak="much")
def test_has_a_limit_that_is_no_size():
    pass


def test_without_a_mark():
    assert kept == [], "what measured tests kept is gone"

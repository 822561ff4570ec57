# SPDX-License-Identifier: Apache-2.0
"""What a program can say from inside, for test_bindings_inside.py: scopes on several threads at once, labels, contexts, snapshots and
control. Sizes are large enough to come from malloc, and odd enough to be known again."""

import concurrent.futures
import threading

import heapgauge

ROUNDS, THREADS = 50, 4
kept = []


@heapgauge.scope("decorated")
def decorated(depth):
    if depth:
        return decorated(depth - 1)
    return bytes(300_001)


def work(name, size, barrier):
    """Threads are in their scopes at the same time: each change of one must leave the others alone."""
    for _ in range(ROUNDS):
        barrier.wait()
        with heapgauge.scope(name):
            barrier.wait()
            bytes(size)
            with heapgauge.scope("inner"):
                barrier.wait()
                bytes(size + 1)
            barrier.wait()


def threads():
    barrier = threading.Barrier(THREADS)
    running = [threading.Thread(target=work, args=(f"thread{i}", 100_001 + 10 * i, barrier)) for i in range(THREADS)]
    for one in running:
        one.start()
    for one in running:
        one.join()


def failing():
    try:
        with heapgauge.scope("failing"):
            raise KeyError
    except KeyError:
        bytes(400_001)


def labels():
    with heapgauge.label("tenant", "acme"):
        bytes(500_001)
    bytes(500_003)
    heapgauge.set_label("phase", "load")
    bytes(500_005)
    heapgauge.set_label("phase", None)


def carried():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with heapgauge.scope("request"):
            later = pool.submit(heapgauge.carry(bytes), 600_001)
            plain = pool.submit(bytes, 600_003)
        later.result(), plain.result()


def control():
    heapgauge.stop("thread")
    bytes(700_001)
    heapgauge.start("thread")
    bytes(700_003)
    heapgauge.mode("tags")
    mode = heapgauge.stats().mode if heapgauge.is_recorded() else None
    heapgauge.mode("default")
    return mode


def main():
    decorated(2), threads(), failing(), labels(), carried()
    heapgauge.snapshot("before")
    kept.append(bytes(800_001))
    heapgauge.snapshot("after")
    heapgauge.mark("a mark")
    before = heapgauge.stats()
    kept.append(bytes(900_001))
    after = heapgauge.stats()
    mode = control()
    if not heapgauge.is_recorded():
        assert before is None and after is None and mode is None and heapgauge.tag_stats("decorated") is None
        print("not recorded")
        return
    # Small objects may have been freed meanwhile, and of several threads the peak is known to within a bound.
    assert 890_000 < after.heap.live_bytes - before.heap.live_bytes < 1_000_000, (before, after)
    assert after.peak_bytes + after.peak_bound_bytes >= after.heap.live_bytes, after
    assert before.mode == "exact" and not before.estimated and mode == "tags", (before, mode)
    tag = heapgauge.tag_stats("decorated")
    assert tag.total.bytes >= 300_001 and tag.total.live_bytes < 100_000 and heapgauge.tag_stats("nowhere") is None
    print("recorded")


main()

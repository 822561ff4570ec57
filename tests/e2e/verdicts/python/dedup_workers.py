# SPDX-License-Identifier: Apache-2.0
"""Two worker processes remove duplicates from a stream of events. Duplicates come within seconds, but nobody forgets anything."""
import hashlib
import multiprocessing
import sys
import time


class Deduplicator:
    def __init__(self):
        self.shards = [{} for _ in range(256)]
        self.duplicates = 0

    def accept(self, event):
        digest = hashlib.sha1(event.encode()).digest()
        shard = self.shards[digest[0]]
        if digest in shard:
            self.duplicates += 1
            return False
        shard[digest] = event.split(" ")
        return True


def read_event(worker, number):
    size = 12 + number % 20
    return "worker %d event %d " % (worker, number) + " ".join("field%d" % (number + i) for i in range(size))


def work(worker, length):
    due = time.monotonic()
    end = due + length
    dedup = Deduplicator()
    number = 0
    while time.monotonic() < end:
        for _ in range(5):
            number += 1
            dedup.accept(read_event(worker, number))
            dedup.accept(read_event(worker, number - number % 3))
        due += 0.012
        time.sleep(max(0.001, due - time.monotonic()))


def main():
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(i, length)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(0 if all(worker.exitcode == 0 for worker in workers) else 1)


if __name__ == "__main__":
    main()

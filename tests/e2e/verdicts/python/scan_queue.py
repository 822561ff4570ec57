# SPDX-License-Identifier: Apache-2.0
"""A virus scanner's skeleton: a feeder thread, three scanner threads, a bounded queue, and the last 300 reports."""
import collections
import hashlib
import queue
import sys
import threading
import time


def read_blob(number):
    return bytes([number % 251]) * (2000 + number * 37 % 4000)


def feed(jobs, stop, scanners):
    number = 0
    while not stop.is_set():
        for _ in range(8):
            jobs.put((number, read_blob(number)))
            number += 1
        time.sleep(0.01)
    for _ in range(scanners):
        jobs.put(None)


def make_report(number, blob):
    digest = hashlib.sha256(blob).hexdigest()
    lines = [f"{number} {offset:06x} {digest[offset % 64:]}" for offset in range(0, len(blob), 200)]
    return {"number": number, "digest": digest, "lines": lines}


def scan(jobs, reports):
    while (job := jobs.get()) is not None:
        reports.append(make_report(*job))


def main(seconds):
    start = time.monotonic()
    jobs = queue.Queue(maxsize=40)
    reports = collections.deque(maxlen=300)
    for number in range(300):
        reports.append(make_report(number, read_blob(number)))
    stop = threading.Event()
    threads = [threading.Thread(target=scan, args=(jobs, reports)) for _ in range(3)]
    threads.append(threading.Thread(target=feed, args=(jobs, stop, 3)))
    for thread in threads:
        thread.start()
    while time.monotonic() - start < seconds:
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)

# SPDX-License-Identifier: Apache-2.0
"""A server with three worker processes; each keeps the 500 most recently used documents."""
import collections
import os
import random
import sys
import time

LIMIT = 500
WORKERS = 3


class DocumentCache:
    def __init__(self, limit):
        self.limit = limit
        self.documents = collections.OrderedDict()

    def get(self, key):
        if key in self.documents:
            self.documents.move_to_end(key)
            return self.documents[key]
        document = load_document(key)
        self.documents[key] = document
        if len(self.documents) > self.limit:
            self.documents.popitem(last=False)
        return document


def load_document(key):
    return {"key": key, "title": f"document {key}", "paragraphs": [f"{key}:{line} " * 12 for line in range(15)]}


def render(document):
    return "\n".join([document["title"], *document["paragraphs"]]).encode()


def work(worker, end):
    choose = random.Random(worker)
    cache = DocumentCache(LIMIT)
    for key in range(LIMIT):
        cache.get(key)
    sent = 0
    while time.monotonic() < end:
        for _ in range(10):
            sent += len(render(cache.get(int(choose.paretovariate(0.4)) % 5000)))
        time.sleep(0.015)
    return sent


def main():
    end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    children = []
    for worker in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if work(worker, end) >= 0 else 1)
        children.append(pid)
    failed = 0
    for pid in children:
        failed |= os.waitpid(pid, 0)[1] != 0
    sys.exit(int(failed))


main()

# SPDX-License-Identifier: Apache-2.0
"""A document converter: trees whose nodes know their parents are dropped, and collected between batches."""
import gc
import sys
import time


class Node:
    def __init__(self, kind, parent=None, text=""):
        self.kind = kind
        self.parent = parent
        self.text = text
        self.children = []
        if parent is not None:
            parent.children.append(self)


def parse_document(number):
    root = Node("document")
    for section in range(12):
        heading = Node("section", root, f"section {section} of {number}")
        for line in range(20):
            Node("paragraph", heading, f"text {line} " * 8)
    return root


def to_html(node):
    inner = "".join(to_html(child) for child in node.children)
    return f"<{node.kind}>{node.text}{inner}</{node.kind}>"


def convert(number):
    return len(to_html(parse_document(number)))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    gc.collect()
    gc.disable()
    start = time.monotonic()
    number = characters = 0
    while time.monotonic() - start < seconds:
        characters += convert(number)
        number += 1
        if number % 12 == 0:
            gc.collect()
        time.sleep(0.015)
    assert characters >= 0


main()

# SPDX-License-Identifier: Apache-2.0
"""A program that allocates from known places: python3 calling_program.py SEED COUNT

Each allocation is a malloc by ctypes, on the line on which its stack is looked at by way of sys._getframe. At the end it prints as
JSON how many there were of each stack: [[[function, file, line], ...], calls], innermost first.
"""

import collections
import contextlib
import ctypes
import functools
import json
import random
import sys
import threading

SIZE = 77777
keeping = ctypes.PyDLL(None).malloc  # with the GIL
releasing = ctypes.CDLL(None).malloc  # without it
for function in keeping, releasing:
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_size_t]
free = ctypes.PyDLL(None).free
free.restype, free.argtypes = None, [ctypes.c_void_p]
counts = collections.Counter()
lock = threading.Lock()


def chain():
    """The stack of the caller."""
    frame, found = sys._getframe(1), []
    while frame:
        code = frame.f_code
        found.append((code.co_qualname, code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def leaf(dice):
    stack, block = chain(), (keeping if dice.random() < 0.8 else releasing)(SIZE)
    with lock:
        counts[stack] += 1
    free(block)


def generator(dice, depth):
    yield 1
    step(dice, depth)
    yield from range(2)
    leaf(dice)


class Thing:
    def __init__(self, dice):
        self.dice = dice

    def method(self, depth):
        step(self.dice, depth)

    @property
    def attribute(self):
        return leaf(self.dice)

    def __len__(self):
        leaf(self.dice)
        return 1

    @staticmethod
    def fixed(dice, depth):
        (lambda: step(dice, depth))()


@contextlib.contextmanager
def context(dice):
    leaf(dice)
    yield
    leaf(dice)


def raising(dice):
    try:
        raise ValueError
    except ValueError:
        leaf(dice)
    finally:
        leaf(dice)


async def coroutine(dice, depth):
    step(dice, depth)
    return leaf(dice)


def run_coroutine(dice, depth):
    running = coroutine(dice, depth)
    with contextlib.suppress(StopIteration):
        running.send(None)


def made(dice, number):
    """Code that is made, run and forgotten: its address will be another's."""
    exec(compile(f"def f{number}(dice):\n    {'pass;' * (number % 3)}leaf(dice)\nf{number}(dice)", f"<made {number}>", "exec"), globals() | {"dice": dice})


def recursive(dice, depth):
    return step(dice, 0) if depth == 0 else recursive(dice, depth - 1)


try:
    from greenlet import greenlet
except ImportError:
    greenlet = None


def switched(dice, depth):
    """In a stack of its own, which another one resumes."""
    if greenlet is None:
        return leaf(dice)
    other = greenlet(lambda: (leaf(dice), inner.parent.switch(), step(dice, depth)))
    inner = greenlet(lambda: other.switch())
    inner.switch()
    other.switch()
    return leaf(dice)


WAYS = [
    lambda dice, depth: leaf(dice),
    lambda dice, depth: list(generator(dice, depth)),
    lambda dice, depth: Thing(dice).method(depth),
    lambda dice, depth: Thing(dice).attribute,
    lambda dice, depth: len(Thing(dice)),
    lambda dice, depth: Thing.fixed(dice, depth),
    lambda dice, depth: sorted([2, 1], key=lambda n: (leaf(dice), n)[1]),  # a callback from C
    lambda dice, depth: functools.reduce(lambda a, b: leaf(dice), [1, 2, 3]),
    lambda dice, depth: [leaf(dice) for _ in range(2)],
    lambda dice, depth: raising(dice),
    lambda dice, depth: run_coroutine(dice, depth),
    lambda dice, depth: made(dice, dice.randrange(50)),
    lambda dice, depth: recursive(dice, dice.randrange(20)),
    lambda dice, depth: switched(dice, depth),
]


def step(dice, depth):
    if depth <= 0:
        return leaf(dice)
    with context(dice):
        return WAYS[dice.randrange(len(WAYS))](dice, depth - 1)


def run(seed, count):
    dice = random.Random(seed)
    while counts.total() < count:
        step(dice, dice.randrange(6))


def main(seed, count):
    threads = [threading.Thread(target=run, args=(seed + i, count)) for i in range(3)]
    for thread in threads:
        thread.start()
    run(seed, count)
    for thread in threads:
        thread.join()
    print(json.dumps([[stack, calls] for stack, calls in counts.items()]))


main(int(sys.argv[1]), int(sys.argv[2]))

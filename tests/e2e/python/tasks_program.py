# SPDX-License-Identifier: Apache-2.0
"""Named tasks that take turns, each of which holds bytes of its own; for test_python_tasks.py. ARGUMENT: a library that allocates
without the GIL, or nothing. Prints what each label should have of blocks of SIZE bytes and more."""

import asyncio
import collections
import ctypes
import itertools
import json
import os
import sys
import threading

SIZE = 100_000
HEAD = bytes().__sizeof__()
truth = collections.Counter()
kept = [None] * 1000  # never grows: --min-size looks at the mean of a site
place = itertools.count()


def hold(label, size):
    """A block of exactly `size` bytes, which comes from malloc."""
    block = bytes(size - HEAD)
    kept[next(place)] = block
    truth[label] += size


async def worker(label, size, turns):
    for turn in range(turns):
        hold(label, size + turn)
        await asyncio.sleep(0 if turn % 2 else 0.001)
    hold(label, size)


async def renamed():
    hold("task=before", SIZE)
    asyncio.current_task().set_name("after")
    await asyncio.sleep(0)
    hold("task=after", SIZE + 3)


def in_thread():
    for _ in range(3):
        hold("(no label)", SIZE + 7)


def without_gil(library, label):
    """CDLL gives the GIL away for the call."""
    library.take(SIZE + 11)
    truth[label] += SIZE + 11


async def native(library):
    without_gil(library, "task=native")
    await asyncio.sleep(0)
    without_gil(library, "task=native")


class Own(asyncio.Task):
    """A class made from asyncio's."""


async def main(library):
    hold("task=[unnamed]", SIZE + 1)
    loop = asyncio.get_running_loop()
    named = {"alpha": (SIZE, 20), "beta": (3 * SIZE, 7), "caf\u00e9 \u6f22": (SIZE + 64, 3), "x" * 100: (SIZE + 5, 2)}
    jobs = [asyncio.create_task(worker(f"task={name[:60]}", *how), name=name) for name, how in named.items()]
    jobs.append(asyncio.create_task(worker("task=[unnamed]", SIZE, 2)))
    jobs.append(Own(worker("task=own", SIZE, 2), loop=loop, name="own"))
    jobs.append(asyncio.create_task(renamed(), name="before"))
    if library:
        jobs.append(asyncio.create_task(native(library), name="native"))
    thread = threading.Thread(target=in_thread)
    thread.start()
    await asyncio.gather(*jobs)
    await loop.run_in_executor(None, in_thread)
    thread.join()
    for number in range(40):  # one after the other, with names and tasks where the last ones were
        await asyncio.create_task(worker(f"task=job {number}", SIZE + number, 0), name=f"job {number}")
    assert asyncio.current_task().get_name() == "Task-1"
    hold("task=[unnamed]", SIZE + 2)


def loop_of_a_thread(library):
    """A thread that is not the first one runs a loop too."""

    async def inside():
        hold("task=elsewhere", SIZE)
        if library:
            without_gil(library, "task=elsewhere")

    async def outside():
        await asyncio.create_task(inside(), name="elsewhere")

    asyncio.run(outside())


if __name__ == "__main__":
    taker = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None
    hold("(no label)", SIZE + 9)
    asyncio.run(main(taker))
    other = threading.Thread(target=loop_of_a_thread, args=(taker,))
    other.start()
    other.join()
    hold("(no label)", SIZE + 13)
    print(json.dumps(truth), flush=True)
    os._exit(0)  # with all that is kept

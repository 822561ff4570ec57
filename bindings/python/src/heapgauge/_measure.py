# SPDX-License-Identifier: Apache-2.0
"""The memory of one function call: it runs in a forked child, whose profile begins empty, and is read while the child waits.

So the peak is that of the call alone, whatever the process held before, and what is left at the end is what the call left. The parent must be
recorded with `--start dormant --python malloc`: then nothing but the call is recorded, and Python's objects are blocks of the heap.
docs/decisions/034-a-measured-test-is-a-forked-child.md has the reasons."""

import gc
import os
import pickle
import select
import signal
import sys
import traceback
import typing
import warnings

from . import _inside, _profile

_LENGTH_BYTES = 8  # before each answer

SITES = 500  # of a profile that are looked at for the lines responsible


class Line(typing.NamedTuple):
    """What one line of Python holds. `frames` are (function, file, line), innermost first; without Python functions, native ones."""

    bytes: int
    blocks: int
    frames: tuple


class Measured(typing.NamedTuple):
    """bytes that the call held at its peak and did not free, the lines responsible for either, and what describe() returned."""

    peak_bytes: int
    leaked_bytes: int
    leaked_blocks: int
    peak_lines: list
    leaked_lines: list
    result: object


class ChildEnded(Exception):
    """The child ended before the call did."""


def _frames(site):
    """A frame of Python is in a module that is its source file."""
    python = [frame for frame in site["stack"] if frame["module"] == frame["file"]]
    shown = python or [frame for frame in site["stack"] if not frame["runtime_frame"]][:1] or site["stack"][:1]
    return tuple((frame["function"], frame["file"] or frame["module"], frame["line"]) for frame in shown)


def _lines(profile, view, prefix):
    """By the innermost line, the largest first."""
    lines = {}
    for site in profile.view(view, limit=SITES):
        frames = _frames(site)
        before = lines.get(frames[:1], Line(0, 0, frames))
        lines[frames[:1]] = Line(before.bytes + site[f"{prefix}_bytes"], before.blocks + site[f"{prefix}_blocks"], before.frames)
    return sorted((line for line in lines.values() if line.bytes), key=lambda line: -line.bytes)


def _read(pid, result):
    with _profile.open_process(pid) as profile:
        (process,) = profile.view("processes")
        leaked = process["not_freed_bytes"], process["not_freed_blocks"]
        peak_lines = _lines(profile, "peak", "peak") if process["peak_bytes"] else []
        leaked_lines = _lines(profile, "leaks", "not_freed") if leaked[1] else []
    return Measured(process["peak_bytes"], *leaked, peak_lines, leaked_lines, result)


def _run(call, warmups):
    """In the child. None, or what was raised."""
    try:
        for _ in range(warmups):
            call()
        gc.collect()
        _inside.start()
        try:
            call()
            gc.collect()
        finally:
            _inside.stop()
            gc.collect()  # also what stop() itself took, which is in a free list now
    except BaseException as error:
        return error
    return None


def _child(call, warmups, describe, results, go):
    """Never returns, whatever happens: above this is the program of the parent."""
    status = 1
    try:
        answer = describe(_run(call, warmups))
        sys.stdout.flush(), sys.stderr.flush()
        with os.fdopen(results, "wb") as pipe:
            message = pickle.dumps(answer)
            pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little") + message)
        os.read(go, 1)  # until the parent has read the profile
        if "multiprocessing.util" in sys.modules:
            sys.modules["multiprocessing.util"]._exit_function()  # as at every exit: its workers end
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _fork():
    sys.stdout.flush(), sys.stderr.flush()
    with warnings.catch_warnings():
        # That of processes with several threads: the child uses none of what they may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _wait_for(pid):
    """The answer of a child that is gone: how it ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return ChildEnded(f"the process of the test {how} before the test was over; run it without --heapgauge to see why")


def _receive(pid, pipe):
    """What the child has sent; b"" if it ended before. The pipe does not say so: processes that the child has started keep it open."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in pipe, ended:
        poll.register(descriptor, select.POLLIN)
    received = b""
    try:
        while len(received) < _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "little"):
            ready = [descriptor for descriptor, _ in poll.poll()]
            more = os.read(pipe, 1 << 20) if pipe in ready else b""
            if not more:
                return b""
            received += more
        return received[_LENGTH_BYTES:]
    finally:
        os.close(ended)


def measure(call, describe, warmups=0):
    """Runs call() in a child and returns Measured. describe() is called there with what call() raised, or None; what it returns must be
    picklable, and is the result."""
    from_child, results = os.pipe()
    go, to_child = os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(from_child), os.close(to_child)
        _child(call, warmups, describe, results, go)
    os.close(results), os.close(go)
    try:
        answer = _receive(pid, from_child)
        if not answer:
            ended, pid = _wait_for(pid), 0
            raise ended
        measured = _read(pid, pickle.loads(answer))
        os.write(to_child, b"x")
        os.waitpid(pid, 0)
        pid = 0
        return measured
    finally:
        os.close(from_child), os.close(to_child)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

# SPDX-License-Identifier: Apache-2.0
"""What a program says about its own memory while it is recorded. In a program that is not recorded every function does nothing, and stats()
is None. Any thread may call; nothing blocks or fails because of the recorder."""

import ctypes
import functools
import inspect
import threading
import typing

from . import _recorder

_recorder_here = _recorder.find()
_WHERE = {"process": 0, "thread": 1}
_MODES = {"dormant": 0, "tags": 1, "sample": 2, "exact": 3, "default": 255}
_MODE_NAMES = {number: name for name, number in _MODES.items()}


def is_recorded():
    """Whether this process runs under the recorder."""
    return _recorder_here is not None


class _Entered:
    """What scope and label share: one `with` statement, on one thread. As a decorator, each call has its own."""

    def __init__(self, *texts):
        self._texts = tuple(text.encode() for text in texts)
        self._before = None

    def __enter__(self):
        if self._before:
            raise RuntimeError(f"{self!r} is entered already; make one for each with statement")
        if _recorder_here:
            self._before = (threading.get_ident(), self._enter(*self._texts))
        return self

    def __exit__(self, *exception):
        before, self._before = self._before, None
        if before and before[0] != threading.get_ident():
            raise RuntimeError(f"{self!r} was entered by another thread; leave it on the thread that entered it")
        if before:
            _recorder_here.leave(before[1])

    def __call__(self, function):
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{self!r} cannot span {function.__name__}, which waits while other code runs; enter it inside, between two waits")

        @functools.wraps(function)
        def inside(*arguments, **named):
            with type(self)(*(text.decode() for text in self._texts)):
                return function(*arguments, **named)

        return inside

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(repr(text.decode()) for text in self._texts)})"


class scope(_Entered):
    """with scope("parser"): what this thread allocates inside belongs to that tag, below the scopes it is in already. Also a decorator.

    A scope belongs to its thread: do not hold one over an `await` or `yield`, where other tasks would run in it."""

    def __init__(self, name):
        super().__init__(name)

    def _enter(self, name):
        return _recorder_here.enter_name(name, None)


class label(_Entered):
    """with label("tenant", name): what this thread allocates inside has that label. A key has one value at a time. Also a decorator."""

    def __init__(self, key, value):
        super().__init__(key, value)

    def _enter(self, key, value):
        return _recorder_here.label_enter(key, value, None)


def set_label(key, value):
    """A label until another value is set, None removes it, or the scope ends in which this was called."""
    if _recorder_here:
        _recorder_here.label(key.encode(), None if value is None else value.encode())


def carry(function):
    """The function, to be called elsewhere in the tags and labels of here: executor.submit(carry(work), job)."""
    if not _recorder_here:
        return function
    context = _recorder_here.context_get()

    @functools.wraps(function)
    def carried(*arguments, **named):
        before = _recorder_here.context_get()
        _recorder_here.context_set(context)
        try:
            return function(*arguments, **named)
        finally:
            _recorder_here.context_set(before)

    return carried


def snapshot(name):
    """Records what every stack holds at this moment: `heapgauge report --at snap:NAME`. The program does not wait."""
    if _recorder_here:
        _recorder_here.snapshot(name.encode())


def mark(name):
    """A name on the timeline."""
    if _recorder_here:
        _recorder_here.mark(name.encode())


def _number(table, word, what):
    if word not in table:
        raise ValueError(f"{what} is one of {', '.join(table)}, not {word!r}")
    return table[word]


def start(where="process"):
    """Goes on recording after stop(), or begins in a program that was started with `record --start dormant`. where: process or thread."""
    number = _number(_WHERE, where, "where")
    if _recorder_here:
        _recorder_here.go(1, number)


def stop(where="process"):
    """Blocks that are allocated from here on are never counted, not even when they are freed."""
    number = _number(_WHERE, where, "where")
    if _recorder_here:
        _recorder_here.go(0, number)


def mode(name):
    """How the process is recorded from here on: exact, tags, sample, dormant, or default: as whoever records it said."""
    number = _number(_MODES, name, "a mode")
    if _recorder_here:
        _recorder_here.turn(number)


class Numbers(typing.NamedTuple):
    """Allocations, what was freed of them, and what is left. Estimates in the sampled mode."""

    calls: int
    bytes: int
    frees: int
    freed_bytes: int
    live_blocks: int
    live_bytes: int


class Stats(typing.NamedTuple):
    """Of the whole process. peak_bytes is of heap.live_bytes, and may have been more by peak_bound_bytes."""

    mode: str
    estimated: bool
    heap: Numbers
    peak_bytes: int
    peak_bound_bytes: int
    mapped: Numbers
    tags: int
    sites: int
    recorder_bytes: int


class TagStats(typing.NamedTuple):
    """Of one tag: how often it was entered, what was allocated in it alone, and with the scopes inside."""

    visits: int
    self: Numbers
    total: Numbers


def _numbers(layout):
    return Numbers(*(getattr(layout, field) for field in Numbers._fields))


def stats():
    """What the recorder counts in this process now; None if there is no recorder."""
    layout = _recorder.StatsLayout()
    if not _recorder_here or not _recorder_here.stats(ctypes.byref(layout), ctypes.sizeof(layout)):
        return None
    plain = {field: getattr(layout, field) for field in ("peak_bytes", "peak_bound_bytes", "tags", "sites", "recorder_bytes")}
    name = _MODE_NAMES.get(layout.mode, str(layout.mode))
    return Stats(mode=name, estimated=bool(layout.estimated), heap=_numbers(layout.heap), mapped=_numbers(layout.mapped), **plain)


def tag_stats(path):
    """The same of one tag by its path: "server/parser". None if nobody was there yet, or there is no recorder."""
    layout = _recorder.TagLayout()
    if not _recorder_here or not _recorder_here.tag_stats(path.encode(), ctypes.byref(layout)):
        return None
    return TagStats(layout.visits, _numbers(layout.self), _numbers(layout.total))

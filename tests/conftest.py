# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: it does not depend on the signals that pytest's parent ignores or blocks, and it ends.

A phase of a test (setup, call, teardown) that takes longer than HEAPGAUGE_TEST_SECONDS fails and shows where it waited. The
processes that it started are killed first, because the way out of a `with subprocess.Popen` waits for them without a limit.
"""

import contextlib
import faulthandler
import os
import pathlib
import signal
import sys
import threading
import traceback

import pytest

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
LIMIT_SECONDS = float(os.environ.get("HEAPGAUGE_TEST_SECONDS", 7200 if LONG else 1800))
AGAIN_SECONDS = 5  # between attempts to end a phase: its way out may wait too
EXIT_SECONDS = 60  # for threads that tests left running
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}  # subprocess restores these


def reset_signals():
    """Children start with default dispositions and nothing blocked, as from a shell with a terminal. nohup and the background
    jobs of a script ignore signals, and exec keeps that. A handler is reset by exec, and still keeps pytest itself alive."""
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def parents():
    """{pid: parent's pid} of every process."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            pass  # it ended meanwhile
    return found


def kill_descendants():
    """Kills every process below this one; those first that could start others."""
    parent_of, generation = parents(), {os.getpid()}
    while generation := {pid for pid, parent in parent_of.items() if parent in generation}:
        for pid in generation:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def other_stacks():
    """What the other threads are doing; pytest shows the main thread's stack."""
    here = threading.get_ident()
    return "".join(
        f"\nthread {ident}:\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
        if ident != here
    )


def end_phase(*_):
    kill_descendants()
    pytest.fail(f"did not end within {LIMIT_SECONDS:g} s; what it had started was killed{other_stacks()}")


@contextlib.contextmanager
def limited():
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_configure():
    reset_signals()
    for name in ("COLUMNS", "LINES"):  # xdist's, of a terminal that there is not
        os.environ.pop(name, None)
    signal.signal(signal.SIGALRM, end_phase)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup():
    with limited():
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call():
    with limited():
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown():
    with limited():
        yield


def pytest_unconfigure():
    """At its end Python waits for every thread. (A worker waits for the others, and pytest-xdist ends it.)"""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        faulthandler.dump_traceback_later(EXIT_SECONDS, exit=True)

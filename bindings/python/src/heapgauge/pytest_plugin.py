# SPDX-License-Identifier: Apache-2.0
"""Memory limits for tests:

    @pytest.mark.heapgauge(peak="10MB", leaked=0)
    def test_parse(): ...

`pytest --heapgauge` checks them: pytest starts itself once more under `heapgauge record`, and each marked test runs in a forked child
(_measure.py). A test that exceeds a limit fails, and the message names the lines responsible. Without the option the mark does nothing."""

import os
import pickle
import re
import sys

import pytest

from . import _command, _inside, _library, _measure, _profile

STARTED = "PYTEST_HEAPGAUGE"  # set for the pytest that was started under the recorder
LINES = 5  # of a message
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_OUTCOMES = {"skip": pytest.skip.Exception, "xfail": pytest.xfail.Exception, "fail": pytest.fail.Exception, "exit": pytest.exit.Exception}
_shown = pytest.StashKey()  # the failure of a test as its child showed it


def pytest_addoption(parser):
    group = parser.getgroup("heapgauge", "memory limits")
    group.addoption("--heapgauge", action="store_true", help="check the memory limits of tests marked with @pytest.mark.heapgauge")
    group.addoption("--heapgauge-output", metavar="FILE", help="keep the recording of the marked tests in FILE, for heapgauge report")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "heapgauge(peak=None, leaked=None, warmup=0): limits for the memory of a test, as bytes or '10MB': what it holds at its peak, and what "
        "it does not free; checked by --heapgauge. warmup: runs before the measured one",
    )


# ---- under the recorder ----


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    option = config.option
    if not option.heapgauge or option.collectonly or getattr(option, "help", False) or hasattr(config, "workerinput"):
        return
    try:
        _library.library()
        argv = _record_words(option.heapgauge_output or os.devnull)
    except OSError as error:
        raise pytest.UsageError(f"--heapgauge: {error}") from None
    if not _inside.is_recorded():
        _start_again(config, argv)
    if os.environ.get("PYTHONMALLOC") != "malloc":
        raise pytest.UsageError("--heapgauge: this recorder does not see Python's objects; start pytest without 'heapgauge record'")


def _record_words(output):
    options = {"quiet": True, "no_config": True, "start": "dormant", "python": "malloc", "output": output}
    return [_command.command(), "record", *_command.option_words(options), "--"]


def _start_again(config, argv):
    """Replaces this process, with the same command line under the recorder."""
    if STARTED in os.environ:
        raise pytest.UsageError(f"--heapgauge: {sys.executable} cannot be recorded; 'heapgauge doctor {sys.executable}' says why")
    own = sys.orig_argv[1:] if hasattr(sys, "orig_argv") else ["-m", "pytest", *config.invocation_params.args]
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.suspend_global_capture(in_=True)
    sys.stdout.flush(), sys.stderr.flush()
    os.environ[STARTED] = "1"
    os.execv(argv[0], [*argv, sys.executable, *own])


# ---- one test ----


def parse_bytes(value):
    """10_000, "4096", "64KiB", "1.5M", "10MB": as heapgauge takes sizes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)(i?b)?", str(value).lower())
    if isinstance(value, bool) or not found or (found[3] == "ib" and not found[2]):
        raise ValueError(f"a limit is a number of bytes such as 4096 or '64KiB', not {value!r}")
    unit = found[2] + (found[3] if found[3] == "b" else "")
    return int(float(found[1]) * _UNITS[unit]) if "." in found[1] else int(found[1]) * _UNITS[unit]


def _limits(mark):
    """{"peak": bytes, "leaked": bytes} of those that are given, and the number of runs before."""
    unknown = set(mark.kwargs) - {"peak", "leaked", "warmup"}
    if mark.args or unknown:
        what = f"not {', '.join(sorted(unknown))}" if unknown else "by name"
        raise ValueError(f"pytest.mark.heapgauge takes peak, leaked and warmup, {what}")
    limits = {name: parse_bytes(value) for name, value in mark.kwargs.items() if name != "warmup" and value is not None}
    return limits, int(mark.kwargs.get("warmup", 0))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    mark = item.get_closest_marker("heapgauge")
    if mark and item.config.option.heapgauge:
        runtest = item.runtest
        item.runtest = lambda: _run_measured(item, runtest, mark)
        yield
        del item.runtest
    else:
        yield


def _outcome(item, error, failed):
    """What the test has raised; or what says that it failed otherwise. failed: as many had failed in the session before."""
    kept = getattr(item, "_excinfo", None)  # of unittest.TestCase, which raises nothing here
    if error is None and kept:
        return kept[0].value
    if error is None and item.session.testsfailed > failed:
        try:
            pytest.fail(f"{item.session.testsfailed - failed} of its subtests failed; run it without --heapgauge to see them", pytrace=False)
        except pytest.fail.Exception as subtests:
            return subtests
    return error


def _describe(item, error, known, failed):
    """For the other side of a pipe: the exception, how it is shown, and the properties that the test has added."""
    error = _outcome(item, error, failed)
    if error is None:
        return None, None, item.user_properties[known:]
    shown = str(item.repr_failure(pytest.ExceptionInfo.from_exc_info((type(error), error, error.__traceback__))))
    return _pack(error), shown, item.user_properties[known:]


def _pack(error):
    """As (outcome, words) if it is one of pytest's, which cannot be pickled; or as it is, if it can."""
    for name, kind in _OUTCOMES.items():
        if type(error) is kind:
            return name, str(error.msg)
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return "fail", f"{type(error).__name__}: {error}"


def _unpack(packed):
    if not isinstance(packed, tuple):
        return packed
    name, words = packed
    error = _OUTCOMES[name](words)
    if name == "skip":
        error._use_item_location = True
    return error


def _measure_test(item, runtest, mark):
    """What was measured, and the limits; or why that cannot be done."""
    if not _inside.is_recorded():
        raise ValueError("this worker is not recorded; run it on the machine of the others")
    limits, warmups = _limits(mark)
    known, failed = len(item.user_properties), item.session.testsfailed
    return limits, _measure.measure(runtest, lambda error: _describe(item, error, known, failed), warmups)


def _run_measured(item, runtest, mark):
    reason = None
    try:
        limits, measured = _measure_test(item, runtest, mark)
    except (ValueError, _measure.ChildEnded, _profile.Error) as error:
        reason = f"heapgauge: {error}"
    if reason:
        pytest.fail(reason, pytrace=False)
    packed, item.stash[_shown], properties = measured.result
    item.user_properties += properties
    if packed is not None:
        raise _unpack(packed)
    item.user_properties.append(("heapgauge", {"peak_bytes": measured.peak_bytes, "leaked_bytes": measured.leaked_bytes}))
    exceeded = list(_exceeded(item, mark, limits, measured))
    if exceeded:
        item.stash[_shown] = "\n".join(exceeded)
        pytest.fail(item.stash[_shown], pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call" and report.failed and item.stash.get(_shown, None):
        report.longrepr = item.stash[_shown]


# ---- what is shown ----


def _size(count):
    if count < 1024:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def _exceeded(item, mark, limits, measured):
    """The sentences about each limit that is exceeded, and below it the lines responsible."""
    if measured.peak_bytes > limits.get("peak", measured.peak_bytes):
        yield f"{item.name} holds {_size(measured.peak_bytes)} at its peak, and its limit is {mark.kwargs['peak']}:"
        yield from _responsible(item, measured.peak_lines)
    if measured.leaked_bytes > limits.get("leaked", measured.leaked_bytes):
        what = f"{_size(measured.leaked_bytes)} in {_blocks(measured.leaked_blocks)}"
        yield f"{item.name} does not free {what}, and its limit is {mark.kwargs['leaked']}:"
        yield from _responsible(item, measured.leaked_lines)


def _blocks(count):
    return f"{count:,} block{'' if count == 1 else 's'}"


def _responsible(item, lines):
    """The largest, down to a hundredth of all."""
    total = sum(line.bytes for line in lines)
    shown = [line for line in lines[:LINES] if line.bytes * 100 >= total]
    for line in shown:
        yield f"  {_size(line.bytes):>10} in {_blocks(line.blocks)}  {_where(item, line.frames)}"
    rest = lines[len(shown) :]
    if rest:
        yield f"  {_size(sum(line.bytes for line in rest)):>10} at {len(rest)} more line{'' if len(rest) == 1 else 's'}"


def _where(item, frames):
    """The innermost line, and if that is not the project's own, the one of the project that led there."""
    if not frames:
        return "without a stack"
    root = f"{item.config.rootpath}{os.sep}"
    own = next((frame for frame in frames if frame[1].startswith(root) and "site-packages" not in frame[1]), frames[0])
    called = "" if own == frames[0] else f", called at {_place(root, own)}"
    return _place(root, frames[0]) + called


def _place(root, frame):
    function, file, line = frame
    file = file[len(root) :] if file.startswith(root) else file
    return f"{file}:{line} in {function}" if line else f"{function} ({file})"


def pytest_terminal_summary(terminalreporter, config):
    rows = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                rows += [(report.nodeid, dict(value)) for name, value in report.user_properties if name == "heapgauge"]
    if not rows or not config.option.heapgauge:
        return
    terminalreporter.section("heapgauge: memory of the marked tests")
    terminalreporter.write_line(f"{'PEAK':>10}  {'NOT FREED':>10}  TEST")
    for nodeid, row in sorted(rows):
        terminalreporter.write_line(f"{_size(row['peak_bytes']):>10}  {_size(row['leaked_bytes']):>10}  {nodeid}")
    if config.option.heapgauge_output:
        terminalreporter.write_line(f"heapgauge report {config.option.heapgauge_output} --view processes shows a process for each of them")

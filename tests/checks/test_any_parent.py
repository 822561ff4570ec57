# SPDX-License-Identifier: Apache-2.0
"""tests/conftest.py: a suite runs the same under any parent, and a test that hangs fails (T11)."""

import os
import signal
import subprocess
import sys

# Runs in a pytest of its own.
INNER = '''
import subprocess, threading, time

def test_children_start_with_default_signals():
    seen = subprocess.run(["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"], capture_output=True, text=True).stdout
    assert [int(word, 16) for word in seen.split()[1::2]] == [0, 0], seen

def test_hangs_in_a_child():
    with subprocess.Popen(["sh", "-c", "sleep 1000 | sleep 1000"]) as child:
        child.wait()

def test_hangs_in_a_pipe():
    with subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; sleep 1000; :"], stdout=subprocess.PIPE) as child:
        child.stdout.readline()

def test_hangs_in_its_way_out():
    try:
        time.sleep(1000)
    finally:
        threading.Event().wait()

def test_is_as_good_as_ever():
    assert subprocess.run(["true"]).returncode == 0
'''


def ignore_and_block():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})


def run_inner(root, folder, *options, **environment):
    (folder / "test_inner.py").write_text(INNER)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", *options, "test_inner.py"],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(root / "tests")} | environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, preexec_fn=ignore_and_block, timeout=300, check=False,
    )  # fmt: skip


def test_children_have_default_signals_whatever_the_parent_ignores(root, tmp_path):
    done = run_inner(root, tmp_path, "-k", "default_signals")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_hang_is_a_failure(root, tmp_path):
    done = run_inner(root, tmp_path, "-k", "hangs or as_good", HEAPGAUGE_TEST_SECONDS="1")
    assert done.returncode == 1 and "3 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    for line in ("child.wait()", "child.stdout.readline()", "threading.Event().wait()"):
        assert line in done.stdout, f"where it waited: {line}"

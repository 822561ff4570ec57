# SPDX-License-Identifier: Apache-2.0
"""heapgauge report --pid reads a running process: with its collector, without, and says why where it may not."""

import json
import os
import pathlib
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, wait_for
from reading import with_frames
from running import again, compile_keeper, keeping

@pytest.fixture
def keeper(heapgauge, scratch, clean_env):
    """A recorded program that waits, and its pid."""
    with keeping([heapgauge, "record", "-q", "-o", scratch / "keeper.hg", "--", compile_keeper(scratch)], clean_env) as run:
        yield run


@pytest.fixture
def read_pid(heapgauge, clean_env):
    def run(pid, *options, user=None):
        return subprocess.run(
            [heapgauge, "report", "--pid", str(pid), *options],
            env=clean_env, user=user, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )

    return run


def process_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["processes"][0]


def expect_first_round(process, pid):
    process["health"].pop("clock_stopped_ms", None)  # a busy machine
    assert process["pid"] == pid
    assert (process["end"], process["exit_code"]) == ("running", None)
    assert (process["calls"], process["frees"]) == (1000, 100)
    assert (process["not_freed_blocks"], process["not_freed_bytes"]) == (900, 900 * 200)
    assert process["peak_bytes"] == 1000 * 200
    assert process["command"].endswith("/keeper") and process["health"] == {}


def test_a_running_process_is_read_without_a_file(keeper, read_pid, scratch):
    expect_first_round(process_of(read_pid(keeper.target, "--format", "json")), keeper.target)
    assert not (scratch / "keeper.hg").exists(), "nothing was written"
    text = read_pid(keeper.target).stdout
    assert f"(pid {keeper.target}) was still running" in text


def test_its_sites_have_names(keeper, read_pid):
    done = read_pid(keeper.target, "--view", "sites", "--format", "json")
    assert done.returncode == 0, done.stderr
    sites = [s for s in with_frames(json.loads(done.stdout))["sites"] if any(f["function"] == "keep" for f in s["stack"])]
    assert [(s["calls"], s["not_freed_blocks"]) for s in sites] == [(1000, 900)]


def test_what_it_holds_is_live_and_not_leaked(keeper, read_pid):
    text = read_pid(keeper.target, "--view", "leaks").stdout
    assert " live 175.8 KiB in 900 blocks " in text.splitlines()[0]
    assert "OF LIVE" in text and "LEAKED" not in text
    sites = json.loads(read_pid(keeper.target, "--view", "leaks", "--format", "json").stdout)["sites"]
    assert [(s["state"], s["not_freed_blocks"]) for s in sites] == [("live", 900)]


def test_it_goes_on_undisturbed_and_can_be_read_again(keeper, read_pid):
    process_of(read_pid(keeper.target, "--format", "json"))
    again(keeper)
    process = process_of(read_pid(keeper.target, "--format", "json"))
    assert (process["calls"], process["frees"]) == (2000, 200)


def test_with_the_collector_dead_too(keeper, read_pid):
    keeper.kill()
    keeper.wait(WAIT_SECONDS)
    time.sleep(0.4)
    process = process_of(read_pid(keeper.target, "--format", "json"))
    assert process["health"].pop("clock_stopped_ms") >= 400, "nobody moves its clock any more, and that is said"
    expect_first_round(process, keeper.target)


def test_a_busy_process_with_threads_never_shows_negative_sums(heapgauge, target, clean_env, scratch, read_pid):
    with subprocess.Popen(
        [heapgauge, "record", "-q", "-o", scratch / "busy.hg", "--", target("kill_me")],
        env=clean_env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as run:
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
        pid = int(wait_for(lambda: children.read_text().split(), "the program")[0])
        try:
            wait_for(lambda: read_pid(pid).returncode == 0, "the recorder")
            before = 0
            for _ in range(5):
                process = process_of(read_pid(pid, "--format", "json", "--no-symbols"))
                assert process["calls"] >= before and process["calls"] >= process["frees"]
                assert 0 <= process["not_freed_bytes"] <= process["total_bytes"]
                before = process["calls"]
            assert before > 0
        finally:
            os.kill(pid, 9)
            run.wait(WAIT_SECONDS)


def test_a_process_that_does_not_exist(read_pid):
    done = read_pid(4194000)
    assert (done.returncode, done.stdout) == (1, "")
    assert "process 4194000 does not exist" in done.stderr


def test_a_process_that_is_not_recorded(read_pid):
    done = read_pid(os.getpid())
    assert done.returncode == 1
    assert "is not recorded" in done.stderr and "heapgauge record" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_process_of_somebody_else(keeper, heapgauge, scratch, clean_env):
    readable = pathlib.Path("/tmp") / f"heapgauge-pid-{os.getpid()}"
    readable.write_bytes(heapgauge.read_bytes())
    readable.chmod(0o755)
    try:
        done = subprocess.run(
            [readable, "report", "--pid", str(keeper.target)],
            env=clean_env, user=65534, cwd="/", capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
    finally:
        readable.unlink()
    assert done.returncode == 1
    assert f"process {keeper.target} may not be read" in done.stderr
    assert "another user" in done.stderr or "ptrace_scope" in done.stderr


@pytest.mark.parametrize("word", ["0", "-5", "x", "99999999999"])
def test_a_word_that_is_no_pid(word, heapgauge, clean_env):
    done = subprocess.run([heapgauge, "report", f"--pid={word}"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 2
    assert "pid" in done.stderr


def test_a_pid_and_a_file_are_one_too_many(heapgauge, clean_env):
    done = subprocess.run(
        [heapgauge, "report", "--pid", "1", "run.hg"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 2 and "not both" in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""record -o: a path, a pattern or a folder. A name that the user wrote is replaced, one that heapgauge made up never is."""

import platform
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for
from inotify import IN_MOVED_TO, watched
from running import collecting, compile_keeper, keeping


@pytest.fixture
def run(heapgauge, scratch, clean_env):
    def run(*options, program=("/bin/true",)):
        argv = [heapgauge, "record", "-q", *options, "--", *program]
        return subprocess.run(argv, env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)

    return run


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_letters_stand_for_pid_host_and_executable(run, scratch, report_json):
    assert run("-o", "x.%p.%h.%e.100%%.hg").returncode == 0
    (path,) = scratch.glob("*.hg")
    pid = report_json(path)["processes"][0]["pid"]
    assert path.name == f"x.{pid}.{platform.node()}.true.100%.hg"


@pytest.mark.parametrize("folder", ["runs", "runs/", "runs/%e"])
def test_a_folder_gets_the_default_name(folder, run, scratch):
    (scratch / "runs" / "true").mkdir(parents=True)
    assert run("-o", folder).returncode == 0
    inside = scratch / folder.replace("%e", "true")
    (name,) = names(inside)
    assert name.startswith("heapgauge.true.") and name.endswith(".hg")


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("x.%z.hg", "%z in x.%z.hg stands for nothing; there are %p (pid), %h (host), %e (executable) and %%"),
        ("x.%", "x.% ends in a single %: write %%"),
        ("", "the recording needs a name"),
    ],
)
def test_an_unknown_letter_is_a_mistake_in_the_command(pattern, message, run, scratch):
    done = run("-o", pattern, program=("/usr/bin/touch", "ran"))
    assert done.returncode == 2 and message in done.stderr
    assert names(scratch) == []


def test_a_missing_folder_is_said_before_the_program_runs(run, scratch):
    done = run("-o", "nowhere/", program=("/usr/bin/touch", "ran"))
    assert done.returncode == 125 and "there is no directory nowhere; create it first" in done.stderr
    assert names(scratch) == []


def test_a_name_that_is_too_long_is_said_before_the_program_runs(run, scratch):
    program = scratch / ("n" * 240)
    program.symlink_to("/usr/bin/touch")
    done = run(program=(program, "ran"))
    assert done.returncode == 125 and "is too long: name a shorter one with -o" in done.stderr
    assert names(scratch) == [program.name]
    assert run("-o", "run.hg", program=(program, "ran")).returncode == 0
    assert names(scratch) == [program.name, "ran", "run.hg"]


def test_only_a_name_that_was_written_out_is_replaced(run, scratch, report_json):
    for name in ("run.hg", "true.hg", "true-2.hg"):
        (scratch / name).write_text("older")
    assert run("-o", "run.hg").returncode == run("-o", "%e.hg").returncode == 0
    assert names(scratch) == ["run.hg", "true-2.hg", "true-3.hg", "true.hg"]
    assert (scratch / "true.hg").read_text() == (scratch / "true-2.hg").read_text() == "older"
    assert report_json(scratch / "run.hg")["processes"] and report_json(scratch / "true-3.hg")["processes"]


def test_a_process_that_is_attached_to(heapgauge, scratch, clean_env):
    env = clean_env | {"LD_PRELOAD": str(heapgauge.parent / "libheapgauge.so")}
    with keeping([compile_keeper(scratch)], env) as kept:
        argv = [heapgauge, "record", "-q", "-p", str(kept.target), "--duration", "300ms", "-o", "runs/%e.%p.hg"]
        done = subprocess.run(argv, env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 125 and "there is no directory runs; create it first" in done.stderr
        (scratch / "runs").mkdir()
        assert subprocess.run(argv, env=clean_env, cwd=scratch, timeout=WAIT_SECONDS).returncode == 0
        assert names(scratch / "runs") == [f"keeper.{kept.target}.hg"]


@pytest.mark.parametrize("pattern", ["run.hg", "%e.hg", None])
def test_a_recording_is_complete_when_its_name_appears(pattern, run, scratch):
    with watched(scratch, ".hg") as events:
        assert run(*(["-o", pattern] if pattern else [])).returncode == 0
        assert list(events().values()) == [[IN_MOVED_TO]]


def test_a_recording_elsewhere_is_complete_when_its_name_appears(heapgauge, scratch, clean_env):
    (scratch / "gone").mkdir()
    (scratch / "elsewhere").mkdir()
    argv = [heapgauge, "record", "-q", "-o", "gone/run.hg", "--", "rmdir", "gone"]
    env = clean_env | {"TMPDIR": str(scratch / "elsewhere")}
    with watched(scratch / "elsewhere", ".hg") as events:
        done = subprocess.run(argv, env=env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0 and f"The recording is {scratch}/elsewhere/run.hg instead" in done.stderr
        assert events() == {"run.hg": [IN_MOVED_TO]}


def test_recordings_of_a_running_program_are_complete_when_their_names_appear(heapgauge, scratch, clean_env):
    """Written on a signal, by attaching, and as an image."""
    env = clean_env | {"LD_PRELOAD": str(heapgauge.parent / "libheapgauge.so")}
    with watched(scratch, ".hg") as events, keeping([compile_keeper(scratch)], env) as kept:
        for words in (["record", "-q", "-p"], ["image"]):
            options = ["--duration", "300ms"] if words[0] == "record" else []
            argv = [heapgauge, *words, str(kept.target), *options]
            assert subprocess.run(argv, env=clean_env, cwd=scratch, capture_output=True, timeout=WAIT_SECONDS).returncode == 0
        default = f"heapgauge.keeper.{kept.target}"
        assert events() == {f"{default}.hg": [IN_MOVED_TO], f"{default}-2.hg": [IN_MOVED_TO]}
        argv = [heapgauge, "record", "-q", "-p", str(kept.target), "-o", "run.hg", "--write-on", "signal=USR1"]
        with subprocess.Popen(argv, env=clean_env, cwd=scratch) as collector:
            wait_for(lambda: collecting(collector.pid), "the collector")
            collector.send_signal(signal.SIGUSR1)
            wait_for(lambda: "run.1.hg" in events(), "the recording")
            collector.send_signal(signal.SIGINT)
            assert collector.wait(WAIT_SECONDS) == 0
        assert (events()["run.1.hg"], events()["run.hg"]) == ([IN_MOVED_TO], [IN_MOVED_TO])

# SPDX-License-Identifier: Apache-2.0
"""heapgauge record --pid: a process that records itself is taken over, and left as it was."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, losses, wait_for
from running import again, collecting, compile_keeper, keeping, until_snapshot
from serving import Server

# Takes a block, waits 20 ms, frees it: always from one place, so that nothing slow happens that could move a clock.
SLOW = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile block;
int main(void)
{
	char line[24];
	alarm(900);
	for (int i = 0;; i++) {
		block = malloc(64);
		usleep(20000);
		free(block);
		if (i == 5) write(1, line, (size_t)snprintf(line, sizeof line, "%d\n", getpid()));
	}
}
"""


@pytest.fixture
def attach(heapgauge, clean_env, scratch):
    """attach(pid, ...): runs `record --pid`, and ends it by SIGINT when the block is left. .path is its recording."""

    @contextlib.contextmanager
    def run(pid, *options, argv=(), **more):
        path = scratch / f"attached{pid}.hg"
        with subprocess.Popen(
            [*argv, heapgauge, "record", "-q", "-o", path, "--pid", str(pid), *options],
            env=clean_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
        ) as recorder:
            recorder.path = path
            try:
                wait_for(lambda: collecting(recorder.pid) or recorder.poll() is not None, "the collector")
                yield recorder
            finally:
                if recorder.poll() is None:
                    recorder.send_signal(signal.SIGINT)
                recorder.out, recorder.err = recorder.communicate(timeout=WAIT_SECONDS)

    return run


@pytest.fixture
def keeper(build, scratch, clean_env):
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env)) as run:
        yield run


@pytest.fixture
def mode_of(heapgauge, clean_env):
    def ask(pid):
        done = subprocess.run([heapgauge, "list", "--format", "json", "--no-symbols"], env=clean_env, capture_output=True, text=True)
        return next(row["mode"] for row in json.loads(done.stdout)["processes"] if row["pid"] == pid)

    return ask


def test_until_ctrl_c(keeper, attach, report_json):
    with attach(keeper.target) as recorder:
        again(keeper)
        status = pathlib.Path(f"/proc/{keeper.target}/status").read_text()
        assert "TracerPid:\t0" in status and "State:\tT" not in status
        time.sleep(0.4)
        again(keeper)
    assert recorder.returncode == 0, recorder.err
    process = report_json(recorder.path)["processes"][0]
    assert (process["calls"], process["frees"], process["end"]) == (3000, 300, "running")
    assert process["peak_bytes"] == 3 * 180000 + 20000 and losses(process) == {}
    sites = [site for site in report_json(recorder.path, "sites")["sites"] if site["calls"] == 3000]
    assert [(site["not_freed_blocks"], site["stack"][0]["function"]) for site in sites] == [(2700, "keep")]
    series = report_json(recorder.path, "timeline")["timeline"]
    assert len(series) >= 4 and max(point["live_bytes"] for point in series) == 3 * 180000 + 20000
    ages = report_json(recorder.path, "leaks")["sites"][0]["ages"]
    assert sum(age["count"] for age in ages) == 2700
    again(keeper)
    assert keeper.poll() is None, "and it goes on"


@pytest.mark.parametrize("kept", ["memory", "file"])
def test_until_its_end(kept, attach, build, scratch, clean_env, report_json):
    with folder_on_tmpfs() as folder:
        env = preloaded(build, clean_env, folder if kept == "file" else None)
        with keeping([compile_keeper(scratch)], env) as run, attach(run.target) as recorder:
            again(run)
            os.kill(run.target, signal.SIGKILL)
            recorder.wait(WAIT_SECONDS)
        assert recorder.returncode == 0, recorder.err
        process = report_json(recorder.path)["processes"][0]
        assert process["end"] in ("killed", "unknown")
        if kept == "file" or os.geteuid() == 0:  # else its memory is gone, and a copy of a moment before has to do
            assert (process["calls"], process["not_freed_blocks"]) == (2000, 1800)
            assert report_json(recorder.path, "timeline")["timeline"][-1]["calls"] == 2000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody who is not")
def test_by_somebody_without_privileges(build, heapgauge, scratch, clean_env, report_json):
    """Nothing can be held of a process that keeps its profile in memory: the last copy is from a moment before its end."""
    place = pathlib.Path("/tmp") / f"heapgauge-attach-{os.getpid()}"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    try:
        for file in (heapgauge, build / "libheapgauge.so", compile_keeper(scratch)):
            shutil.copy(file, place)
        env = clean_env | {"LD_PRELOAD": str(place / "libheapgauge.so")}
        with keeping([place / "keeper"], env, user=65534, cwd="/") as run:
            with subprocess.Popen(
                [place / "heapgauge", "record", "-q", "-o", place / "run.hg", "--pid", str(run.target)],
                env=clean_env, user=65534, cwd="/", stderr=subprocess.PIPE, text=True,
            ) as recorder:
                wait_for(lambda: collecting(recorder.pid) or recorder.poll() is not None, "the collector")
                again(run)
                time.sleep(1)
                os.kill(run.target, signal.SIGKILL)
                assert recorder.wait(WAIT_SECONDS) == 0, recorder.stderr.read()
        process = report_json(place / "run.hg")["processes"][0]
        assert (process["calls"], process["not_freed_blocks"]) == (2000, 1800)
    finally:
        shutil.rmtree(place)


def test_a_dormant_process_is_turned_up_and_down_again(build, scratch, clean_env, attach, mode_of, report_json):
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env, HEAPGAUGE_MODE="dormant")) as run:
        assert mode_of(run.target) == "dormant"
        with attach(run.target) as recorder:
            wait_for(lambda: mode_of(run.target) == "exact", "the dial")
            for _ in range(10):
                again(run)
        assert recorder.returncode == 0, recorder.err
        assert mode_of(run.target) == "dormant"
        before = report_json(recorder.path)["processes"][0]["calls"]
        # A thread looks at the dial when it has taken some more, a MiB at most: five of the ten rounds.
        assert 4000 <= before <= 10000
        for _ in range(10):
            again(run)
        with attach(run.target) as recorder:
            pass
        assert report_json(recorder.path)["processes"][0]["calls"] <= before + 1000, "down again, at once"


def test_a_mode_that_is_asked_for_is_for_that_time(keeper, attach, mode_of):
    assert mode_of(keeper.target) == "exact"
    with attach(keeper.target, "--mode", "sample", "--interval", "64KiB") as recorder:
        wait_for(lambda: mode_of(keeper.target) == "sample 64.0 KiB", "the dial")
    assert recorder.returncode == 0 and mode_of(keeper.target) == "exact"
    with attach(keeper.target):
        assert mode_of(keeper.target) == "exact"


# Allocates all the time. Each line of its input is a word of the program's own about its mode.
TIGHT = r"""
#include <heapgauge/heapgauge.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	char word;
	alarm(900);
	fcntl(0, F_SETFL, O_NONBLOCK);
	write(1, "begun\n", 6);
	for (;;) {
		for (int i = 0; i < 1000; i++) {
			void *volatile p = malloc(1000);
			free(p);
		}
		if (read(0, &word, 1) != 1) continue;
		if (word == '+') hg_start(HG_PROCESS);
		if (word == '-') hg_stop(HG_PROCESS);
		write(1, "said\n", 5);
	}
}
"""


@pytest.fixture
def tight(build, clean_env, scratch):
    """A dormant program that is busy."""
    program = compile_c(scratch, "tight", TIGHT, f"-I{pathlib.Path(__file__).parents[3] / 'include'}")
    env = preloaded(build, clean_env, HEAPGAUGE_MODE="dormant")
    with subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as run:
        try:
            assert run.stdout.readline() == "begun\n"
            yield run
        finally:
            run.kill()


def test_a_process_that_was_dormant_for_long_is_recorded(tight, attach, report_json):
    """V1: nothing moves the clock of a dormant process. What was lent by that clock had ended before it began."""
    time.sleep(4)  # longer than a loan
    with attach(tight.pid, "--mode", "exact") as recorder:
        time.sleep(0.5)
    assert recorder.returncode == 0, recorder.err
    assert report_json(recorder.path)["processes"][0]["calls"] > 1000


@pytest.mark.parametrize("options", [(), ("--mode", "exact")])
def test_of_two_who_lend_a_mode_the_second_to_leave_turns_it_back(options, tight, attach, mode_of):
    """V2: the first to leave does not silence the other, and the mode that the second found is not the program's own."""
    with attach(tight.pid, *options) as first:
        wait_for(lambda: mode_of(tight.pid) == "exact", "the first")
        with attach(tight.pid, *options) as second:
            time.sleep(0.3)
            first.send_signal(signal.SIGINT)
            first.wait(timeout=WAIT_SECONDS)
            wait_for(lambda: mode_of(tight.pid) == "exact", "the second")
        assert (first.returncode, second.returncode) == (0, 0)
    assert mode_of(tight.pid) == "dormant"


def test_what_the_program_says_meanwhile_outlives_the_loan(tight, attach, mode_of):
    """V3: a dormant program that is turned up, and goes on by itself."""
    with attach(tight.pid) as recorder:
        wait_for(lambda: mode_of(tight.pid) == "exact", "the loan")
        tight.stdin.write("+")
        tight.stdin.flush()
        assert tight.stdout.readline() == "said\n"
    assert recorder.returncode == 0 and mode_of(tight.pid) == "exact"
    with attach(tight.pid, "--mode", "tags"):
        wait_for(lambda: mode_of(tight.pid) == "tags", "the loan")
        tight.stdin.write("-")
        tight.stdin.flush()
        assert tight.stdout.readline() == "said\n"
    assert mode_of(tight.pid) == "dormant"


def test_its_clock_is_kept_meanwhile(build, scratch, clean_env, attach, report_json):
    slow = compile_c(scratch, "slow", SLOW)
    with subprocess.Popen([slow], env=preloaded(build, clean_env), stdout=subprocess.PIPE, text=True) as run:
        pid = int(run.stdout.readline())
        with attach(pid) as recorder:
            time.sleep(1)
        run.kill()
    site = max(report_json(recorder.path, "lifetimes")["sites"], key=lambda site: site["calls"])
    timed = sum(bar["count"] for bar in site["lifetimes"] if bar["low_ms"] >= 16)
    assert timed >= 10, site["lifetimes"]


def test_beside_a_collector(heapgauge, scratch, clean_env, attach, report_json):
    """It reads along: the clock and the dial are the other's."""
    with keeping([heapgauge, "record", "-q", "-o", scratch / "first.hg", "--", compile_keeper(scratch)], clean_env) as run:
        with attach(run.target) as recorder:
            again(run)
        assert recorder.returncode == 0, recorder.err
        with attach(run.target, "--mode", "sample") as refused:
            refused.wait(WAIT_SECONDS)
        assert refused.returncode == 125 and "is set by the 'heapgauge record' that runs it" in refused.err
        assert report_json(recorder.path)["processes"][0]["calls"] == 2000
    first = report_json(scratch / "first.hg")["processes"][0]
    assert (first["calls"], first["mode"], losses(first)) == (2000, "exact", {})


def test_what_cannot_be_taken_over(heapgauge, clean_env, scratch):
    for words, status, message in (
        ([str(os.getpid())], 125, "is not recorded"),
        (["4194000"], 125, "process 4194000 does not exist"),
        (["0"], 2, "takes a process id"),
        (["1", "true"], 2, "not both"),
    ):
        done = subprocess.run([heapgauge, "record", "--pid", *words], env=clean_env, cwd=scratch, capture_output=True, text=True)
        assert done.returncode == status and message in done.stderr, done.stderr
    assert list(scratch.iterdir()) == []


def snap(heapgauge, env, pid, name, status=0):
    done = subprocess.run([heapgauge, "snap", str(pid), "--name", name], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == status, done.stderr
    return done.stderr


def snapshots(report_json, path):
    return [(row["name"], row["live_blocks"]) for row in report_json(path, "snapshots")["snapshots"]]


def test_one_whose_file_is_removed_goes_on(build, scratch, clean_env, attach, report_json):
    program = compile_keeper(scratch)
    with keeping([program], preloaded(build, clean_env)) as run:
        program.unlink()
        with attach(run.target) as recorder:
            until_snapshot()
            again(run)
        assert recorder.returncode == 0, recorder.err
    assert report_json(recorder.path)["processes"][0]["calls"] == 2000


def test_it_can_be_asked_for_snapshots(keeper, attach, heapgauge, clean_env, report_json):
    said = snap(heapgauge, clean_env, keeper.target, "nobody", status=1)
    assert f"a snapshot needs a running 'heapgauge record --pid {keeper.target}'" in said
    with attach(keeper.target) as recorder:
        snap(heapgauge, clean_env, keeper.target, "first")
        until_snapshot()
        again(keeper)
        with attach(keeper.target, "-o", os.devnull):  # the name is the first one's
            snap(heapgauge, clean_env, keeper.target, "second")
            until_snapshot()
    assert recorder.returncode == 0, recorder.err
    assert snapshots(report_json, recorder.path) == [("first", 900), ("second", 1800)]
    assert "a snapshot needs" in snap(heapgauge, clean_env, keeper.target, "nobody", status=1)


# ---- containers ----

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for name spaces")
CONTAINER = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--mount-proc"]


def outside(pid_inside, above):
    """The number that a process in a container has here: a descendant of `above` that is pid_inside there."""
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            numbers = re.search(r"^NSpid:\s*(.*)$", status.read_text(), re.M)[1].split()
            if len(numbers) > 1 and numbers[-1] == str(pid_inside) and is_below(int(status.parent.name), above):
                return int(status.parent.name)
    raise AssertionError("it is not there")


def is_below(pid, above):
    while pid > 1 and pid != above:
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == above


@as_root
def test_in_a_container(heapgauge, build, scratch, clean_env, attach, report_json):
    """Seen from outside: mount, process, network and host name spaces of its own, and a root that has the program alone."""
    keeper = compile_keeper(scratch)
    script = f"mount -t tmpfs none /mnt && cp {keeper} /mnt/boxed && exec env LD_PRELOAD=$RECORDER /mnt/boxed"
    env = clean_env | {"RECORDER": str(build / "libheapgauge.so")}
    with keeping([*CONTAINER, "sh", "-c", script], env) as run:
        assert run.target == 1
        pid = outside(1, run.pid)
        with attach(pid, "--write-on", "calls>1500", "--on", "signal=USR1") as recorder:
            snap(heapgauge, clean_env, pid, "asked")
            until_snapshot()
            again(run)
            wait_for(lambda: (scratch / f"attached{pid}.1.hg").exists(), "the recording")
        assert recorder.returncode == 0, recorder.err
        names = snapshots(report_json, recorder.path)
        assert ("asked", 900) in names and "calls>1500" in [name for name, _ in names]
        for path, least in ((recorder.path, 2000), (scratch / f"attached{pid}.1.hg", 1500)):
            process = report_json(path)["processes"][0]
            assert process["pid"] == pid and least <= process["calls"] <= 2000
        text = subprocess.run([heapgauge, "report", "--pid", str(pid), "--view", "sites"], env=clean_env, capture_output=True, text=True)
        assert "keep" in text.stdout and "keeper.c" in text.stdout, "names from the container's own files"
        if not (build / "web" / "node_modules").is_dir():
            pytest.skip("all of it passed but the page, which this build does not have (-DHEAPGAUGE_WEB=OFF)")
        server = Server(heapgauge, "--pid", pid, "--no-open", env=clean_env, cwd=scratch)
        try:
            page = server.result(("view", "functions"), ("by", "function"), ("cost", "live")).json()
        finally:
            server.end()
        assert "keep" in [row["function"] for row in page["functions"]], page


@as_root
def test_a_collector_in_a_container_hears_from_outside(heapgauge, build, scratch, clean_env, report_json):
    """Its socket is a file in there, since the network name space is another; its numbers are those of in there."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        for file in (heapgauge, build / "libheapgauge.so", compile_keeper(scratch)):
            shutil.copy(file, place)
        script = f"mount -t tmpfs none /tmp && exec {place}/heapgauge record -q -o {place}/boxed.hg -- {place}/keeper"
        with keeping([*CONTAINER, "sh", "-c", script], clean_env) as run:
            pid = outside(run.target, run.pid)
            assert pid != run.target
            snap(heapgauge, clean_env, pid, "from outside")
            until_snapshot()
        assert snapshots(report_json, pathlib.Path(place) / "boxed.hg") == [("from outside", 900)]

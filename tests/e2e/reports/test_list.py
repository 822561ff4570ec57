# SPDX-License-Identifier: Apache-2.0
"""heapgauge list: who is recorded on this machine, those in containers too; what may not be read is said."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, wait_for
from running import again, compile_keeper, keeping, without

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else or to make a container")

# Takes 100 blocks of 50 bytes, has a child that allocates nothing, and waits.
PARENT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void take(void) { for (int i = 0; i < 100; i++) kept = malloc(50); __asm__(""); }
int main(void)
{
	char word[24], byte;
	alarm(900);
	take();
	if (fork() == 0) { alarm(900); pause(); _exit(0); }
	write(1, word, (unsigned long)sprintf(word, "%d\n", getpid()));
	read(0, &byte, 1);
	kill(0, 9);
}
"""


@pytest.fixture
def run_list(heapgauge, clean_env):
    def run(*options, argv=None, **more):
        done = subprocess.run(
            [*(argv or [heapgauge]), "list", *options],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, **more,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def rows(run_list):
    """rows(...): the listed processes by pid."""
    return lambda *options, **more: {
        row["pid"]: row for row in json.loads(run_list("--format", "json", *options, **more))["processes"]
    }


@pytest.fixture
def keeper(heapgauge, scratch, clean_env):
    with keeping([heapgauge, "record", "-q", "-o", scratch / "keeper.hg", "--", compile_keeper(scratch)], clean_env) as run:
        yield run


def test_a_recorded_process_is_listed_with_the_numbers_of_its_report(keeper, rows, heapgauge, clean_env):
    row = rows()[keeper.target]
    done = subprocess.run(
        [heapgauge, "report", "--pid", str(keeper.target), "--format", "json"],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
    )
    process = json.loads(done.stdout)["processes"][0]
    assert (row["live_bytes"], row["live_blocks"]) == (900 * 200, 900) == (process["not_freed_bytes"], process["not_freed_blocks"])
    assert (row["calls"], row["peak_bytes"]) == (process["calls"], process["peak_bytes"]) == (1000, 200000)
    assert row["recorder_bytes"] == process["recorder_bytes"] > 0
    assert (row["program"], row["mode"], row["container"], row["problem"]) == ("keeper", "exact", None, None)
    assert re.fullmatch(r"keep \(keeper\.c:\d+\)", row["top_site"]) and row["top_site_bytes"] == 900 * 200
    assert row["command"].endswith("/keeper") and row["rss_bytes"] > 1 << 20


def test_the_table_for_people(keeper, run_list):
    lines = run_list().splitlines()
    head = next(line for line in lines if "PROGRAM" in line)
    assert head.split() == ["PID", "PROGRAM", "MODE", "LIVE", "TOP", "SITE", "CONTAINER"]
    line = next(line for line in lines if line.split()[:1] == [str(keeper.target)])
    assert re.search(r"keeper +exact +175\.8 KiB +keep \(keeper\.c:\d+\) +-$", line)
    line = next(x for x in run_list("--bytes", "--no-symbols").splitlines() if x.split()[:1] == [str(keeper.target)])
    assert re.search(r"keeper +exact +180,000 B +keeper\+0x[0-9a-f]+ +-$", line)


def test_it_lists_what_is_there_now(keeper, rows):
    again(keeper)
    assert rows()[keeper.target]["live_blocks"] == 1800
    keeper.stdin.write("q")
    keeper.stdin.flush()
    keeper.wait(WAIT_SECONDS)
    assert keeper.target not in rows()


def holds_profile(pid):
    try:
        return any("heapgauge-profile" in os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:  # closed meanwhile
        return False


def test_neither_the_collector_nor_a_child_without_a_profile_is_listed(heapgauge, scratch, clean_env, rows):
    parent = compile_c(scratch, "parent", PARENT)
    with keeping([heapgauge, "record", "-q", "-o", scratch / "p.hg", "--", parent], clean_env, start_new_session=True) as run:
        child = int(pathlib.Path(f"/proc/{run.target}/task/{run.target}/children").read_text())
        wait_for(lambda: holds_profile(run.pid), "the collector to take the profile")
        assert "heapgauge-profile" in pathlib.Path(f"/proc/{child}/maps").read_text()
        found = rows()
        assert {run.target, run.pid, child} & found.keys() == {run.target}
        assert (found[run.target]["live_blocks"], found[run.target]["live_bytes"]) == (100, 5000)
        done = subprocess.run(
            [heapgauge, "report", "--pid", str(child)], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
        )
        assert done.returncode == 1 and "no profile of its own" in done.stderr


def test_a_recorded_process_that_may_not_be_read_is_shown_with_the_reason(keeper, run_list, rows, heapgauge, scratch):
    wrapper = [without(scratch, "process_vm_readv"), heapgauge]
    row = rows(argv=wrapper)[keeper.target]
    assert row["program"] == "keeper" and row["live_bytes"] is None and row["top_site"] is None
    assert f"process {keeper.target} may not be read" in row["problem"]
    text = run_list(argv=wrapper)
    assert re.search(rf"^ *{keeper.target} +keeper +- +- +- +-$", text, re.M)
    assert f"! process {keeper.target} may not be read" in text


@as_root
def test_what_may_not_be_looked_into_is_counted(keeper, run_list, heapgauge):
    readable = pathlib.Path("/tmp") / f"heapgauge-list-{os.getpid()}"
    shutil.copy(heapgauge, readable)
    readable.chmod(0o755)
    try:
        found = json.loads(run_list("--format", "json", argv=[readable], user=65534, cwd="/"))
        text = run_list(argv=[readable], user=65534, cwd="/")
    finally:
        readable.unlink()
    assert keeper.target not in [row["pid"] for row in found["processes"]]
    assert found["hidden_processes"] > 1
    assert re.search(r"! \d+ processes cannot be read", text)


@as_root
def test_a_process_in_a_container_has_its_name_and_the_names_of_its_files(heapgauge, build, scratch, clean_env, rows, run_list):
    """A container by hand: process numbers, host name and files of its own. The program is nowhere else."""
    root = scratch / "root"
    for name in ("usr", "proc", "etc", "app", str(build).lstrip("/")):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/hostname").write_text("box-7\n")
    compile_keeper(root / "app")
    script = (
        f"mount --bind /usr {root}/usr && mount --bind {build} {root}{build} && mount -t proc proc {root}/proc"
        f" && hostname box-7 && exec chroot {root} /app/keeper"
    )
    inside = ["unshare", "--mount", "--pid", "--uts", "--fork", "sh", "-c", script]
    with keeping([heapgauge, "record", "-q", "-o", scratch / "c.hg", "--", *inside], clean_env) as run:
        assert run.target == 1, "as the program sees itself"
        found = [row for row in rows().values() if row["program"] == "keeper" and row["container"] == "box-7"]
        assert len(found) == 1 and found[0]["pid"] != 1
        assert (found[0]["live_blocks"], found[0]["problem"]) == (900, None)
        assert re.fullmatch(r"keep \(keeper\.c:\d+\)", found[0]["top_site"])
        assert re.search(rf"^ *{found[0]['pid']} .* box-7$", run_list(), re.M)


def test_a_word_is_one_too_many(heapgauge, clean_env):
    done = subprocess.run([heapgauge, "list", "x"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 2 and "unexpected argument 'x'" in done.stderr

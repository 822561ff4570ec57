# SPDX-License-Identifier: Apache-2.0
"""Processes in a pid namespace of their own: another process of the machine has the same number, usually init."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, wait_for

NOBODY = 65534
NO_NAMESPACES = 77

# What a sandbox does. The child is process 1 of its namespace, and works until the file "go" is there.
SANDBOX = """
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	int status;
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
		return 77;
	if (fork() == 0) {
		for (int i = 0; i < 1000; i++)
			*(volatile char *)malloc(1000) = 1;
		while (access("go", F_OK))
			usleep(1000);
		exit(7);
	}
	wait(&status);
	return WEXITSTATUS(status);
}
"""

# Process 1 of a namespace forks process 1 of another one, which allocates nothing.
NESTED = """
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void begin_namespace(int flags)
{
	if (unshare(flags | CLONE_NEWPID))
		_exit(77);
}
int main(void)
{
	*(volatile char *)malloc(10) = 1;
	begin_namespace(CLONE_NEWUSER);
	if (fork() == 0) {
		*(volatile char *)malloc(10) = 1;
		begin_namespace(0);
		fork();
	}
	pause();
	return 0;
}
"""


@pytest.fixture(params=["own", "nobody"])
def user(request):
    if request.param == "own":
        return {}
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@pytest.fixture
def place(heapgauge, build):
    """A folder that everybody can reach and write to, with heapgauge and its recorder in it."""
    folder = pathlib.Path("/tmp") / f"heapgauge-namespaces-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o777)
    shutil.copy(heapgauge, folder)
    shutil.copy(build / "libheapgauge.so", folder)
    yield folder
    shutil.rmtree(folder)


def watched(pid):
    """The processes whose memory heapgauge reads: it has taken over their profiles."""
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(fd))
        except FileNotFoundError:
            pass
    return {int(found[1]) for link in links if (found := re.fullmatch(r"/proc/(\d+)/statm", link))}


def start(place, env, user, *options):
    words = [place / "heapgauge", "record", "-q", "-o", place / "run.hg", *options, "--", place / "sandbox"]
    return subprocess.Popen(words, env=env, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **user)


@pytest.mark.parametrize("options", [[], ["--wait", "all"], ["--image"]], ids=["alone", "wait", "image"])
def test_the_first_process_of_a_namespace_is_not_taken_for_init(options, user, place, clean_env, report_json):
    compile_c(place, "sandbox", SANDBOX)
    with start(place, clean_env, user, *options) as run:
        seen = wait_for(lambda: run.poll() is not None or (len(found := watched(run.pid)) == 2 and found), "both processes were taken over")
        (place / "go").touch()
        _, said = run.communicate(timeout=WAIT_SECONDS)
    if run.returncode == NO_NAMESPACES:
        pytest.skip("this user may not make namespaces")
    assert run.returncode == 7 and "process 1:" not in said, said
    processes = {p["pid"]: p for p in report_json(place / "run.hg", "processes")["processes"]}
    assert processes.keys() == seen and 1 not in seen
    child = next(p for p in processes.values() if p["calls"] >= 1000)
    assert (child["end"], child["exit_code"]) == ("exit", 7)
    # Unknown if it ended before heapgauge could read it.
    assert child["peak_rss_bytes"] is None or 0 < child["peak_rss_bytes"] < 8 << 20


def test_a_command_in_a_namespace_ends_as_it_does(user, place, clean_env, report_json):
    words = ["unshare", "-Urpf", "sh", "-c", "true; exit 7"]
    if subprocess.run(words, cwd="/", capture_output=True, check=False, **user).returncode != 7:
        pytest.skip("this user may not make namespaces")
    heapgauge = [place / "heapgauge", "record", "-q", "--wait", "all", "--image", "-o", place / "run.hg", "--", *words]
    done = subprocess.run(heapgauge, env=clean_env, cwd=place, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, **user)
    assert done.returncode == 7 and "process 1:" not in done.stderr, done.stderr
    processes = report_json(place / "run.hg", "processes")["processes"]
    assert {p["end"] for p in processes} <= {"exit", "exec", "unknown"}


def nested_children(pid):
    return [int(n) for n in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to read processes in other namespaces")
def test_a_fork_with_the_number_of_its_parent_has_no_profile(build, heapgauge, scratch, clean_env):
    program = compile_c(scratch, "nested", NESTED)
    with subprocess.Popen([program], env=clean_env | {"LD_PRELOAD": str(build / "libheapgauge.so")}) as outer:
        try:
            if not wait_for(lambda: outer.poll() is not None or nested_children(outer.pid), "the first namespace began") or outer.poll() is not None:
                pytest.skip("no namespaces here")
            [first] = nested_children(outer.pid)
            [second] = wait_for(lambda: nested_children(first), "the second namespace began")
            reports = {
                pid: subprocess.run([heapgauge, "report", "--pid", str(pid)], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
                for pid in (first, second)
            }
            assert reports[first].returncode == 0, reports[first].stderr
            assert reports[second].returncode != 0 and f"process {second} has no profile of its own" in reports[second].stderr
        finally:
            for pid in nested_children(outer.pid) if outer.poll() is None else []:
                os.kill(pid, 9)  # and with it its namespace
            outer.kill()

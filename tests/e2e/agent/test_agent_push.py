# SPDX-License-Identifier: Apache-2.0
"""The agent and a store that enforces Pyroscope's documented limits: what arrives is what the programs did, whatever happens between."""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest

from agents import Agent, running_agent, write_settings
from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, wait_for
from exports import output_of, tool
from pyroscope import pyroscope_program, pyroscope_server  # noqa: F401 (fixtures)
from running import again, compile_keeper, keeping
from test_post_mortem import greedy, memory_cgroup  # noqa: F401 (fixtures)

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src"
LONG = bool(os.environ.get("HEAPGAUGE_LONG"))
ROUND = (1000, 200_000)  # calls and bytes of one round of the keeper


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        yield path


@pytest.fixture
def keeper(scratch):
    return compile_keeper(scratch)


def settings_for(scratch, server, folder, **sections):
    pushes = {"url": server.url} | sections.pop("pyroscope", {})
    agent = {"state": scratch / "state"} | sections.pop("agent", {})
    return write_settings(scratch, pyroscope=pushes, ended={"folders": folder} | sections.pop("ended", {}), agent=agent, **sections)


def of(server, pid, ended=None):
    """The accepted profiles of a process, each id once: a store may get one twice, and recognizes it."""
    found = {}
    for profile in server.accepted():
        labels = profile["labels"]
        if labels.get("pid") == str(pid) and (ended is None or labels.get("ended") == ended):
            found.setdefault(profile["id"], profile)
    return list(found.values())


def killed(server):
    return [profile for profile in server.accepted() if profile["labels"].get("ended") == "killed" and profile["labels"]["service_name"] == "keeper"]


def allocated(profiles):
    return tuple(sum(profile["totals"][kind] for profile in profiles) for kind in ("alloc_objects", "alloc_space"))


def test_allocations_are_differences_and_live_bytes_are_not(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    server = pyroscope_server(token="sesame", tenant="shop")
    secret = scratch / "push-token"
    secret.write_text("sesame")
    secret.chmod(0o600)
    settings = settings_for(scratch, server, folder, pyroscope={"token_file": secret, "tenant": "shop"}, labels={"team": "tills"})
    with running_agent(heapgauge, settings, clean_env) as agent:
        with keeping([keeper], preloaded(build, clean_env, folder, OTEL_SERVICE_NAME="till")) as run:
            wait_for(lambda: allocated(of(server, run.target)) == ROUND, "the first round to arrive")
            again(run)
            wait_for(lambda: allocated(of(server, run.target)) == (2 * ROUND[0], 2 * ROUND[1]), "the second round to arrive")
            seen = len(of(server, run.target))
            wait_for(lambda: len(of(server, run.target)) > seen + 1, "profiles without allocations to arrive")
            profiles = of(server, run.target)
        # What it did between the last profile and its end is not lost either.
    assert allocated(profiles) == (2 * ROUND[0], 2 * ROUND[1])
    assert profiles[-1]["totals"] == {"alloc_objects": 0, "alloc_space": 0, "inuse_objects": 1800, "inuse_space": 1800 * 200}
    labels = profiles[-1]["labels"]
    assert labels["service_name"] == "till" and labels["team"] == "tills" and "ended" not in labels
    assert [profile["refused"] for profile in server.refused()] == []
    said = agent.said
    assert not any("sesame" in line for line in said)


def test_a_process_that_is_older_than_the_agent(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    """Nobody knows what of it is of this interval: its allocations count from the first profile on."""
    server = pyroscope_server()
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        time.sleep(2)  # an interval is one second
        with running_agent(heapgauge, settings_for(scratch, server, folder), clean_env):
            wait_for(lambda: of(server, run.target), "its first profile")
            assert of(server, run.target)[0]["totals"] == {"alloc_objects": 0, "alloc_space": 0, "inuse_objects": 900, "inuse_space": 900 * 200}
            again(run)
            wait_for(lambda: allocated(of(server, run.target)) == ROUND, "the second round to arrive")


def test_what_happens_while_the_store_is_away(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    """Errors of every kind, then none: all profiles arrive, once."""
    server = pyroscope_server()
    with running_agent(heapgauge, settings_for(scratch, server, folder, pyroscope={"timeout": "1s"}), clean_env) as agent:
        with keeping([keeper], preloaded(build, clean_env, folder)) as run:
            agent.sees(run.target)
            for fault in ({"status": 503}, {"status": 429, "retry_after": "1"}, {"close": True}, {"stored": True, "status": 500}, {"delay_ms": 3000}):
                server.fault(requests=1, **fault)
                again(run)
                wait_for(lambda: server.faults_left() == 0, f"a request to fail: {fault}")
            wait_for(lambda: allocated(of(server, run.target)) == (6 * ROUND[0], 6 * ROUND[1]), "everything to arrive")
            wait_for(lambda: agent.numbers()["agent_pushes_total.ok"] >= 1, "the agent to count the last answer")
            numbers = agent.numbers()
    assert numbers["agent_pushes_total.unavailable"] >= 1
    assert sum(value for name, value in numbers.items() if name.startswith("agent_dropped")) == 0
    assert [profile["refused"] for profile in server.refused()] == []


@pytest.mark.parametrize("kills", [50 if LONG else 8])
def test_killed_at_random_moments(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server, kills):
    """The agent is killed again and again while the program goes on: every allocation arrives exactly once."""
    server = pyroscope_server()
    settings = settings_for(scratch, server, folder)
    dice = random.Random(4711)
    with contextlib.ExitStack() as stack:
        rounds = 1
        with running_agent(heapgauge, settings, clean_env):
            run = stack.enter_context(keeping([keeper], preloaded(build, clean_env, folder)))
            wait_for(lambda: of(server, run.target), "the first profile")
        for _ in range(kills):
            agent = Agent(heapgauge, settings, clean_env)
            again(run)
            rounds += 1
            time.sleep(dice.random() * 2.5)
            agent.process.kill()
            agent.process.wait()
        with running_agent(heapgauge, settings, clean_env):
            expected = (rounds * ROUND[0], rounds * ROUND[1])
            wait_for(lambda: allocated(of(server, run.target)) == expected or allocated(of(server, run.target))[0] > expected[0], "all rounds")
            assert allocated(of(server, run.target)) == expected


def test_a_certificate_that_nobody_signed(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    server = pyroscope_server(tls=True)
    with running_agent(heapgauge, settings_for(scratch, server, folder), clean_env) as agent:
        with keeping([keeper], preloaded(build, clean_env, folder)):
            wait_for(lambda: agent.numbers()["agent_pushes_total.tls"] >= 1, "the certificate to be refused")
            assert agent.numbers()["agent_pushes_total.ok"] == 0
    settings = settings_for(scratch, server, folder, pyroscope={"ca_file": server.certificate})
    with running_agent(heapgauge, settings, clean_env), keeping([keeper], preloaded(build, clean_env, folder)) as run:
        wait_for(lambda: of(server, run.target), "a profile over TLS")


def test_a_full_queue_drops_the_oldest(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    server = pyroscope_server()
    server.fault(status=503)
    settings = settings_for(scratch, server, folder, queue={"max_bytes": "1MiB"})
    with running_agent(heapgauge, settings, clean_env) as agent, keeping([keeper], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        wait_for(lambda: agent.numbers()["agent_queue_profiles"] >= 2, "profiles to wait")
        assert agent.numbers()["agent_queue_bytes"] <= 1 << 20
        server.no_fault()
        wait_for(lambda: agent.numbers()["agent_queue_profiles"] == 0 or of(server, run.target), "the queue to be sent")


# 40,000 stacks: ids of a tree of calls; each leaf keeps a block, the last one far more.
MANY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define DEEP 6
static void *volatile kept;
static int big;
__attribute__((noinline)) void leaf(int big) { kept = malloc(big ? 50000000 : 100); }
#define MAKE(n) __attribute__((noinline)) void level##n(int depth, int path) \
	{ if (depth == 0) { leaf(big); } else { next[path % 6](depth - 1, path / 6); } __asm__ volatile(""); }
typedef void step(int, int);
extern step *const next[6];
MAKE(0) MAKE(1) MAKE(2) MAKE(3) MAKE(4) MAKE(5)
step *const next[6] = { level0, level1, level2, level3, level4, level5 };
int main(void)
{
	for (int i = 0; i < 46656; i++) {
		big = i == 4711;
		next[i % 6](DEEP, i);
	}
	printf("%d\n", getpid());
	fflush(stdout);
	getchar();
	return 0;
}
"""


def test_more_stacks_than_the_store_takes(heapgauge, build, clean_env, folder, scratch, pyroscope_server):
    """They are folded into their callers: totals are right, the large one is whole, and the agent says how many."""
    server = pyroscope_server()
    program = compile_c(scratch, "many", MANY)
    with running_agent(heapgauge, settings_for(scratch, server, folder), clean_env) as agent:
        with keeping([program], preloaded(build, clean_env, folder)) as run:
            # The first one may have been taken while the program was still allocating.
            profile = wait_for(lambda: [found for found in of(server, run.target) if found["totals"]["inuse_objects"] >= 46656], "a whole profile")[0]
            assert agent.numbers()["agent_folded_stacks_total"] > 20_000
    assert profile["samples"] <= 16_000
    assert profile["totals"]["inuse_objects"] >= 46656 and profile["totals"]["inuse_space"] >= 46655 * 100 + 50_000_000
    assert [profile["refused"] for profile in server.refused()] == []


def test_files_for_object_storage(heapgauge, build, keeper, clean_env, folder, scratch):
    settings = write_settings(scratch, agent={"state": scratch / "state"}, files={"folder": scratch / "profiles"})
    with running_agent(heapgauge, settings, clean_env), keeping([keeper], preloaded(build, clean_env, folder, OTEL_SERVICE_NAME="../till")) as run:
        path = wait_for(lambda: list(scratch.glob(f"profiles/service=.*_till/*/*/*-{run.target}-1.pb.gz") or []) or
                        list(scratch.glob(f"profiles/service=*till/*/*/*-{run.target}-1.pb.gz")), "a file")[0]
    shown = output_of(tool("pprof", "go install github.com/google/pprof@latest"), "-top", "-sample_index=alloc_objects", path)
    assert re.search(r"\b1000\b.* keep$", shown, re.M)


def test_two_agents_with_one_state(heapgauge, clean_env, scratch):
    """Each would count from the other's profiles. What a killed one was writing is removed."""
    settings = write_settings(scratch, agent={"state": scratch / "state"}, files={"folder": scratch / "profiles"})
    (scratch / "state" / "baselines").mkdir(parents=True)
    unfinished = scratch / "state" / "baselines" / "1_0.baseline.1-0.tmp"
    unfinished.touch()
    with running_agent(heapgauge, settings, clean_env):
        done = subprocess.run([heapgauge, "agent", settings], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 1 and "is in use by another agent" in done.stderr
        assert not unfinished.exists()
    with running_agent(heapgauge, settings, clean_env):
        pass


# ---- clocks and disks ----

# The wall clock is off by as many seconds as a file says; CLOCK_MONOTONIC is not.
WALL_CLOCK = r"""
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	char text[32] = "";
	long status = syscall(SYS_clock_gettime, clock, ret);
	int fd = clock == CLOCK_REALTIME ? open(getenv("WALL_CLOCK"), O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		(void)!read(fd, text, sizeof text - 1);
		close(fd);
		ret->tv_sec += atol(text);
	}
	return (int)status;
}
"""


def test_a_wall_clock_that_is_set(heapgauge, build, keeper, clean_env, folder, scratch):
    """An hour back, then two forward: readings go on, and no profile covers more or less than the time between two."""
    off = scratch / "off"
    off.write_text("0")
    clock = compile_c(scratch, "wall_clock.so", WALL_CLOCK, "-shared", "-fPIC")
    settings = write_settings(scratch, agent={"state": scratch / "state"}, files={"folder": scratch / "profiles"})
    env = clean_env | {"LD_PRELOAD": str(clock), "WALL_CLOCK": str(off)}

    def serials(pid):
        found = {int(re.search(r"-(\d+)\.pb\.gz$", path.name)[1]): path for path in scratch.glob(f"profiles/*/*/*/*-{pid}-*.pb.gz")}
        return [found[serial] for serial in sorted(found)]

    with running_agent(heapgauge, settings, env), keeping([keeper], preloaded(build, clean_env, folder)) as run:
        for seconds in ("0", "-3600", "3600"):
            off.write_text(seconds)
            count = len(serials(run.target))
            wait_for(lambda: len(serials(run.target)) >= count + 3, "three more profiles")
        hours = {path.parent.name for path in serials(run.target)}
        shown = [output_of(tool("pprof", ""), "-raw", path) for path in serials(run.target)[1:]]
    assert len(hours) >= 3, "the clock was not set"
    assert all(re.search(r"^Duration: (?:\d{3}ms|[\d.]+s|[\d.]{1,4})$", text, re.M) for text in shown), shown  # below a minute


@pytest.mark.parametrize("profiles", [50 if LONG else 12])
def test_a_store_that_is_away_for_an_hour(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server, profiles):
    """The hour is simulated: the wall clock moves on with every profile. What is older than 55 minutes then is dropped and counted, since the
    store would refuse it; everything else arrives, once."""
    server = pyroscope_server()
    server.fault(status=503)
    off = scratch / "off"
    off.write_text("-3600")
    clock = compile_c(scratch, "wall_clock.so", WALL_CLOCK, "-shared", "-fPIC")
    env = clean_env | {"LD_PRELOAD": str(clock), "WALL_CLOCK": str(off)}
    with running_agent(heapgauge, settings_for(scratch, server, folder), env) as agent, keeping([keeper], preloaded(build, clean_env, folder)) as run:

        def is_read(rounds):
            return agent.numbers(run.target).get("allocations_total", 0) >= rounds * ROUND[0]

        wait_for(lambda: is_read(1), "the first profile")
        for i in range(profiles):
            off.write_text(str(-3600 + 3600 * (i + 1) // profiles))
            again(run)
            wait_for(lambda: is_read(i + 2), "one more profile")
        server.no_fault()
        wait_for(lambda: agent.numbers()["agent_queue_profiles"] == 0, "the queue to be sent")
        drops = {name: value for name, value in agent.numbers().items() if name.startswith("agent_dropped") and value > 0}
        arrived = of(server, run.target)
    # Of other programs, too, if some run.
    assert set(drops) == {"agent_dropped_profiles_total.old"}
    assert len(arrived) >= profiles * 2 / 3
    assert [profile["refused"] for profile in server.refused()] == []


def test_a_disk_that_is_full_or_read_only(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    """Nothing is lost: what could not be written is in the next profile. The agent says why, once, and goes on."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts")
    server = pyroscope_server()
    state = scratch / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", state], check=True)
    try:
        with running_agent(heapgauge, settings_for(scratch, server, folder), clean_env) as agent:
            with keeping([keeper], preloaded(build, clean_env, folder)) as run:
                wait_for(lambda: allocated(of(server, run.target)) == ROUND, "the first round to arrive")
                failed = lambda text: any(text in line for line in agent.said)  # noqa: E731
                with contextlib.suppress(OSError), open(state / "filler", "wb", buffering=0) as filler:
                    while True:
                        filler.write(bytes(4096))
                again(run)
                wait_for(lambda: failed("No space left on device"), "the agent to say it")
                wait_for(lambda: agent.numbers(run.target)["live_blocks"] == 1800, "the second round to be read")
                assert agent.get("/healthz")[0] == 200
                (state / "filler").unlink()
                wait_for(lambda: allocated(of(server, run.target)) == (2 * ROUND[0], 2 * ROUND[1]), "the second round to arrive")
                subprocess.run(["mount", "-o", "remount,ro", state], check=True)
                again(run)
                wait_for(lambda: failed("Read-only file system"), "the agent to say it")
                subprocess.run(["mount", "-o", "remount,rw", state], check=True)
                wait_for(lambda: allocated(of(server, run.target)) == (3 * ROUND[0], 3 * ROUND[1]), "the third round to arrive")
            assert sum("Read-only file system" in line for line in agent.said) <= 3
    finally:
        subprocess.run(["umount", "-l", state], check=False)


# ---- killed ----


def test_the_last_profile_of_a_killed_process(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    """It arrives with the reason, and the recording can be opened; the file that it left is removed."""
    server = pyroscope_server()
    settings = settings_for(scratch, server, folder, ended={"folders": folder, "keep": scratch / "killed"})
    with running_agent(heapgauge, settings, clean_env):
        with keeping([keeper], preloaded(build, clean_env, folder)) as run:
            wait_for(lambda: of(server, run.target), "its first profile")
            again(run)
            run.send_signal(signal.SIGKILL)
        (last,) = wait_for(lambda: of(server, run.target, "killed"), "its last profile")
        assert allocated(of(server, run.target)) == (2 * ROUND[0], 2 * ROUND[1])
        assert last["totals"]["inuse_objects"] == 1800
        (path,) = wait_for(lambda: list(scratch.glob("killed/service=keeper/*/*/*.hg")), "its recording")
        wait_for(lambda: not list(folder.iterdir()), "its file to be removed")
    report = json.loads(output_of(heapgauge, "report", path, "--format", "json", env=clean_env))
    assert report["processes"][0]["not_freed_blocks"] == 1800


def test_a_process_that_was_killed_before_it_recorded_anything(heapgauge, build, keeper, clean_env, folder, scratch):
    """Its file holds nothing, and never will: it is counted, not reported, and removed."""
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        run.send_signal(signal.SIGKILL)
    (path,) = folder.iterdir()
    source = '#include <stdio.h>\n#include "format/live/live_header.h"\nint main(void) { printf("%zu", offsetof(struct live_header, ready)); }'
    ready_at = int(output_of(compile_c(scratch, "ready_at", source, f"-I{SOURCES}")))
    with open(path, "r+b") as file:
        file.seek(ready_at)
        assert file.read(4) == b"\1\0\0\0"
        file.seek(ready_at)
        file.write(b"\0\0\0\0")
    (folder / "heapgauge.1.4711.1.live").touch()  # that was killed earlier still
    settings = write_settings(scratch, agent={"state": scratch / "state"}, ended={"folders": folder, "keep": scratch / "killed"})
    with running_agent(heapgauge, settings, clean_env) as agent:
        wait_for(lambda: not list(folder.iterdir()), "its file to be removed")
        numbers = agent.numbers()
    assert numbers["agent_empty_profiles_total"] == 2 and numbers["agent_unreadable_processes"] == 0 and numbers["agent_readings_total.failed"] == 0
    assert not any("try again" in line for line in agent.said)


def test_a_recording_that_is_too_large(heapgauge, build, clean_env, folder, scratch, pyroscope_server):
    """The profile arrives all the same, the agent says so and counts it, and the file stays, which can be read."""
    server = pyroscope_server()
    program = compile_c(scratch, "many", MANY)
    with keeping([program], preloaded(build, clean_env, folder, HEAPGAUGE_MODE="exact")) as run:
        run.send_signal(signal.SIGKILL)
    settings = settings_for(scratch, server, folder, ended={"folders": folder, "keep": scratch / "killed", "max-bytes": "64KiB"})
    with running_agent(heapgauge, settings, clean_env) as agent:
        wait_for(lambda: [p for p in server.accepted() if p["labels"].get("ended") == "killed" and p["labels"]["service_name"] == "many"], "its last profile")
        wait_for(lambda: agent.numbers()["agent_failed_files_total"] == 1, "it to be counted")
    assert any("is larger than what may be kept" in line for line in agent.said)
    assert list(folder.iterdir()) and not list(scratch.glob("killed/*/*/*/*"))


def test_a_process_that_the_agent_never_saw_running(heapgauge, build, keeper, clean_env, folder, scratch, pyroscope_server):
    server = pyroscope_server()
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        run.send_signal(signal.SIGKILL)
    settings = settings_for(scratch, server, folder)
    with running_agent(heapgauge, settings, clean_env):
        wait_for(lambda: killed(server), "its profile")
    # Its file is still there: another agent does not send it again.
    count = len(killed(server))
    with running_agent(heapgauge, settings, clean_env) as agent:
        wait_for(lambda: agent.numbers()["agent_ended_processes_total.killed"] == 1, "the agent to know it")
        assert len(killed(server)) == count


def test_from_the_oom_killer_to_a_line(heapgauge, build, greedy, memory_cgroup, clean_env, folder, scratch, pyroscope_server):  # noqa: F811
    """From kill to a named line in one query: the profile with the label says who held the memory."""
    server = pyroscope_server()
    settings = settings_for(scratch, server, folder, agent={"interval": "1s", "state": scratch / "state"})
    with running_agent(heapgauge, settings, clean_env):
        enter = ["sh", "-c", f"echo $$ > {memory_cgroup}/tasks; exec env LD_PRELOAD={build}/libheapgauge.so {greedy}"]
        run = subprocess.run(enter, env=clean_env | {"HEAPGAUGE_DIR": str(folder)}, capture_output=True, text=True, timeout=WAIT_SECONDS)
        held = int(run.stdout.split()[-1])
        (last,) = wait_for(lambda: [p for p in server.accepted() if p["labels"].get("ended") == "oom"], "its last profile")
    assert last["labels"]["service_name"] == "greedy"
    assert last["totals"]["inuse_space"] >= held


# Waits for a line, then takes memory until it is killed.
HOARDER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	alarm(900);
	printf("%d\n", getpid());
	fflush(stdout);
	if (getchar() == 'q') return 0;
	for (;;) memset(malloc(100000), 1, 100000);
}
"""


@pytest.mark.parametrize("log", ["readable", "hidden"])
def test_a_sibling_of_the_oom_killers_victim_keeps_its_own_end(heapgauge, build, keeper, memory_cgroup, clean_env, folder, scratch, pyroscope_server, log):  # noqa: F811
    """The victim, one that exits, and one that is killed later, in one control group: by the kernel's log, and by the group's count alone."""
    if log == "readable" and not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("the kernel's log cannot be read here")
    hide = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/kmsg && exec "$@"', "-"] if log == "hidden" else []
    server = pyroscope_server()
    settings = settings_for(scratch, server, folder)
    env = clean_env | {"HEAPGAUGE_DIR": str(folder)}

    def inside(program):
        return keeping(["sh", "-c", f"echo $$ > {memory_cgroup}/tasks; exec env LD_PRELOAD={build}/libheapgauge.so {program}"], env)

    def gone(pid):
        return wait_for(lambda: not agent.numbers(pid), f"the agent to forget process {pid}")

    with running_agent(heapgauge, settings, clean_env, before=hide) as agent, contextlib.ExitStack() as runs:
        exits, killed_later = (runs.enter_context(inside(keeper)) for _ in range(2))
        victim = runs.enter_context(inside(compile_c(scratch, "hoarder", HOARDER)))
        for run in exits, killed_later, victim:
            agent.sees(run.target)
        again(victim)
        assert victim.wait(WAIT_SECONDS) == -signal.SIGKILL
        exits.communicate("q", WAIT_SECONDS)
        wait_for(lambda: of(server, victim.target, "oom"), "the last profile of the victim")
        gone(exits.target)
        killed_later.send_signal(signal.SIGKILL)
        wait_for(lambda: of(server, killed_later.target, "killed"), "the last profile of the one that was killed later")
        gone(killed_later.target)
    ends = [(profile["labels"]["pid"], profile["labels"]["ended"]) for profile in server.accepted() if "ended" in profile["labels"]]
    assert sorted(ends) == sorted([(str(victim.target), "oom"), (str(killed_later.target), "killed")])


# ---- symbols ----


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only files of root are kept")
def test_addresses_and_the_files_that_name_them(heapgauge, build, keeper, clean_env, folder, scratch):
    """With names off a profile has build-ids and offsets; each file stands once in the layout that debuginfod's own client reads, and gives the
    line of every address."""
    symbols = scratch / "symbols"
    settings = write_settings(
        scratch, agent={"state": scratch / "state", "names": "no"}, symbols={"folder": symbols}, files={"folder": scratch / "profiles"}
    )
    build_id = re.search(r"Build ID: (\w+)", output_of("readelf", "-n", keeper))[1]
    with running_agent(heapgauge, settings, clean_env) as agent, keeping([keeper], preloaded(build, clean_env, folder)) as run:
        path = wait_for(lambda: list(scratch.glob(f"profiles/*/*/*/*-{run.target}-1.pb.gz")), "a profile")[0]
        wait_for(lambda: (symbols / "buildid" / build_id / "debuginfo").exists(), "the file of the program")
        assert agent.numbers()["agent_symbol_files_total.kept"] >= 1
    raw = output_of(tool("pprof", "go install github.com/google/pprof@latest"), "-symbolize=none", "-raw", path)
    assert "keep" not in raw.partition("Locations")[2].partition("Mappings")[0]
    mapping = re.search(rf"^(\d+): .*{keeper} {build_id}", raw, re.M)[1]
    addresses = re.findall(rf"^\s+\d+: (0x\w+) M={mapping}\b", raw, re.M)
    server = subprocess.Popen(["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"], cwd=symbols, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = re.search(r"port (\d+)", server.stdout.readline())[1]
        env = clean_env | {"DEBUGINFOD_URLS": f"http://127.0.0.1:{port}/", "DEBUGINFOD_CACHE_PATH": str(scratch / "cache")}
        found = output_of(tool("debuginfod-find", "apt install debuginfod"), "debuginfo", build_id, env=env).strip()
    finally:
        server.kill()
        server.communicate()
    lines = output_of("addr2line", "-f", "-e", found, *addresses)
    assert "\nkeep\n" in f"\n{lines}" and "\nmain\n" in f"\n{lines}"
    assert pathlib.Path(found).read_bytes() == keeper.read_bytes()


def test_a_file_of_another_user_is_not_kept(heapgauge, build, keeper, clean_env, folder, scratch):
    if os.geteuid() == 0:
        os.chown(keeper, 65534, 65534)
    settings = write_settings(scratch, agent={"state": scratch / "state", "names": "no"}, symbols={"folder": scratch / "symbols"})
    build_id = re.search(r"Build ID: (\w+)", output_of("readelf", "-n", keeper))[1]
    with running_agent(heapgauge, settings, clean_env) as agent, keeping([keeper], preloaded(build, clean_env, folder)):
        wait_for(lambda: agent.numbers()["agent_symbol_files_total.refused"] >= 1, "the file to be refused")
    assert not (scratch / "symbols" / "buildid" / build_id).exists()

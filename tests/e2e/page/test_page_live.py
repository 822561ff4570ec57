# SPDX-License-Identifier: Apache-2.0
"""heapgauge view --pid: the page of a running process in Chromium. It renews itself and leaves the reader where he is."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from alone import preloaded
from compiled import compile_c, is_alive, wait_for
from serving import SECONDS, Server

ROOT = pathlib.Path(__file__).resolve().parents[3]

# 200 stacks that differ by their depth; alpha holds 1 MiB, beta 3 MiB, and a signal lets one of them take 10 MiB more; tick takes
# 1000 bytes every 20 ms.
TARGET = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept[1000];
static volatile sig_atomic_t grow_alpha, grow_beta;
static void on_first(int number) { grow_alpha = 1; }
static void on_second(int number) { grow_beta = 1; }
__attribute__((noinline)) static void alpha(int n) { while (n-- > 0) kept[n % 1000] = malloc(1 << 20); __asm__(""); }
__attribute__((noinline)) static void beta(int n) { while (n-- > 0) kept[n % 1000] = malloc(1 << 20); __asm__(""); }
__attribute__((noinline)) static void tick(void) { kept[0] = malloc(1000); __asm__(""); }
__attribute__((noinline)) static void deep(int n, int size) { if (n) deep(n - 1, size); else kept[1] = malloc(size); __asm__(""); }
int main(void)
{
	alarm(900);
	signal(SIGUSR1, on_first);
	signal(SIGUSR2, on_second);
	for (int i = 0; i < 200; i++) deep(i, 1000 - i);
	alpha(1);
	beta(3);
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;) {
		tick();
		usleep(20000);
		if (grow_alpha) { grow_alpha = 0; alpha(10); }
		if (grow_beta) { grow_beta = 0; beta(10); }
	}
}
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    return own | {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def seen(heapgauge, build, env, tmp_path_factory):
    """What the browser saw, and what the server said in the end."""
    folder = tmp_path_factory.mktemp("live")
    program = compile_c(folder, "shown", TARGET)
    with subprocess.Popen([program], env=preloaded(build, env), stdout=subprocess.PIPE, text=True) as run:
        pid = int(run.stdout.readline())
        server = Server(heapgauge, "--pid", pid, "--no-open", env=env, cwd=folder)
        (folder / "plan.json").write_text(json.dumps({"url": server.url, "pid": pid, "picture": str(folder / "live.png")}))
        try:
            done = subprocess.run(
                ["node", ROOT / "tests" / "web" / "live.mjs", folder / "plan.json"], capture_output=True, text=True, timeout=900, check=False
            )
        finally:
            ended = server.end()
            run.kill()
    assert done.returncode == 0, done.stderr
    assert (folder / "live.png").stat().st_size > 10000
    return json.loads(done.stdout) | {"server": ended}


@pytest.fixture
def scene(seen):
    def get(name):
        assert "failed" not in seen[name], seen[name]["failed"]
        return seen[name]

    return get


def digits(title):
    return int(re.match(r"[\d,]+", title)[0].replace(",", ""))


def test_a_running_process_is_first_shown_as_it_is_now(seen):
    assert "cost=live" in seen["first"]["hash"] and "now" in seen["first"]["words"]


def test_unknown_growth_of_a_running_process_is_no_good_news(seen):
    assert "growth is unknown" in seen["verdict"]["words"] and "edge-good" not in seen["verdict"]["edge"]


def test_numbers_renew_themselves(scene):
    first, *_, second = map(digits, scene("sites")["ticks"])
    assert first % 1000 == second % 1000 == 0
    assert second > first


def test_a_table_stays_where_it_is(scene):
    found = scene("sites")
    assert found["rows"] == 20 and found["top"][0] == found["top"][1] >= 1000
    assert found["hash"][0] == found["hash"][1] and "site=" in found["hash"][0]


def test_a_tree_keeps_what_is_open_and_chosen(scene):
    """Though those beside it change places, and with them their addresses."""
    found = scene("tree")
    names = {when: [one["text"] for one in found[when]["names"]] for when in ("before", "after")}
    assert found["opened"][0] == found["opened"][1] == len(names["after"])
    assert names["before"].index("beta") < names["before"].index("alpha"), names
    assert names["after"].index("alpha") < names["after"].index("beta"), names
    assert [one["text"] for one in found["before"]["chosen"] + found["after"]["chosen"]] == ["beta", "beta"]
    assert found["before"]["hash"] != found["after"]["hash"] and "sel=beta" in found["after"]["hash"]


def test_a_flame_graph_keeps_its_zoom(scene):
    before, after = scene("flame")["before"], scene("flame")["after"]
    assert (before["zoom"], before["chosen"]) == (after["zoom"], after["chosen"]) == ("beta", "beta")
    assert before["part"] == pytest.approx(after["part"], abs=1e-6) and before["part"][1] - before["part"][0] == pytest.approx(0.5)
    assert after["weight"] > before["weight"] + (9 << 20)


def test_pausing(scene):
    found = scene("pause")
    paused, still, live = found["words"]
    assert paused == still and re.fullmatch(r"paused, as of \d\d:\d\d:\d\d", paused)
    assert re.fullmatch(r"live, as of \d\d:\d\d:\d\d", live)
    first, second, third = map(digits, found["ticks"])
    assert first == second < third


def test_time_is_that_of_looking_and_a_chosen_moment_stays(scene):
    found = scene("time")
    assert found["strip"] >= 1 and found["error"] == 0
    assert found["hash"][0] == found["hash"][1] and re.search(r"at=time%3A[\d.]+s", found["hash"][0]), found


def test_the_last_state_stays(scene, seen):
    found = scene("end")
    assert re.fullmatch(r"ended, last state, as of \d\d:\d\d:\d\d", found["words"]) and found["later"] == found["words"]
    assert digits(found["rows"]) > 0 and found["buttons"] == 0
    assert found["wrong"] == [] and max(found["overflows"]) <= 0 and seen["errors"] == []
    assert seen["server"][0] == 0


# ---- without a browser ----


def test_what_is_answered(heapgauge, build, env, scratch):
    program = compile_c(scratch, "shown", TARGET)
    with subprocess.Popen([program], env=preloaded(build, env), stdout=subprocess.PIPE, text=True) as run:
        pid = int(run.stdout.readline())
        server = Server(heapgauge, "--pid", pid, "--no-open", env=env, cwd=scratch)
        try:
            about = server.get("/api/about").json()
            assert about["live_pid"] == pid and about["command"] == f"heapgauge report --pid {pid}"
            states = [server.get("/api/live").json() for _ in range(30)]
            assert {state["reading"] for state in states} <= {1, 2}, "once a second, however often one asks"
            rows = server.result(("view", "sites"), ("cost", "live"), ("reading", "1")).json()["sites"]
            assert rows[0]["stack"][0] is not None and rows[0]["not_freed_bytes"] == 3 << 20
            # Not every reading copies the blocks: that takes longer on a busy machine than it may.
            wait_for(lambda: server.result(("view", "leaks")).json()["sites"][0]["ages"], "ages of blocks")
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert "TracerPid:\t0" in status and is_alive(pid)
        finally:
            run.kill()
            run.wait()
            state = server.get("/api/live").json()
            assert server.end()[0] == 0
        assert state["ended"] or state["reading"] <= 2


@pytest.mark.parametrize("words, message", [
    (["--pid", "1", "x.hg"], "either --pid or recordings"),
    (["--pid", "0"], "takes a process id"),
    (["--pid", "4194000"], "process 4194000 does not exist"),
])
def test_what_cannot_be_shown(words, message, heapgauge, env, scratch):
    done = subprocess.run([heapgauge, "view", "--no-open", *words], env=env, cwd=scratch, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode in (1, 2) and message in done.stderr


def test_a_recording_does_not_change(heapgauge, env, scratch):
    subprocess.run([heapgauge, "record", "-q", "-o", scratch / "a.hg", "--", "true"], env=env, check=True)
    server = Server(heapgauge, scratch / "a.hg", "--no-open", env=env, cwd=scratch)
    try:
        assert server.get("/api/about").json()["live_pid"] == 0
        assert server.get("/api/live").status == 404
        assert server.result(("view", "sites"), ("reading", "1")).status == 400
    finally:
        server.end()

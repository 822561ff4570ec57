# SPDX-License-Identifier: Apache-2.0
"""What the agent serves: profiles with the totals of a report, metrics that Prometheus takes, and nothing to strangers."""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from agents import ROOT, children, running_agent, write_settings
from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, is_alive, wait_for
from exports import output_of, tool
from pyroscope import pyroscope_program, pyroscope_server  # noqa: F401 (fixtures)
from running import compile_keeper, keeping

needs_root = pytest.mark.skipif(not ROOT, reason="needs root: processes of other users")
NOBODY = 65534
ROOT_FOLDER = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        yield path


@pytest.fixture
def keeper(scratch):
    return compile_keeper(scratch)


@pytest.fixture
def agent(heapgauge, scratch, clean_env):
    with running_agent(heapgauge, write_settings(scratch, labels={"team": "shop", "region": "env:REGION"}), clean_env) as running:
        yield running


def totals(path):
    """{sample type: sum} by the real pprof."""
    text = output_of(tool("pprof", "go install github.com/google/pprof@latest"), "-raw", path)
    types = re.search(r"^Samples:\n(.*)$", text, re.M)[1].split()
    rows = re.findall(r"^\s+((?:\d+\s+)+\d+|\d+): ", text.partition("Samples:")[2].partition("Locations")[0], re.M)
    sums = [sum(column) for column in zip(*([int(n) for n in row.split()] for row in rows))]
    return dict(zip((name.partition("/")[0] for name in types), sums))


# ---- profiles ----


@pytest.mark.parametrize("mode", ["exact", "sample"])
@pytest.mark.parametrize("kind", ["heap", "allocs"])
def test_a_served_profile_has_the_totals_of_a_report(agent, keeper, build, clean_env, folder, heapgauge, scratch, kind, mode):
    env = preloaded(build, clean_env, folder, HEAPGAUGE_MODE=mode, HEAPGAUGE_INTERVAL="1KiB")
    with keeping([keeper], env) as run:
        agent.sees(run.target)
        status, body = agent.get(f"/debug/pprof/{kind}?pid={run.target}")
        assert status == 200
        path = scratch / "served.pb.gz"
        path.write_bytes(body)
        said = output_of(heapgauge, "report", "--pid", str(run.target), "--view", "sites", "--at", "end", "--format", "json", env=clean_env)
    sites = json.loads(said)["sites"]
    served = totals(path)
    keys = {"alloc_objects": "calls", "alloc_space": "total_bytes", "inuse_objects": "live_blocks", "inuse_space": "live_bytes"}
    assert {name: served[name] for name in keys} == {name: sum(site[key] for site in sites) for name, key in keys.items()}
    assert served["inuse_space"] > 0
    shown = output_of(tool("pprof", ""), "-top", path)
    assert re.search(r"\d+(\.\d+)?% +\S+ +\S+% +keep$", shown, re.M)
    assert re.search(r"^Type: " + ("inuse" if kind == "heap" else "alloc") + "_space$", shown, re.M)


def test_pprof_fetches_it_itself(agent, keeper, build, clean_env, folder):
    """As its documentation says: the address instead of a file; and labels are there to filter by."""
    with keeping([keeper], preloaded(build, clean_env, folder, OTEL_SERVICE_NAME="till", REGION="north")) as run:
        agent.sees(run.target)
        address = f"http://{agent.host}:{agent.port}/debug/pprof/heap?pid={run.target}"
        tags = output_of(tool("pprof", ""), "-tags", address, env=clean_env | {"PPROF_TMPDIR": str(folder)})
    for key, value in {"service_name": "till", "team": "shop", "region": "north", "pid": str(run.target)}.items():
        assert re.search(rf"{key}: Total .*\n.*: {value}$", tags, re.M), tags


def test_without_names_a_store_can_look_them_up(heapgauge, keeper, build, clean_env, folder, scratch):
    """Locations have addresses and no lines, and mappings have build-ids and do not say that functions are known."""
    with running_agent(heapgauge, write_settings(scratch, agent={"names": "no"}), clean_env) as agent, keeping([keeper], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        path = scratch / "served.pb.gz"
        path.write_bytes(agent.get(f"/debug/pprof/heap?pid={run.target}")[1])
    raw = output_of(tool("pprof", ""), "-raw", "-symbolize=none", path)
    locations = raw.partition("Locations\n")[2].partition("Mappings\n")[0].splitlines()
    assert len(locations) > 2 and all(re.fullmatch(r" +\d+: 0x[0-9a-f]+ M=\d+ *", line) for line in locations), raw
    assert re.search(r"/keeper [0-9a-f]{40} *$", raw, re.M), raw


def test_arguments_are_not_served(agent, keeper, build, clean_env, folder, scratch):
    """They may be secrets: a store gets the name of the program."""
    with keeping([keeper, "--password=sesame"], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        path = scratch / "served.pb.gz"
        path.write_bytes(agent.get(f"/debug/pprof/heap?pid={run.target}")[1])
    comments = output_of(tool("pprof", ""), "-comments", path)
    assert "keeper" in comments.splitlines() and "sesame" not in gzip.decompress(path.read_bytes()).decode("latin-1")


def test_which_process(agent, keeper, build, clean_env, folder):
    env = preloaded(build, clean_env, folder)
    with keeping([keeper], env) as one, keeping([keeper], env) as two:
        agent.sees(one.target)
        agent.sees(two.target)
        status, body = agent.get("/debug/pprof/heap")
        assert status == 404 and b"Add ?pid=PID" in body
        _, listed = agent.get("/")
        for run in (one, two):
            assert f"/debug/pprof/heap?pid={run.target}\tkeeper\n" in listed.decode()
        targets = json.loads(agent.get("/targets")[1])
        assert {str(one.target), str(two.target)} <= {entry["labels"]["__param_pid"] for entry in targets}
    for path in ("/debug/pprof/heap?pid=1", "/debug/pprof/heap?pid=", "/debug/pprof/heap?pid=99999999999", "/debug/pprof/goroutine"):
        assert agent.get(path)[0] == 404


def test_a_process_that_runs_another_program(agent, keeper, build, clean_env, folder, scratch):
    """The agent knows the first one and does not read its mappings again."""
    path = scratch / "served.pb.gz"
    env = preloaded(build, clean_env, folder)
    with subprocess.Popen(["sh", "-c", f"read line; exec {keeper}"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert agent.sees(run.pid)["live_bytes"] != 900 * 200
            run.stdin.write("go\n")
            run.stdin.flush()
            assert run.stdout.readline() == f"{run.pid}\n"
            # The agent may not have scanned since. It must not serve the shell's profile.
            path.write_bytes(agent.profile(run.pid))
            assert totals(path)["inuse_space"] == 900 * 200
            wait_for(lambda: agent.numbers(run.pid).get("live_bytes") == 900 * 200, "the agent to see the other program")
        finally:
            run.kill()


# ---- metrics ----


def test_metrics_are_the_numbers_of_a_report(agent, keeper, build, clean_env, folder, heapgauge):
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        numbers = agent.sees(run.target)
        process = json.loads(output_of(heapgauge, "report", "--pid", str(run.target), "--format", "json", env=clean_env))["processes"][0]
        rss = int((f := open(f"/proc/{run.target}/statm")).read().split()[1]) * os.sysconf("SC_PAGESIZE")
        f.close()
    assert numbers["live_bytes"] == process["not_freed_bytes"] == 900 * 200
    assert numbers["live_blocks"] == 900 and numbers["peak_bytes"] == process["peak_bytes"]
    assert numbers["allocations_total"] == process["calls"] and numbers["allocated_bytes_total"] == process["total_bytes"]
    assert numbers["frees_total"] == 100 and numbers["live_bytes_standard_error"] == 0
    assert abs(numbers["memory_bytes.rss"] - rss) <= rss / 10, "smaps and statm count differently by some pages"
    assert numbers["memory_bytes.rss"] == sum(
        numbers[f"memory_bytes.{name}"] for name in ("heap", "anonymous", "stack", "file", "shared", "recorder")
    )


TAGGED = r"""
#include <heapgauge/heapgauge.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept[3];
int main(void)
{
	struct hg_scope first = hg_enter_name("first \"quoted\"\\\n\xff");
	kept[0] = malloc(1000);
	hg_leave(first);
	struct hg_scope second = hg_enter_name("second");
	kept[1] = malloc(2000);
	hg_leave(second);
	printf("%d\n", getpid());
	fflush(stdout);
	getchar();
	return 0;
}
"""


def test_tags_and_what_promtool_says(agent, build, clean_env, folder, scratch):
    program = compile_c(scratch, "tagged", TAGGED, f"-I{build.parent.parent / 'include'}")
    with keeping([program], preloaded(build, clean_env, folder)) as run:
        numbers = agent.sees(run.target)
        assert numbers["tag_live_bytes.second"] == 2000
        for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
            status, body = agent.get("/metrics", Accept=accept)
            assert status == 200 and b"first" in body and b"\xff" not in body
            assert body.endswith(b"# EOF\n") == accept.startswith("application")
        done = subprocess.run([tool("promtool", "apt install prometheus"), "check", "metrics"], input=agent.get("/metrics")[1], capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_it(agent, keeper, build, clean_env, folder, scratch):
    """The real one, with OpenMetrics, which it prefers."""
    (scratch / "prometheus.yml").write_text(
        f"scrape_configs:\n- job_name: heapgauge\n  scrape_interval: 1s\n  static_configs: [{{targets: ['{agent.host}:{agent.port}']}}]\n"
    )
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        server = subprocess.Popen(
            [tool("prometheus", "apt install prometheus"), f"--config.file={scratch}/prometheus.yml", f"--storage.tsdb.path={scratch}/data",
             "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        try:
            address = next(m[1] for line in server.stderr if (m := re.search(r'msg="Listening on" address=(\S+)', line)))
            query = f'http://{address}/api/v1/query?query=heapgauge_live_bytes%7Bpid%3D%22{run.target}%22%7D'

            def answer():
                done = subprocess.run(["curl", "-sf", query], capture_output=True, text=True)
                return done.returncode == 0 and json.loads(done.stdout)["data"]["result"]

            (series,) = wait_for(answer, "Prometheus to have scraped")
        finally:
            server.kill()
            server.communicate()
    assert series["metric"]["service_name"] == "keeper" and series["metric"]["team"] == "shop"
    assert series["value"][1] == str(900 * 200)


# ---- strangers ----


def test_strangers_are_refused(agent):
    assert agent.get("/metrics")[0] == 200
    assert agent.get("/metrics", Host="evil.example")[0] == 403
    assert agent.get("/metrics", Origin=f"http://{agent.host}:{agent.port}")[0] == 403
    assert agent.get("/metrics", Sec_Fetch_Site="none")[0] == 403
    assert agent.get("/metrics", Authorization="Bearer guess")[0] == 401


@needs_root
def test_other_users_are_refused(agent):
    ask = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "curl", "-s", "-o", os.devnull, "-w", "%{http_code}"]
    where = f"http://{agent.host}:{agent.port}"
    assert output_of(*ask, f"{where}/metrics") == "401"
    assert output_of(*ask, f"{where}/debug/pprof/heap?pid=1") == "401"
    assert output_of(*ask, f"{where}/healthz") == "200"


@needs_root
def test_a_token_admits_other_users(heapgauge, scratch, clean_env):
    secret = scratch / "token"
    secret.write_text("open sesame\n")
    secret.chmod(0o600)
    with running_agent(heapgauge, write_settings(scratch, agent={"token_file": secret}), clean_env) as agent:
        ask = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "curl", "-s", "-o", os.devnull, "-w", "%{http_code}"]
        where = f"http://{agent.host}:{agent.port}/metrics"
        assert output_of(*ask, "-H", "Authorization: Bearer open sesame", where) == "200"
        for wrong in ("", "open", "open sesame!", "open sesam", "OPEN SESAME"):
            assert output_of(*ask, "-H", f"Authorization: Bearer {wrong}", where) == "401"
        # With the token any Host will do: it may have a name in a network.
        assert output_of(*ask, "-H", "Host: node-17", "-H", "Authorization: Bearer open sesame", where) == "200"


def test_those_who_ask_what_anybody_may_are_no_guests(agent):
    """Connections that stay open after /healthz make room for those of others."""
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(contextlib.closing(http.client.HTTPConnection(agent.host, int(agent.port), timeout=WAIT_SECONDS)))
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
        assert agent.get("/metrics")[0] == 200


def test_a_socket_in_a_folder(heapgauge, scratch, clean_env):
    with running_agent(heapgauge, write_settings(scratch, listen=f"unix:{scratch}/agent.sock"), clean_env) as agent:
        assert agent.get("/healthz") == (200, b"ok\n")
        assert (scratch / "agent.sock").stat().st_mode & 0o777 == 0o600


# ---- many processes ----

# Every descriptor below 1,100 is taken, as by 500 processes.
CROWDED = "import os, resource, sys; most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)); " \
    "[os.dup2(0, n) for n in range(3, 1100)]; os.execv(sys.argv[1], sys.argv[1:])"


def test_it_answers_with_more_descriptors_than_select_has(heapgauge, scratch, clean_env):
    with running_agent(heapgauge, write_settings(scratch), clean_env, before=[sys.executable, "-c", CROWDED]) as agent:
        assert agent.get("/healthz") == (200, b"ok\n")


def test_it_raises_the_limit_of_its_descriptors(heapgauge, scratch, clean_env):
    with running_agent(heapgauge, write_settings(scratch), clean_env, before=["sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh"]) as agent:
        soft, hard = re.search(r"^Max open files +(\d+) +(\d+)", pathlib.Path(f"/proc/{agent.process.pid}/limits").read_text(), re.M).groups()
        assert soft == hard and int(soft) > 64


# Forks as many as it is told; each takes a block, and all end with it.
CROWD = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *volatile kept;
int main(int argc, char **argv)
{
	int ready[2];
	char byte = 0;
	alarm(900);
	if (pipe(ready)) return 99;
	for (int i = 0; i < atoi(argv[1]); i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			kept = malloc(1000 * (i + 1));
			if (write(ready[1], &byte, 1) != 1) _exit(98);
			pause();
		}
	for (int i = 0; i < atoi(argv[1]); i++)
		if (read(ready[0], &byte, 1) != 1) return 97;
	printf("%d\n", getpid());
	fflush(stdout);
	return getchar() == 'q' ? 0 : 96;
}
"""


def running_crowd(build, clean_env, folder, scratch, count):
    return keeping([compile_c(scratch, "crowd", CROWD), str(count)], preloaded(build, clean_env, folder))


def crowd_pids(agent, metric="heapgauge_live_bytes"):
    return set(re.findall(rf'^{metric}{{.*pid="(\d+)".*service_name="crowd"', agent.get("/metrics")[1].decode(), re.M))


@needs_root
def test_more_processes_than_descriptors(heapgauge, build, clean_env, folder, scratch, pyroscope_server):
    """All are read; it holds the profiles of as many as leave it descriptors to answer with, and says of how many it does not. Those that
    it does not hold are found by their files when they are killed."""
    server = pyroscope_server()
    settings = write_settings(scratch, agent={"state": scratch / "state"}, pyroscope={"url": server.url}, ended={"folders": folder})
    with running_agent(heapgauge, settings, clean_env, before=["sh", "-c", 'ulimit -n 80; exec "$@"', "sh"]) as agent:
        with running_crowd(build, clean_env, folder, scratch, 90) as run:
            wait_for(lambda: len(crowd_pids(agent)) == 91, "all to be read")
            assert 50 <= agent.numbers()["agent_unheld_processes"] < 90
            assert agent.get("/healthz") == (200, b"ok\n")
            assert agent.get(f"/debug/pprof/heap?pid={max(map(int, crowd_pids(agent)))}")[0] == 200
            held = [os.readlink(path) for path in pathlib.Path(f"/proc/{agent.process.pid}/fd").iterdir() if path.is_symlink()]
            assert sum(target.endswith(".live") for target in held) <= 45  # 40, and 5 that are being read
            run.kill()
        wait_for(lambda: agent.numbers()["agent_ended_processes_total.killed"] >= 91, "all ends to be counted")
        wait_for(lambda: len({profile["id"] for profile in server.accepted() if profile["labels"].get("ended") == "killed"}) >= 91,
                 "the last profile of each")
        assert not crowd_pids(agent)


def total(agent, family):
    return sum(float(value) for value in re.findall(rf'^{family}{{.*service_name="(?:crowd|others)"}} (.*)$', agent.get("/metrics")[1].decode(), re.M))


@needs_root
def test_more_series_than_the_limit(heapgauge, build, clean_env, folder, scratch):
    """The largest processes have their own, the others one sum: totals are those of an agent without a limit."""
    (scratch / "few").mkdir()
    settings = {"names": "no"}
    with running_agent(heapgauge, write_settings(scratch, agent=settings), clean_env) as whole, running_agent(
        heapgauge, write_settings(scratch / "few", agent=settings | {"max-series": "220"}), clean_env
    ) as few, running_crowd(build, clean_env, folder, scratch, 40):
        wait_for(lambda: len(crowd_pids(whole)) == 41 and few.numbers()["agent_processes"] >= 41 and few.numbers()["agent_summed_processes"] >= 31, "all to be read")
        for family in ("heapgauge_live_bytes", "heapgauge_live_blocks", "heapgauge_stacks"):
            wait_for(lambda: total(whole, family) == total(few, family) > 40, f"the sums of {family} to be equal")
        own = crowd_pids(few)
        assert 1 <= len(own) <= 10
        largest = sorted((whole.numbers(pid)["live_bytes"] for pid in crowd_pids(whole)), reverse=True)
        assert sorted((few.numbers(pid)["live_bytes"] for pid in own), reverse=True) == largest[: len(own)]
        assert few.numbers()["agent_series_left_out"] >= 31 * 20 and whole.numbers()["agent_summed_processes"] == 0
        done = subprocess.run([tool("promtool", "apt install prometheus"), "check", "metrics"], input=few.get("/metrics")[1], capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr


# ---- settings ----


@pytest.mark.parametrize(
    "text, reason",
    [
        ("[agent]\nlisten = 0.0.0.0:9464\n", "lets other machines ask: set token-file"),
        ("[agent]\nlisten = 127.0.0.1\n", "has no port: write 127.0.0.1:9464"),
        ("[agent]\nlisten = 127.0.0.1:x\n", "is not ADDRESS:PORT"),
        ("[agent]\ninterval = 0s\n", "agent.ini:2: '0s' is out of range: 1.0 s to 1 h 00 min"),
        ("[agent]\ninterval = soon\n", "'soon' is not a time such as 60s"),
        ("[agent]\nintervall = 5s\n", "[agent] has no 'intervall': it has listen, token-file"),
        ("[agents]\ninterval = 5s\n", "unknown section [agents]: there are [agent], [labels]"),
        ("[agent]\ntoken-file = token\n", "'token' is not an absolute path"),
        ("[agent]\ntoken-file = /nonexistent/token\n", "/nonexistent/token"),
        ("[labels]\npid = 1\n", "'pid' cannot be a label"),
        ("[pyroscope]\nurl = localhost:4040\n", "is not an http:// or https:// address"),
        ("[pyroscope]\nurl = http://localhost:4040\n", "needs a folder for what was sent and what waits: set [agent] state"),
    ],
)
def test_settings_that_are_wrong(heapgauge, scratch, clean_env, text, reason):
    (scratch / "agent.ini").write_text(text)
    for option in (["--check"], []):
        done = subprocess.run([heapgauge, "agent", scratch / "agent.ini", *option], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 1 and reason in done.stderr and done.stdout == "", done.stderr


def test_a_token_that_others_can_read(heapgauge, scratch, clean_env):
    (scratch / "token").write_text("secret words")
    (scratch / "token").chmod(0o644)
    settings = write_settings(scratch, agent={"token_file": scratch / "token"})
    done = subprocess.run([heapgauge, "agent", settings, "--check"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 1 and "chmod 600" in done.stderr and "secret" not in done.stderr.replace(str(scratch), "")


def test_the_settings_of_the_page(heapgauge, scratch, clean_env):
    """docs/howto/agent.md: every key that it shows exists, and the whole is valid where its files are."""
    (text,) = re.findall(r"^```ini\n(.*?)^```$", (ROOT_FOLDER / "docs/howto/agent.md").read_text(), re.M | re.S)
    for name in ("token", "pyroscope-token", "private-ca.pem"):
        (scratch / name).write_text("secret")
        (scratch / name).chmod(0o600)
    text = re.sub(r"/etc/(?:heapgauge|ssl)/", f"{scratch}/", text).replace("/var/", f"{scratch}/")
    (scratch / "lib").mkdir()
    (scratch / "agent.ini").write_text(text)
    done = subprocess.run([heapgauge, "agent", scratch / "agent.ini", "--check"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_settings_that_are_right(heapgauge, scratch, clean_env):
    done = subprocess.run([heapgauge, "agent", write_settings(scratch), "--check"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.endswith("agent.ini is valid\n")


# ---- its own life ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(heapgauge, scratch, clean_env, number):
    with running_agent(heapgauge, write_settings(scratch), clean_env) as agent:
        helpers = children(agent.process.pid)
        assert len(helpers) >= 1
        agent.process.send_signal(number)
        assert agent.process.wait(WAIT_SECONDS) == 0
    assert not any(is_alive(pid) for pid in helpers)


def test_its_reader_ends_with_it(heapgauge, scratch, clean_env):
    with running_agent(heapgauge, write_settings(scratch), clean_env) as agent:
        helpers = children(agent.process.pid)
        agent.process.kill()
        agent.process.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in helpers), "the reader to end")


def test_a_process_that_ends(agent, keeper, build, clean_env, folder):
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        before = agent.numbers()["agent_ended_processes_total.exited"]
    wait_for(lambda: not agent.numbers(run.target), "the agent to see its end")
    wait_for(lambda: agent.numbers()["agent_ended_processes_total.exited"] > before, "its end to be counted")

# SPDX-License-Identifier: Apache-2.0
"""Allocators that a program brings along, preloaded or linked as shared libraries: recorded like glibc's own."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS, losses, wait_for
from test_targets import SOURCES, TARGETS, compare, inconsistencies, parse
from test_truth import BENCH, split_sites

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc.so.4",
    "tcmalloc-minimal": "libtcmalloc_minimal.so.4",
    "mimalloc": next((path.name for path in LIBRARIES.glob("libmimalloc.so.[23]")), "libmimalloc.so.2"),
}
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
# Blocks that an allocator's and libstdc++'s own start takes, and one of libc's for each thread.
OTHERS_MOST = 40


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where this file's programs are built; test_targets knows a program's own modules by the folder's name."""
    path = tmp_path_factory.mktemp("allocators") / "targets"
    path.mkdir()
    return path


@pytest.fixture(params=["preloaded", "linked"])
def with_allocator(request, folder):
    """with_allocator(source, name): (argv, environment) of the program from that source, run with that allocator."""

    def make(source, allocator):
        library = LIBRARIES / ALLOCATORS[allocator]
        if not library.exists():
            pytest.fail(f"{library} is not installed")
        linked = request.param == "linked"
        program = folder / f"{source.stem}-{allocator if linked else 'bare'}"
        if not program.exists():
            compiler = ["g++", "-std=c++17"] if source.suffix == ".cc" else ["gcc"]
            subprocess.run(
                [*compiler, "-O2", "-g", "-pthread", f"-I{TARGETS}", source, "-o", program, *([library] if linked else [])],
                check=True,
                timeout=WAIT_SECONDS,
            )
        return [program], {} if linked else {"LD_PRELOAD": str(library)}

    return make


def run_bare(argv, env):
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


WORKLOADS = {
    "churn": ("churn", [1, 5_000_000 if LONG else 400_000]),
    "churn-threads": ("churn", [4, 5_000_000 if LONG else 400_000]),
    "live": ("live", [400_000 if LONG else 200_000]),
}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_workload_is_recorded_to_the_byte_with_another_allocator(allocator, workload, with_allocator, record, report_json):
    name, arguments = WORKLOADS[workload]
    argv, env = with_allocator(BENCH / f"{name}.c", allocator)
    run = record([*argv, *map(str, arguments)], env=env)
    assert run.returncode == 0, run.stderr
    truth = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)\b", re.search(r"^TRUTH .*$", run.stderr, re.M).group())}

    [process] = report_json(run.path)["processes"]
    assert process["allocator"] == ALLOCATORS[allocator]
    assert losses(process) == {}
    sites, others = split_sites(report_json(run.path, "sites")["sites"], argv[0], {"leaf"})
    total = {column: sum(site[column] for site in sites) for column in ("calls", "total_bytes", "frees", "not_freed_bytes", "peak_bytes")}
    assert (total["calls"], total["total_bytes"], total["frees"], total["not_freed_bytes"]) == (
        truth["calls"], truth["bytes"], truth["frees"], truth["leaked"],
    )  # fmt: skip
    assert sum(site["calls"] for site in others) <= OTHERS_MOST, "nothing is counted twice, at another place"
    threads = arguments[0] if name == "churn" else 1
    if threads == 1:
        assert total["peak_bytes"] == truth["peak"]
    else:
        assert truth["peak"] / threads - process["peak_bound_bytes"] <= total["peak_bytes"]
        assert process["threads"] == 1 + threads


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc-minimal", "mimalloc"])
def test_two_million_blocks_of_another_allocator_fit_into_the_default_budget(allocator, folder, record, report_json):
    """With glibc's they take two thirds of it."""
    program = folder / "live-bare"
    if not program.exists():
        subprocess.run(["gcc", "-O2", "-g", "-pthread", BENCH / "live.c", "-o", program], check=True, timeout=WAIT_SECONDS)
    run = record([program, "2000000"], env={"LD_PRELOAD": str(LIBRARIES / ALLOCATORS[allocator])})
    assert run.returncode == 0, run.stderr
    assert losses(report_json(run.path)["processes"][0]) == {}


SAID = [
    "t_rv_every_way.cc",
    "t_rv_tiny_blocks.c",
    "t_cxx_bad_alloc.cc",
    "t_threads_many.c",
    "t_threads_cross_free.c",
    "t_fork_threads.c",
    "t_temporary_blocks.c",
]
NOT_WITH = {
    "t_cxx_bad_alloc.cc": {"mimalloc"},  # its operator new aborts
}
# Of these two a preloaded allocator tells enough.
PRELOADED_ONLY = {"t_fork_threads.c", "t_temporary_blocks.c"}


@pytest.mark.parametrize(
    "name, allocator", [(name, a) for name in SAID for a in ALLOCATORS if a not in NOT_WITH.get(name, ())]
)
def test_target_is_recorded_as_it_says_with_another_allocator(
    allocator, name, with_allocator, record, report_json, clean_env
):
    argv, env = with_allocator(SOURCES[name], allocator)
    if not env and name in PRELOADED_ONLY and not LONG:
        pytest.skip("run with HEAPGAUGE_LONG=1")
    bare = run_bare(argv, clean_env | env)
    assert bare.returncode == 0, bare.stdout + bare.stderr
    run = record(argv, env=env)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    truth = parse(run.stdout)
    assert truth.expectations
    assert (truth.output, run.stderr) == (parse(bare.stdout).output, bare.stderr)

    process, *children = report_json(run.path)["processes"]
    assert {p["allocator"] for p in [process, *children]} == {ALLOCATORS[allocator]}
    assert process["end"] == "exit" and process["exit_code"] == 0
    sites = [s for s in report_json(run.path, "sites")["sites"] if s["pid"] == process["pid"]]
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)


PROGRAMS = {
    "python": (
        ["python3", "-c", "d = {str(i): [i] * (i % 9) for i in range(20000)}; print(sum(map(len, d.values())))"],
        {"PYTHONMALLOC": "malloc"},
    ),
    "sqlite": (
        ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i+1 from n where i<20000)"
         " select count(*), sum(length(hex(i))) from n group by i % 7;"],
        {},
    ),
    "c++ compiler": (["g++", "-std=c++17", "-fsyntax-only", f"-I{TARGETS}", str(SOURCES["t_rv_static_container.cc"])], {}),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_real_program_with_another_allocator_does_the_same(allocator, program, record, report_json, clean_env):
    argv, env = PROGRAMS[program]
    env = env | {"LD_PRELOAD": str(LIBRARIES / ALLOCATORS[allocator])}
    bare = run_bare(argv, clean_env | env)
    run = record(argv, env=env)
    assert bare.returncode == 0, bare.stderr
    assert (run.returncode, run.stdout, run.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    processes = report_json(run.path)["processes"]
    assert {p["allocator"] for p in processes} == {ALLOCATORS[allocator]}
    assert sum(p["calls"] for p in processes) > 1000
    assert [losses(p) for p in processes] == [{}] * len(processes)


COMMANDS = (
    [["set", f"key{i}", "x" * (i * 37 % 500)] for i in range(200)]
    + [["lpush", f"list{i % 7}", str(i)] for i in range(200)]
    + [["hset", "hash", f"f{i}", str(i * i)] for i in range(100)]
    + [["append", f"key{i}", "tail"] for i in range(0, 200, 3)]
    + [["strlen", f"key{i}"] for i in range(0, 200, 7)]
    + [["lrange", "list3", "0", "9"], ["hget", "hash", "f17"], ["dbsize"], ["del", "key5"], ["get", "key5"], ["nonsense"]]
    + [["zadd", "z", str(i % 13), f"m{i}"] for i in range(300)]
    + [["zrange", "z", "0", "20"], ["memory", "usage", "key11"], ["sort", "list1", "desc"], ["object", "encoding", "z"]]
)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Redis:
    """A server on a loopback port, spoken to in its own protocol."""

    def __init__(self, argv, env, folder):
        self.port = free_port()
        self.folder = folder
        folder.mkdir()
        self.process = subprocess.Popen(
            [*argv, "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", str(folder)],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        wait_for(self.answers, "redis-server to answer")

    def answers(self):
        try:
            return self.talk([["ping"]]) == b"+PONG\r\n"
        except OSError:
            assert self.process.poll() is None, self.process.communicate()[0]
            return False

    def talk(self, commands):
        """The bytes of all replies; the last command's reply ends with what PING after it gives."""
        text = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS) as connection:
            for words in [*commands, ["echo", "the end"]]:
                text += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
            connection.sendall(text)
            replies = b""
            while not replies.endswith(b"$7\r\nthe end\r\n"):
                part = connection.recv(1 << 16)
                assert part, replies
                replies += part
        return replies.removesuffix(b"$7\r\nthe end\r\n")

    def benchmark(self, requests):
        subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-t", "set,lpush", "-n", str(requests), "-P", "16", "-q"],
            stdout=subprocess.DEVNULL, check=True, timeout=WAIT_SECONDS,
        )  # fmt: skip

    def shut_down(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS) as connection:
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")
            connection.settimeout(30)
            while connection.recv(100):
                pass
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, output


def sentences(log):
    """What the server said, without its number, the times and the seconds that things took."""
    return [re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ |\bpid=?\s*\d+|PID: \d+|port[:=]\s*\d+|\d+\.\d+ seconds", "", line, flags=re.I)
            for line in log.splitlines()]  # fmt: skip


def test_redis_under_load_answers_the_same_and_shuts_down_cleanly(heapgauge, clean_env, scratch, report_json):
    if not shutil.which("redis-benchmark"):
        pytest.fail("redis-server and redis-tools are not installed")
    path = scratch / "redis.hg"
    seen = []
    for name, argv in [("bare", []), ("recorded", [heapgauge, "record", "-q", "-o", path, "--"])]:
        began = time.monotonic()
        server = Redis(argv, clean_env, scratch / name)
        try:
            replies = server.talk(COMMANDS)
            server.benchmark(300_000)
            [length] = re.findall(rb":(\d+)", server.talk([["llen", "mylist"]]))
            code, output = server.shut_down()
        finally:
            server.process.kill()
        assert "bye bye" in output
        seen.append((replies, length, code, sorted(p.name for p in server.folder.iterdir()), sentences(output)))
        assert time.monotonic() - began < 100
    assert seen[0] == seen[1]
    assert seen[1][1:4] == (b"300000", 0, [])
    assert any("Ready to accept connections" in line for line in seen[1][4])
    [process] = report_json(path)["processes"]
    assert process["allocator"].startswith("libjemalloc")
    assert process["calls"] > 300_000
    assert losses(process) == {}
    assert process["end"] == "exit" and process["exit_code"] == 0

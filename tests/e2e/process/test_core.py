# SPDX-License-Identifier: Apache-2.0
"""Core files of processes that were recorded with --core: by gdb and by the kernel, against the same moment of the live process."""

import collections
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for
from exports import tool
from paused import compile_c
from test_image import sites_of

PAGE = 4096
MAGIC = b"HGLIVE\r\n"


def gcore(pid, scratch, name="core"):
    done = subprocess.run([tool("gcore", "apt-get install gdb"), "-o", scratch / name, str(pid)], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return scratch / f"{name}.{pid}"


def heapgauge_run(heapgauge, env, *words):
    return subprocess.run([heapgauge, *words], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def image_of(heapgauge, env, core, *options):
    path = core.with_suffix(".image.hg")
    path.unlink(missing_ok=True)
    done = heapgauge_run(heapgauge, env, "image", core, "-o", path, *options)
    return done, path


def report_of(heapgauge, env, *words):
    done = heapgauge_run(heapgauge, env, "report", *words, "--format", "json", "--limit", "100000")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["sites"]
    return report


# What depends on when it was read, and that the process has ended.
TIMES = re.compile(r".*(_ns|_ms|per_second)(_error)?$|ages|state|file|run")


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if not TIMES.fullmatch(key)}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def truth_of(lines):
    expected = collections.Counter()
    for line in lines:
        words = re.match(r"TRUTH site=(\w+) class=(\w+) blocks=(\d+) bytes=(\d+)", line)
        if words:
            expected[words[1], words[2], "blocks"] += int(words[3])
            expected[words[1], words[2], "bytes"] += int(words[4])
    assert len(expected) >= 26
    return expected


def classes_of(sites, functions):
    found = collections.Counter()
    for site in sites:
        name = next((f["function"] for f in site["stack"] if f["function"] in functions), None)
        for key, value in site["reach"].items() if name else ():
            if value:
                found[(name, *key.split("_"))] += value
    return found


def holders_of(sites):
    return {frame["function"]: site["held_by"] for site in sites for frame in site["stack"][:1]}


def opened_bytes(pid):
    """What the process has opened of its profile: its writable part."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if "heapgauge-profile" in line and " rw-s " in line]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


def kernel_dumps_here():
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return not pattern.startswith("|") and "/" not in pattern and pattern.startswith("core")


@pytest.fixture
def dumping(scratch, monkeypatch):
    """Processes that are started from now on write core files into the current folder."""
    if not kernel_dumps_here():
        pytest.skip("kernel.core_pattern gives core files to a program, or puts them elsewhere")
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] != resource.RLIM_INFINITY:
        pytest.skip("RLIMIT_CORE forbids core files")
    monkeypatch.chdir(scratch)
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def crash(run, scratch):
    os.kill(run.pid, signal.SIGABRT)
    assert run.end() != 0
    return next(path for path in scratch.iterdir() if path.name.startswith("core"))


def test_a_core_of_gdb_has_the_truth_and_what_the_process_has(paused, target, heapgauge, clean_env, scratch):
    run = paused([target("reach_truth")], "--core")
    live, live_path = run.image("--stop")
    assert live.returncode == 0, live.stderr
    by_pid = report_of(heapgauge, clean_env, "--pid", str(run.pid), "--view", "sites")
    core = gcore(run.pid, scratch)
    assert run.end() == 0
    assert without_times(report_of(heapgauge, clean_env, core, "--view", "sites")) == without_times(by_pid)
    done, path = image_of(heapgauge, clean_env, core)
    assert done.returncode == 0, done.stderr
    sites, expected = sites_of(heapgauge, path, clean_env), truth_of(run.lines)
    assert classes_of(sites, {function for function, _, _ in expected}) == expected
    assert without_times(sites) == without_times(sites_of(heapgauge, live_path, clean_env))
    assert holders_of(sites)["grow_tree"] == "tree (reach_truth)"
    text = heapgauge_run(heapgauge, clean_env, "report", path, "--view", "leaks").stdout
    assert "its core file was examined" in text


def test_a_core_of_the_kernel_has_the_same_and_is_small(paused, target, heapgauge, clean_env, scratch, dumping):
    plain = paused([target("reach_truth")])
    without = crash(plain, scratch)
    bytes_without = without.stat().st_size
    done, path = image_of(heapgauge, clean_env, without)
    assert done.returncode != 0 and not path.exists() and "record --core" in done.stderr
    without.unlink()
    run = paused([target("reach_truth")], "--core")
    live, live_path = run.image("--stop")
    assert live.returncode == 0, live.stderr
    by_pid = report_of(heapgauge, clean_env, "--pid", str(run.pid), "--view", "sites")
    opened = opened_bytes(run.pid)
    core = crash(run, scratch)
    # The whole mapping is tens of gigabytes. Pages of stacks and headers differ from run to run.
    assert 0 < opened < 8 << 20 and abs(core.stat().st_size - bytes_without - opened) < 64 * PAGE
    report = report_of(heapgauge, clean_env, core, "--view", "sites")
    assert without_times(report) == without_times(by_pid)
    done, path = image_of(heapgauge, clean_env, core)
    assert done.returncode == 0 and "ended by SIGABRT" in done.stdout, done.stdout + done.stderr
    sites, expected = sites_of(heapgauge, path, clean_env), truth_of(run.lines)
    assert classes_of(sites, {function for function, _, _ in expected}) == expected
    assert without_times(sites) == without_times(sites_of(heapgauge, live_path, clean_env))


BUSY = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct Node { Node *next; char pad[100]; };
Node *kept[4];
volatile unsigned long hidden;
static void *work(void *number)
{
	for (;;) {
		void *block = malloc(50 + random() % 1000);
		memset(block, 0, 50);
		free(block);
	}
	return number;
}
__attribute__((noinline)) static void make()
{
	for (int i = 0; i < 20000; i++)
		kept[i % 4] = new Node{kept[i % 4], {}};
	for (int i = 0; i < 100; i++)
		hidden = ~(unsigned long)malloc(7000);
}
int main()
{
	pthread_t thread;
	make();
	for (int i = 0; i < 3; i++) pthread_create(&thread, nullptr, work, nullptr);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	abort();
}
"""


def test_a_program_that_crashes_while_it_works(paused, heapgauge, clean_env, scratch, dumping):
    run = paused([compile_c(scratch, "busy", BUSY)], "--core")
    core = crash(run, scratch)
    done, path = image_of(heapgauge, clean_env, core)
    assert done.returncode == 0, done.stderr
    make = [s for s in sites_of(heapgauge, path, clean_env) if any(f["function"].startswith("make(") for f in s["stack"])]
    nodes = next(s for s in make if s["live_blocks"] == 20000)
    assert nodes["reach"]["global_blocks"] == 20000 and nodes["held_by"] == "kept (busy)"
    lost = next(s for s in make if s["live_blocks"] == 100)
    # A register or a stack may still have one.
    assert lost["unreachable_blocks"] >= 98 and lost["live_bytes"] == 700000


def test_without_core_it_says_what_to_do(paused, target, heapgauge, clean_env, scratch):
    run = paused([target("reach_truth")])
    core = gcore(run.pid, scratch)
    run.end()
    for done in (image_of(heapgauge, clean_env, core)[0], heapgauge_run(heapgauge, clean_env, "report", core)):
        assert done.returncode != 0 and f"the profile of process {run.pid} is not in it" in done.stderr
        assert "heapgauge record --core" in done.stderr and done.stderr.count("\n") == 1


def test_a_core_of_a_program_that_was_not_recorded(heapgauge, clean_env, scratch):
    with subprocess.Popen(["sleep", "1000"], env=clean_env) as sleeping:
        wait_for(lambda: os.readlink(f"/proc/{sleeping.pid}/exe").endswith("sleep"), "exec")
        core = gcore(sleeping.pid, scratch)
        sleeping.kill()
    done = heapgauge_run(heapgauge, clean_env, "report", core)
    assert done.returncode != 0 and "was not recorded" in done.stderr


def test_of_a_sampled_process_the_report_works_and_the_image_says_why_not(paused, target, heapgauge, clean_env, scratch):
    run = paused([target("reach_truth")], "--core", "--mode", "sample", "--interval", "256B")
    by_pid = report_of(heapgauge, clean_env, "--pid", str(run.pid), "--view", "sites")
    core = gcore(run.pid, scratch)
    run.end()
    assert without_times(report_of(heapgauge, clean_env, core, "--view", "sites")) == without_times(by_pid)
    done, path = image_of(heapgauge, clean_env, core)
    assert done.returncode != 0 and "an image needs every block" in done.stderr and not path.exists()


def test_stop_is_for_processes(heapgauge, clean_env, scratch):
    done = heapgauge_run(heapgauge, clean_env, "image", scratch / "core", "--stop")
    assert done.returncode != 0 and "--stop is for processes" in done.stderr


class Alone:
    """A program that records itself, as Paused."""

    def __init__(self, program, env, scratch, recorder, **variables):
        self.process = subprocess.Popen([program], env={**env, "LD_PRELOAD": str(recorder), **variables}, cwd=scratch,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        for line in self.process.stdout:
            if line == "ready\n":
                break

    def end(self):
        self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode


def test_a_process_that_records_itself(target, build, heapgauge, clean_env, scratch):
    run = Alone(target("reach_truth"), clean_env, scratch, build / "libheapgauge.so", HEAPGAUGE_CORE="1")
    by_pid = report_of(heapgauge, clean_env, "--pid", str(run.pid), "--view", "sites")
    core = gcore(run.pid, scratch)
    assert run.end() == 0
    assert without_times(report_of(heapgauge, clean_env, core, "--view", "sites")) == without_times(by_pid)
    assert image_of(heapgauge, clean_env, core)[0].returncode == 0


def test_a_profile_in_a_file_is_named_or_read(target, build, heapgauge, clean_env, scratch):
    folder = pathlib.Path("/dev/shm") / f"heapgauge-core-{os.getpid()}"
    folder.mkdir()
    try:
        run = Alone(target("reach_truth"), clean_env, scratch, build / "libheapgauge.so", HEAPGAUGE_CORE="1", HEAPGAUGE_DIR=str(folder))
        core = gcore(run.pid, scratch)
        done = heapgauge_run(heapgauge, clean_env, "report", core)
        assert done.returncode != 0 and str(next(folder.iterdir())) in done.stderr and "coredump_filter" in done.stderr
        pathlib.Path(f"/proc/{run.pid}/coredump_filter").write_text("0x3b")
        core = gcore(run.pid, scratch, "whole")
        assert run.end() == 0
        assert image_of(heapgauge, clean_env, core)[0].returncode == 0
    finally:
        shutil.rmtree(folder)


FORKED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *volatile kept;
int main()
{
	int pair[2];
	char byte;
	kept = malloc(12345);
	if (pipe(pair)) return 1;
	pid_t child = fork();
	if (child == 0) {
		close(pair[1]);
		while (read(pair[0], &byte, 1) > 0) {}
		_exit(0);
	}
	close(pair[0]);
	printf("%d\n", child);
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0) {}
	close(pair[1]);
	return waitpid(child, nullptr, 0) != child;
}
"""


def test_a_fork_without_a_profile_does_not_show_its_parents(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "forked", FORKED)], "--core")
    core = gcore(int(run.lines[0]), scratch)
    assert run.end() == 0
    done = heapgauge_run(heapgauge, clean_env, "report", core)
    assert done.returncode != 0 and "no profile of its own" in done.stderr


REBUILT = "#include <cstdio>\n#include <cstdlib>\n%s int main() { kept = malloc(4321); puts(\"ready\"); fflush(stdout); while (getchar() != EOF) {} }"


def test_a_program_that_was_built_again_names_no_variable(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "rebuilt", REBUILT % "void *volatile kept;")], "--core")
    core = gcore(run.pid, scratch)
    assert run.end() == 0

    def held_by():
        done, path = image_of(heapgauge, clean_env, core)
        assert done.returncode == 0, done.stderr
        return next(s["held_by"] for s in sites_of(heapgauge, path, clean_env) if s["live_bytes"] == 4321)

    assert held_by() == "kept (rebuilt)"
    compile_c(scratch, "rebuilt", REBUILT % "void *volatile other[8] = { (void *)1 }, *volatile kept;")
    assert held_by() == "rebuilt", "the variables of another program"


MAPPED = r"""
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
static void **map_file(int fd, int flags)
{
	if (ftruncate(fd, 4096)) abort();
	return (void **)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
}
__attribute__((noinline)) static void store(void **where, size_t bytes) { *where = malloc(bytes); }
__attribute__((noinline)) static void scrub() { volatile char old[32 << 10]; for (unsigned i = 0; i < sizeof old; i++) old[i] = 0; }
int main(int, char **argv)
{
	store(map_file(memfd_create("shared", 0), MAP_SHARED), 1111);
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	unlink(argv[1]);
	store(map_file(fd, MAP_PRIVATE), 2222);
	scrub();
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
}
"""


def test_shared_memory_is_not_searched(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "mapped", MAPPED), scratch / "file"], "--core")
    live, live_path = run.image("--stop")
    assert live.returncode == 0, live.stderr
    core = gcore(run.pid, scratch)
    assert run.end() == 0
    done, path = image_of(heapgauge, clean_env, core)
    assert done.returncode == 0, done.stderr
    for file, private in ((live_path, "global_blocks"), (path, "direct_blocks")):
        reach = {s["live_bytes"]: s["reach"] for s in sites_of(heapgauge, file, clean_env)}
        assert reach[1111]["direct_blocks"] == 1 and reach[2222][private] == 1, file


@pytest.fixture
def dumped(paused, target, scratch):
    run = paused([target("reach_truth")], "--core")
    core = gcore(run.pid, scratch)
    run.end()
    return core


def test_holes_of_a_copied_core_change_nothing(dumped, heapgauge, clean_env, scratch):
    subprocess.run(["cp", "--sparse=always", dumped, scratch / "sparse"], check=True, timeout=WAIT_SECONDS)
    subprocess.run(["cp", "--sparse=never", dumped, scratch / "dense"], check=True, timeout=WAIT_SECONDS)
    assert (scratch / "sparse").stat().st_blocks < (scratch / "dense").stat().st_blocks
    sites = []
    for name in ("sparse", "dense"):
        done, path = image_of(heapgauge, clean_env, scratch / name)
        assert done.returncode == 0, done.stderr
        sites.append(sites_of(heapgauge, path, clean_env))
    assert sites[0] == sites[1]


def number(whole, at, bytes_):
    return int.from_bytes(whole[at:at + bytes_], "little")


class Headers:
    """The program headers of a core file in which something is changed in place: it is large."""

    BYTES, OFFSET, ADDRESS, FILE_BYTES = 56, 8, 16, 32

    def __init__(self, path):
        self.path = path
        with path.open("rb") as core:
            head = core.read(64)
            self.at, self.count = number(head, 32, 8), number(head, 56, 2)
            core.seek(0)
            self.first = core.read(self.at + self.BYTES * self.count)
            self.begins = []
            for i in range(self.count):
                core.seek(self.get(i, self.OFFSET))
                self.begins.append(core.read(len(MAGIC)))

    def place(self, i, member):
        return self.at + self.BYTES * i + member

    def get(self, i, member):
        return number(self.first, self.place(i, member), 8)

    def loads(self):
        """Without the vsyscall page of the kernel, which is in the upper half."""
        kinds = [(i, number(self.first, self.place(i, 0), 4)) for i in range(self.count)]
        return [i for i, kind in kinds if kind == 1 and self.get(i, self.FILE_BYTES) and self.get(i, self.ADDRESS) < 1 << 57]

    def write(self, bytes_, at=0):
        with self.path.open("r+b") as core:
            core.seek(at)
            core.write(bytes_)


def test_a_core_that_is_cut_anywhere(dumped, heapgauge, clean_env):
    headers = Headers(dumped)
    cuts = [headers.get(i, headers.OFFSET) + headers.get(i, headers.FILE_BYTES) // 2 for i in headers.loads()]
    worked = 0
    for at in sorted({*cuts, 1000, 64, 63, 1, 0}, reverse=True):
        os.truncate(dumped, at)
        report = heapgauge_run(heapgauge, clean_env, "report", dumped, "--view", "leaks", "--format", "json", "--no-symbols")
        image, path = image_of(heapgauge, clean_env, dumped)
        for done in (report, image):
            assert done.returncode in (0, 1, 2), (at, done.returncode, done.stderr)
            assert done.returncode == 0 or done.stderr.startswith("heapgauge: "), done.stderr
        worked += report.returncode == 0
        assert report.returncode != 0 or "it was cut off" in image.stderr, image.stderr
        assert image.returncode != 0 and not path.exists(), "what is missing would look unreachable"
    assert worked >= 5


def test_a_missing_piece_is_reported(dumped, heapgauge, clean_env):
    """Only the headers tell what is in the file: one of the profile's pieces is declared empty. They follow its header."""
    headers = Headers(dumped)
    first = headers.begins.index(MAGIC)
    damaged = 0
    for i in range(first + 1, first + 8):
        one = bytearray(headers.first)
        one[headers.place(i, headers.FILE_BYTES):headers.place(i, headers.FILE_BYTES) + 8] = bytes(8)
        headers.write(one)
        done = heapgauge_run(heapgauge, clean_env, "report", dumped, "--view", "summary", "--no-symbols")
        assert done.returncode == 0, done.stderr
        damaged += "the profile is damaged" in done.stdout
        if "the profile is damaged" in done.stdout:
            image, path = image_of(heapgauge, clean_env, dumped)
            assert image.returncode != 0 and not path.exists(), "what is missing would look unreachable"
            assert heapgauge_run(heapgauge, clean_env, "check", dumped, "--max-peak", "1TiB").returncode == 2
    assert damaged >= 5


def core_note(kind, content):
    return struct.pack("<III", 5, len(content), kind) + b"CORE\0\0\0\0" + content + bytes(-len(content) % 4)


def test_long_names_take_no_memory(heapgauge, clean_env, scratch):
    """One file with a long name that every mapping is of: the text of all mappings would have gigabytes."""
    machine, segments = struct.unpack_from("<H", pathlib.Path(heapgauge).read_bytes(), 18)[0], 3000
    files = struct.pack("<QQQQQ", 1, PAGE, PAGE, 1 << 46, 0) + b"A" * 1_000_000 + b"\0"
    notes = core_note(1, bytes(512)) + core_note(3, bytes(136)) + core_note(0x46494C45, files)
    notes_at = 64 + 56 * (segments + 1)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, segments + 1, 0, 0, 0)
    parts = [struct.pack("<IIQQQQQQ", 4, 0, notes_at, 0, 0, len(notes), 0, 4)]
    parts += [struct.pack("<IIQQQQQQ", 1, 6, 0, (i + 16) * PAGE, 0, 0, PAGE, PAGE) for i in range(segments)]
    core = scratch / "core"
    core.write_bytes(head + b"".join(parts) + notes)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = subprocess.run([heapgauge, "report", core], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, preexec_fn=limit)
    assert done.returncode != 0 and "the program was not recorded" in done.stderr, done.stderr


def test_damaged_bytes_harm_only_the_answer(dumped, heapgauge, clean_env, scratch):
    headers = Headers(dumped)
    notes_at, notes_bytes = headers.get(0, headers.OFFSET), headers.get(0, headers.FILE_BYTES)
    with dumped.open("rb") as core:
        core.seek(notes_at)
        notes = core.read(notes_bytes)
    for seed in range(40):
        source = random.Random(seed)
        for at, whole, first in ((0, headers.first, 20), (notes_at, notes, 0)):
            one = bytearray(whole)
            for _ in range(source.randrange(20)):
                one[source.randrange(first, len(one))] = source.choice([0, 255, 127, source.randrange(256)])
            headers.write(one, at)
        done = heapgauge_run(heapgauge, clean_env, "image", dumped, "-o", scratch / "damaged.hg")
        assert done.returncode in (0, 1, 2), f"seed {seed}: {done.returncode} {done.stderr}"

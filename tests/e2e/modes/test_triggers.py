# SPDX-License-Identifier: Apache-2.0
"""Conditions that take snapshots and write recordings: under a collector, in a process that records itself, exact and sampled."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c, wait_for
from running import collecting

MIB = 1 << 20

# Obeys: "g N", "h N" and "k N" take N MiB in blocks of 64 KiB, each from a stack of its own; "f" frees all; "t N" touches N MiB of a file
# again and again for two seconds.
OBEYS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static char *kept[100000];
static int count;
__attribute__((noinline)) static void grow(int n) { for (; n > 0; n--) { kept[count] = malloc(65536); memset(kept[count++], 1, 65536); } }
__attribute__((noinline)) static void hold(int n) { for (; n > 0; n--) { kept[count] = malloc(65536); memset(kept[count++], 1, 65536); } }
__attribute__((noinline)) static void keep(int n) { for (; n > 0; n--) { kept[count] = malloc(65536); memset(kept[count++], 1, 65536); } }
static void thrash(const char *path, size_t size)
{
	int fd = open(path, O_RDONLY);
	volatile char *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0), sum = 0;
	time_t end = time(NULL) + 3;
	while (time(NULL) < end)
		for (size_t i = 0; i < size; i += 4096) sum += at[i];
	munmap((void *)at, size);
	close(fd);
}
int main(int argc, char **argv)
{
	char line[64];
	static char in[64], out[64];
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	printf("%d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int n = atoi(line + 1);
		if (line[0] == 'g') grow(n * 16);
		if (line[0] == 'h') hold(n * 16);
		if (line[0] == 'k') keep(n * 16);
		if (line[0] == 't') thrash(argv[1], (size_t)n << 20);
		if (line[0] == 'f') while (count) free(kept[--count]);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""


class Watched:
    """A program that obeys, and who watches it; .path is the recording, .said what heapgauge said."""

    def __init__(self, program, collector, pid, path):
        self.program, self.collector, self.pid, self.path = program, collector, pid, path
        self.said = []
        self.ear = threading.Thread(target=lambda: self.said.extend(iter(collector.stderr.readline, "")))
        self.ear.start()

    def waits(self):
        """How often the collector has waited: about once a millisecond, where it gets a CPU."""
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", pathlib.Path(f"/proc/{self.collector.pid}/status").read_text(), re.M)[1])

    def do(self, words):
        before = self.waits()
        self.program.stdin.write(words + "\n")
        self.program.stdin.flush()
        assert self.program.stdout.readline() == "done\n"
        # A turn of who only copies, and another; on a busy machine both wait for a CPU.
        time.sleep(0.35 if self.collector is self.program else 1)
        wait_for(lambda: self.waits() > before + 50 or self.collector.poll() is not None, "the collector to get a CPU")

    def hears(self, text):
        return wait_for(lambda: next((line for line in self.said if text in line), None), text)

    def files(self):
        return sorted(file.name for file in self.path.parent.glob("*.hg"))


@pytest.fixture
def watch(heapgauge, build, scratch, clean_env):
    """watch(how, *options): runs it under a collector ("program"), or with one that takes it over ("pid"); "sampled": so."""

    @contextlib.contextmanager
    def run(how, *options, argv=(), words=()):
        program = [*argv, compile_c(scratch, "obeys", OBEYS), *words]
        path = scratch / "out" / "run.hg"
        path.parent.mkdir(exist_ok=True)
        record = [heapgauge, "record", "-o", path, *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with contextlib.ExitStack() as stack:
            if "pid" in how:
                env = preloaded(build, clean_env, HEAPGAUGE_MODE="sample" if "sampled" in how else "exact", HEAPGAUGE_INTERVAL="16KiB")
                obeys = stack.enter_context(subprocess.Popen(program, env=env, **pipes))
                pid = int(obeys.stdout.readline())
                collector = stack.enter_context(
                    subprocess.Popen([*record, "--pid", str(pid)], env=clean_env, stderr=subprocess.PIPE, text=True)
                )
                wait_for(lambda: collecting(collector.pid) or collector.poll() is not None, "the collector")
            else:
                mode = ["--mode", "sample", "--interval", "16KiB"] if "sampled" in how else []
                collector = obeys = stack.enter_context(
                    subprocess.Popen([*record, *mode, "--", *program], env=clean_env, stderr=subprocess.PIPE, **pipes)
                )
                pid = int(obeys.stdout.readline())
            watched = Watched(obeys, collector, pid, path)
            try:
                yield watched
            finally:
                if "pid" in how and collector.poll() is None:
                    collector.send_signal(signal.SIGINT)
                    collector.wait(WAIT_SECONDS)
                obeys.stdin.close()
                obeys.wait(WAIT_SECONDS)
                watched.ear.join(WAIT_SECONDS)
        assert (obeys.returncode, collector.returncode) == (0, 0), watched.said

    return run


def names_of(report_json, path):
    return [row["name"] for row in report_json(path, "snapshots")["snapshots"] if row["kind"] == "snapshot"]


EVERYWHERE = pytest.mark.parametrize("how", ["program", "pid", "program sampled", "pid sampled"])


@EVERYWHERE
def test_what_one_stack_holds_and_how_it_grows(how, watch, report_json):
    with watch(how, "--on", "site>50MiB", "--on", "growth>29MiB/10min", "--on", "live>2GiB") as run:
        run.do("g 32")
        run.do("h 16")
        run.do("h 16")  # the other one by as much, in two steps
        # A collector that gets no CPU scans later: the steps are such that what it has not seen in between changes nothing.
        run.do("g 8")
        run.do("g 32")  # 72: beyond 50, and grown by 32 or 40 since it was reported
        run.do("f")
        run.do("k 40")
        run.do("k 15")  # 55: beyond 50
        time.sleep(2)  # the last scan must come before its end
    names = names_of(report_json, run.path)
    assert names.count("site>50MiB") == 2, names
    assert names.count("growth>29MiB/10min") == 4, names
    assert "live>2GiB" not in names
    first = report_json(run.path, "sites", "--cost", "live", "--at", "snap:site>50MiB#1")["sites"][0]
    assert first["stack"][0]["function"] == "grow"
    told = [line for line in run.said if "is checked against estimates" in line]
    assert len(told) == ("sampled" in how)
    if told:
        assert told[0] == "heapgauge: live>2GiB is checked against estimates: one block per 16.0 KiB is recorded\n"


def test_slow_growth_is_none(watch, report_json):
    """Beyond the time that is named, what a stack held before no longer counts."""
    with watch("program", "--on", "growth>20MiB/1s") as run:
        for _ in range(4):
            run.do("g 8")
            time.sleep(1)
        assert run.said == []
        run.do("g 30")
    assert names_of(report_json, run.path) == ["growth>20MiB/1s"]


@EVERYWHERE
def test_a_recording_is_written_and_it_goes_on(how, watch, report_json):
    with watch(how, "--write-on", "live>49.5MiB", "--write-on", "site>89.5MiB") as run:
        run.do("g 30")
        run.do("h 19")
        run.do("h 1" if "sampled" not in how else "h 10")  # it goes on while it is written: what is left to do is little
        assert f"live>49.5MiB: wrote {run.path.parent}/run.1.hg\n" in run.hears("run.1.hg")
        run.do("g 59")
        run.do("g 1" if "sampled" not in how else "g 50")
        assert "site>89.5MiB: wrote" in run.hears("run.2.hg")
        run.do("f")
    assert run.files() == ["run.1.hg", "run.2.hg", "run.hg"]
    off = 0.6 if "sampled" in how else 0.03
    for name, grown, held in (("run.1.hg", 30, 20), ("run.2.hg", 90, 20)):
        path = run.path.parent / name
        process = report_json(path)["processes"][0]
        assert (process["pid"], process["end"]) == (run.pid, "running")
        sites = report_json(path, "leaks", "--limit", "2")["sites"]
        live = {site["stack"][0]["function"]: site["not_freed_bytes"] for site in sites}
        assert live == {"grow": pytest.approx(grown * MIB, rel=off), "hold": pytest.approx(held * MIB, rel=off)}
        assert sum(age["count"] for age in sites[0]["ages"]) == pytest.approx(sites[0]["not_freed_blocks"], rel=off)
        assert len(report_json(path, "timeline")["timeline"]) >= 3
    assert names_of(report_json, run.path) == ["live>49.5MiB", "site>89.5MiB"]
    assert names_of(report_json, run.path.parent / "run.2.hg")[0] == "live>49.5MiB"


@pytest.mark.parametrize("how", ["program", "pid"])
def test_so_many_and_no_file_is_replaced(how, watch, scratch):
    (scratch / "out").mkdir()
    (scratch / "out" / "run.1.hg").write_text("mine")
    with watch(how, "--write-on", "every=50ms", "--write-limit", "3") as run:
        run.do("g 1")
        assert "run.3.hg, the last one (--write-limit)" in run.hears("run.3.hg")
        run.do("g 1")
        time.sleep(0.3)
    assert run.files() == ["run.1.hg", "run.2.hg", "run.3.hg", "run.hg"]
    assert (scratch / "out" / "run.1.hg").read_text() == "mine"


@pytest.mark.parametrize("how", ["program", "pid"])
def test_what_cannot_be_written_is_said_also_in_quiet(how, watch, scratch):
    with watch(how, "-q", "--write-on", "signal=USR1") as run:
        (scratch / "out").rename(scratch / "away")
        run.collector.send_signal(signal.SIGUSR1)
        said = run.hears("no recording was written")
        (scratch / "away").rename(scratch / "out")
        assert re.search(r"^heapgauge: signal=USR1: no recording was written: cannot create \S+run\.1\.hg: there is no directory", said)
        run.collector.send_signal(signal.SIGUSR1)
        wait_for(lambda: (scratch / "out" / "run.1.hg").exists(), "the next one")
    assert run.files() == ["run.1.hg", "run.hg"] and len(run.said) == 1


@EVERYWHERE
def test_what_needs_no_stacks(how, watch, report_json):
    with watch(how, "--every", "100ms", "--on", "rss>50MiB", "--on", "rss>99%", "--on", "calls>300", "--on", "signal=USR2") as run:
        run.do("g 60")
        run.collector.send_signal(signal.SIGUSR2)
        time.sleep(0.3)
    names = names_of(report_json, run.path)
    assert names.count("every=100ms") >= 2 and names.count("rss>50MiB") == 1 and names.count("signal=USR2") == 1, names
    assert names.count("calls>300") >= 1 and "rss>99%" not in names


# A thread that uses 3 MiB of its stack, then 10 GiB of address space.
BESIDE = r"""
#include <alloca.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *volatile kept;
static void *deep(void *x)
{
	char *p = alloca(3 << 20);
	memset(p, 1, 3 << 20);
	kept = malloc(10);
	kept = p;
	usleep(2000000);
	return x;
}
int main(void)
{
	pthread_t thread;
	kept = malloc(100);
	usleep(300000);
	pthread_create(&thread, 0, deep, 0);
	pthread_join(thread, 0);
	kept = mmap(0, 10ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	usleep(300000);
	kept = malloc(9);
	return 0;
}
"""


def test_stacks_address_space_and_the_machine(heapgauge, clean_env, scratch, report_json):
    """The recorder's own reservation does not count; each condition becomes true once."""
    program = compile_c(scratch, "beside", BESIDE, "-pthread")
    conditions = ["stack>2MiB", "stack>8MiB", "vm>9GiB", "vm>30GiB", "system>0.5%", "system>100%"]
    argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", *(word for one in conditions for word in ("--on", one)), program]
    subprocess.run(argv, env=clean_env, check=True, timeout=WAIT_SECONDS)
    names = names_of(report_json, scratch / "run.hg")
    assert sorted(names) == ["stack>2MiB", "system>0.5%", "vm>9GiB"]
    assert names[-1] == "vm>9GiB"
    sheets = report_json(scratch / "run.hg", "memory")["memory"]
    largest = max(sheets, key=lambda sheet: sheet["stack_largest_bytes"])
    assert 3 * MIB < largest["stack_largest_bytes"] < 4 * MIB and largest["stack_largest_bytes"] <= largest["stack_bytes"]
    assert largest["stack_reserved_bytes"] > 2 * MIB
    assert max(after["vm_bytes"] - before["vm_bytes"] for before, after in zip(sheets, sheets[1:])) == 10 * 1024 * MIB
    total = int(re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    assert {sheet["system_bytes"] for sheet in sheets} == {total}
    assert all(0 < sheet["system_available_bytes"] < total and sheet["system_cached_bytes"] > 0 for sheet in sheets)
    assert all(sheet["system_swap_bytes"] >= 0 for sheet in sheets)
    main, deep = sorted(report_json(scratch / "run.hg", "threads")["threads"], key=lambda row: row["started_ns"])
    assert 3 * MIB < deep["stack_used_bytes"] <= deep["stack_most_bytes"] < 4 * MIB < deep["stack_reserved_bytes"]
    assert 0 < main["stack_used_bytes"] <= main["stack_most_bytes"] < MIB


# As glibc 2.42 maps stacks: their guards are no mappings of their own, so that the kernel merges them. Not by mmap(3), which is recorded.
# Above a gap there is memory that has no huge pages and no guard.
GUARDED = r"""
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { STACKS = 4, STACK = 4 << 20, USED = 3 << 19, HEAP = 6 << 20 };
static void *volatile kept[STACKS];
static char *map(char *at, size_t bytes, int access, int flags)
{
	return (char *)syscall(SYS_mmap, at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0L);
}
static void *deep(void *of)
{
	char *p = alloca(USED);
	memset(p, 1, USED);
	*(void *volatile *)of = malloc(10);
	*(void *volatile *)of = p;
	usleep(900000);
	return of;
}
int main(void)
{
	pthread_t threads[STACKS];
	pthread_attr_t attributes;
	char *at = map(0, 64 << 20, PROT_NONE, 0) + (8 << 20), *heap;
	pthread_attr_init(&attributes);
	for (int i = 0; i < STACKS; i++) {
		char *stack = map(at + i * STACK, STACK, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_STACK);
		if (madvise(stack, 4096, 102)) return 77; /* MADV_GUARD_INSTALL */
		pthread_attr_setstack(&attributes, stack, STACK);
		pthread_create(&threads[i], &attributes, deep, (void *)&kept[i]);
	}
	heap = map(at + (32 << 20), HEAP, PROT_READ | PROT_WRITE, MAP_FIXED);
	madvise(heap, HEAP, MADV_NOHUGEPAGE);
	memset(heap, 1, HEAP);
	for (int i = 0; i < STACKS; i++) pthread_join(threads[i], 0);
	return 0;
}
"""


def needs_guards_that_are_told():
    """PAGEMAP_SCAN tells guard regions since Linux 6.16."""
    release = tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    if release < (6, 16):
        pytest.skip(f"Linux {os.uname().release} does not tell guard regions: 6.16 does")


def test_stacks_with_guards_inside_of_their_mapping(heapgauge, clean_env, scratch, report_json):
    """Those of four threads are one mapping: each has its own size all the same."""
    needs_guards_that_are_told()
    program = compile_c(scratch, "guarded", GUARDED, "-pthread")
    conditions = ["stack>1MiB", "stack>3MiB"]
    argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", *(word for one in conditions for word in ("--on", one))]
    subprocess.run([*argv, "--pages-on", "end", program], env=clean_env, check=True, timeout=WAIT_SECONDS)
    assert names_of(report_json, scratch / "run.hg") == ["stack>1MiB"]
    reserved, used = 4 * MIB - 4096, 3 * MIB // 2
    sheets = report_json(scratch / "run.hg", "memory")["memory"]
    most = max(sheets, key=lambda sheet: sheet["stack_bytes"])
    assert used < most["stack_largest_bytes"] < used + MIB // 4
    assert 4 * used < most["stack_bytes"] < 4 * used + MIB
    assert 4 * reserved < most["stack_reserved_bytes"] < 4 * reserved + MIB
    threads = report_json(scratch / "run.hg", "threads")["threads"]
    stacks = [row for row in threads if row["stack_reserved_bytes"] == reserved]
    assert len(stacks) == 4
    assert all(used < row["stack_used_bytes"] <= row["stack_most_bytes"] < used + MIB // 4 for row in stacks)
    assert 4 * used < report_json(scratch / "run.hg", "pages")["pages"]["stack_bytes"] < 4 * used + MIB


# ---- control groups and pressure ----

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for control groups")


@pytest.fixture
def limited():
    """Words that put a command into a memory control group (version 1) of 96 MiB, and into one of version 2, if there is that."""
    made = []
    try:
        for place in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"):
            group = pathlib.Path(place) / f"heapgauge-triggers-{os.getpid()}"
            if pathlib.Path(place).is_dir():
                group.mkdir()
                made.append(group)
        (made[0] / "memory.limit_in_bytes").write_text(str(96 * MIB))
    except (OSError, IndexError) as reason:
        pytest.skip(f"cannot make control groups here: {reason}")
    enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in made)
    yield ["sh", "-c", enter + 'exec "$@"', "-"], made
    for group in made:
        wait_for(lambda group=group: not (group / "cgroup.procs").read_text(), "the group to be empty")
        group.rmdir()


@as_root
@pytest.mark.parametrize("how", ["program", "pid"])
def test_near_the_limit_of_a_control_group(how, watch, limited, report_json):
    enter, _ = limited
    with watch(how, "--write-on", "cgroup>70%", "--on", "rss>60%", argv=enter) as run:
        run.do("g 40")
        assert run.files() == []
        run.do("g 35")
        run.hears("run.1.hg")
    names = names_of(report_json, run.path)
    assert sorted(names) == ["cgroup>70%", "rss>60%"], names
    assert report_json(run.path.parent / "run.1.hg")["processes"][0]["not_freed_bytes"] > 60 * MIB


@as_root
@pytest.mark.parametrize("how", ["program", "pid"])
def test_pressure_of_a_control_group(how, watch, limited, report_json, scratch):
    """The kernel's own account: more of a file is read than the group has room for, again and again."""
    enter, groups = limited
    pressure = groups[-1] / "memory.pressure"
    if not pressure.exists():
        pytest.skip("this kernel keeps no account of the pressure in control groups")
    large = scratch / "large"
    with large.open("wb") as file:  # and out of the cache, where it would count as this test's
        file.write(b"x" * (128 * MIB))
        file.flush()
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with watch(how, "--write-on", "pressure>1%", "--on", "pressure-full>99%", argv=enter, words=[large]) as run:
        run.do("g 1")
        # On a busy machine the group may have had to wait for memory just to start the program.
        assert run.files() == [] or int(re.search(r"some .*total=(\d+)", pressure.read_text())[1]) > 10_000
        deadline = time.monotonic() + 20
        while float(re.search(r"some avg10=([\d.]+)", pressure.read_text())[1]) <= 1 and time.monotonic() < deadline:
            run.do("t 128")
        run.hears("run.1.hg")
    # The average may fall below 1 % and rise again.
    assert set(names_of(report_json, run.path)) == {"pressure>1%"}


@as_root
def test_a_kernel_without_pressure(heapgauge, scratch, clean_env):
    """/proc/pressure is not there, as in a container that hides it; and no control group tells."""
    (scratch / "empty").mkdir()
    hide = f'mount --bind {scratch}/empty /proc/pressure && umount -l /sys/fs/cgroup/unified 2>&-; exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide, "-", heapgauge, "record", "--on", "pressure>5%", "--", "true"],
        env=clean_env, cwd=scratch, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 125 and "pressure>5% cannot be checked here" in done.stderr, done.stderr


@as_root
def test_a_limit_that_is_not_there_is_said(heapgauge, scratch, clean_env):
    (scratch / "empty").mkdir()
    hide = f'mount --bind {scratch}/empty /sys/fs/cgroup && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide, "-", heapgauge, "record", "-o", "run.hg", "--on", "cgroup>90%", "--", "true"],
        env=clean_env, cwd=scratch, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0 and "cgroup>90% cannot become true here" in done.stderr, done.stderr


# ---- what does not go together ----


def test_options_that_a_running_process_cannot_take(heapgauge, clean_env, scratch):
    for words, message in (
        (["--children", "none"], "--children cannot be combined with --pid"),
        (["--ranks", "0"], "--ranks cannot be combined with --pid"),
        (["--depth", "5"], "HEAPGAUGE_DEPTH"),
        (["--budget", "64MiB"], "HEAPGAUGE_BUDGET"),
        (["--interval", "64KiB"], "--interval requires --mode sample"),
        (["--mode", "sample", "--stacks-from", "64"], "--stacks-from and --stacks-to require --mode exact"),
        (["--mode", "tags", "--stacks-to", "64"], "--stacks-from and --stacks-to require --mode exact"),
        (["--write-limit", "3"], "--write-limit requires --write-on"),
        (["--write-limit", "0", "--write-on", "live>1"], "--write-limit takes 1 to"),
        (["--write-on", "growth>5MiB"], "'growth>5MiB' is not a condition"),
    ):
        done = subprocess.run([heapgauge, "record", "--pid", "1", *words], env=clean_env, cwd=scratch, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr, done.stderr
    # What stands in the settings is meant for programs that are run.
    done = subprocess.run(
        [heapgauge, "record", "--pid", str(os.getpid())], env=clean_env | {"HEAPGAUGE_CHILDREN": "none"}, cwd=scratch, capture_output=True, text=True,
    )
    assert done.returncode == 125 and "is not recorded" in done.stderr

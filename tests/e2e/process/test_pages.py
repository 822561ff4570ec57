# SPDX-License-Identifier: Apache-2.0
"""Views pages and pins: numbers equal what a program laid out, the parts add up to the RSS, and forecasts come true."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from compiled import WAIT_SECONDS, wait_for
from reading import with_frames

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def smaps_rss(pid):
    return sum(
        int(line.split()[1]) * 1024
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines()
        if line.startswith("Rss:")
    )


def private_rss(pid):
    """Without files and the recorder's memory, which grow by themselves."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def stopped(pid):
    """Stopped, and seen to be: a signal takes a while to arrive."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "Tt", f"{pid} to stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Laid:
    """A recorded program that has laid out its blocks and waits."""

    def __init__(self, run, truth, pid):
        self.run, self.truth, self.pid = run, truth, pid

    def tell(self, word):
        self.run.stdin.write(word + "\n")
        self.run.stdin.flush()
        assert self.run.stdout.readline().strip() == "DONE"


@pytest.fixture
def lay_out(heapgauge, target, clean_env, scratch):
    @contextlib.contextmanager
    def run(layout, *options):
        argv = [heapgauge, "record", "-q", "-o", scratch / f"{layout}.hg", *options, "--", target("pages_truth"), layout]
        with subprocess.Popen(argv, env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
            truth = {}
            for line in started.stdout:
                if line.strip() == "READY":
                    break
                if line.startswith("TRUTH"):
                    said = dict(word.split("=") for word in line.split()[1:])
                    truth[said["site"]] = {name: int(value) for name, value in said.items() if name != "site"}
            children = pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
            yield Laid(started, truth, int(children[0]))
            with contextlib.suppress(BrokenPipeError):
                started.stdin.write("end\n")
                started.stdin.close()
            assert started.wait(WAIT_SECONDS) == 0

    return run


@pytest.fixture
def pages_of(heapgauge, clean_env):
    def run(pid, view="pages", *options):
        done = subprocess.run(
            [heapgauge, "report", "--pid", str(pid), "--view", view, "--format", "json", "--limit", "100000", *options],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
        assert done.returncode == 0, done.stderr
        return with_frames(json.loads(done.stdout))

    return run


def site_of(result, function):
    found = [s for s in result["sites"] if any(f["function"] == function for f in s["stack"])]
    assert len(found) == 1, function
    return found[0]


def parts_of(pages):
    names = "sites free unrecorded static stack shared file recorder changed".split()
    return sum(pages[f"{name}_bytes"] for name in names)


def expect_balance(result, rss):
    pages = result["pages"]
    assert parts_of(pages) == pages["rss_bytes"] == rss
    assert sum(s["resident_bytes"] for s in result["sites"]) == pages["sites_bytes"]
    assert sum(s["pinned_bytes"] for s in result["sites"]) == pages["waste_bytes"]


@pytest.mark.parametrize("layout", ["one-per-page", "fragmented", "mixed"])
def test_pages_are_those_that_the_program_laid_out(lay_out, pages_of, layout):
    with lay_out(layout) as laid:
        with stopped(laid.pid):
            result = pages_of(laid.pid)
            rss = smaps_rss(laid.pid)
        expect_balance(result, rss)
        for function, truth in laid.truth.items():
            site = site_of(result, function)
            assert site["pages_blocks"] == truth["blocks"]
            # A page at the edge may have a block of something else.
            assert abs(site["any_bytes"] // PAGE - truth["pages"]) <= 2
            assert abs(site["sole_bytes"] // PAGE - truth["sole"]) <= 2
            assert abs(site["pinned_bytes"] - truth["waste"]) <= 2 * PAGE
        assert result["pages"]["changed_blocks"] == result["pages"]["changed_bytes"] == 0


def test_untouched_zero_and_mapped_memory(lay_out, pages_of):
    with lay_out("large") as laid:
        with stopped(laid.pid):
            result = pages_of(laid.pid)
            rss = smaps_rss(laid.pid)
        expect_balance(result, rss)
        for function, truth in laid.truth.items():
            site = site_of(result, function)
            assert abs(site["untouched_bytes"] - truth["untouched"]) <= PAGE
            assert abs(site["zero_bytes"] - truth["zero"]) <= PAGE


def within(measured, forecast, percent=10):
    assert abs(measured - forecast) <= forecast * percent / 100, (measured, forecast)


def test_what_would_come_back_if_blocks_were_freed_comes_back(lay_out, pages_of):
    with lay_out("one-per-page") as laid:
        laid.tell("trim")
        forecast = site_of(pages_of(laid.pid, "pins"), "keep")["sole_bytes"]
        before = private_rss(laid.pid)
        laid.tell("free")
        laid.tell("trim")
        assert forecast > 30 * MIB
        within(before - private_rss(laid.pid), forecast)


def test_what_an_arena_would_save_it_saves(lay_out, pages_of):
    with lay_out("one-per-page") as laid:
        laid.tell("trim")
        forecast = site_of(pages_of(laid.pid, "pins"), "keep")["arena_bytes"]
        together = private_rss(laid.pid)
    with lay_out("apart") as laid:
        laid.tell("trim")
        within(together - private_rss(laid.pid), forecast)


def test_what_trim_would_return_it_returns(lay_out, pages_of):
    with lay_out("fragmented") as laid:
        forecast = pages_of(laid.pid, "pins")["pages"]["trim_bytes"]
        before = private_rss(laid.pid)
        laid.tell("trim")
        assert forecast > MIB
        within(before - private_rss(laid.pid), forecast)


def test_the_block_that_keeps_the_end_of_the_heap_is_named(lay_out, pages_of, heapgauge, clean_env):
    with lay_out("end-of-heap") as laid:
        text = subprocess.run(
            [heapgauge, "report", "--pid", str(laid.pid), "--view", "pins"], env=clean_env, capture_output=True, text=True, check=True
        ).stdout
        line = next(line for line in text.splitlines() if "end of heap" in line)
        assert "1 block of 2.0 KiB" in line and "keep (pages_truth.c" in line
        result = pages_of(laid.pid, "pins")
        held = result["pages"]["held_bytes"]
        assert (result["pages"]["holder_blocks"], result["pages"]["holder_bytes"]) == (1, 2000)
        assert result["pages"]["holder_site"] == site_of(result, "keep")["site"]
        within(held, laid.truth["keep"]["held"], 2)
        before = private_rss(laid.pid)
        laid.tell("free")
        within(before - private_rss(laid.pid), held)


def test_the_end_is_read_when_the_process_exits(lay_out, report_json, scratch):
    """What it freed last is not there any more; a process that is killed has its last reading before, if any."""
    with lay_out("fragmented", "--pages-on", "end") as laid:
        laid.tell("free")
    kept = report_json(scratch / "fragmented.hg", "pages", "--limit", "100000")
    assert kept["pages"]["at_exit"] and not [s for s in kept["sites"] if any(f["function"] == "keep" for f in s["stack"])]


def test_a_killed_process_has_its_last_reading(heapgauge, target, clean_env, scratch):
    argv = [heapgauge, "record", "-q", "-o", scratch / "killed.hg", "--pages-on", "end", "--", target("pages_truth"), "one-per-page"]
    with subprocess.Popen(argv, env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        while run.stdout.readline().strip() != "READY":
            assert run.poll() is None
        time.sleep(1)
        os.kill(int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0]), signal.SIGKILL)
        run.wait(WAIT_SECONDS)
    done = subprocess.run([heapgauge, "report", scratch / "killed.hg", "--view", "pages"], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "when it exited" not in done.stdout and "after its start" in done.stdout, done.stderr


def test_the_map_adds_up_and_has_every_block(lay_out, report_json, scratch):
    with lay_out("fragmented", "--pages-on", "end") as laid:
        blocks = sum(site["blocks"] for site in laid.truth.values())
    path = scratch / "fragmented.hg"
    result, pages = report_json(path, "map", "--limit", "100000"), report_json(path, "pages")["pages"]
    regions = result["regions"]
    assert sum(r["resident_bytes"] for r in regions) + result["left_out_bytes"] + result["changed_bytes"] == result["rss_bytes"] == pages["rss_bytes"]
    for kind, part in {"files": "file_bytes", "recorder": "recorder_bytes", "stack": "stack_bytes", "static": "static_bytes"}.items():
        assert sum(r["resident_bytes"] for r in regions if r["kind"] == kind) == pages[part], kind
    for region in regions:
        tiles, listed = region["tiles"], region["block_list"]
        if region["kind"] not in ("files", "recorder"):
            assert sum(tiles["resident_bytes"]) == region["resident_bytes"] and sum(tiles["used_bytes"]) == (region["used_bytes"] or 0)
        assert len(listed["offset"]) == region["blocks"] and listed["offset"] == sorted(listed["offset"])
    assert sum(r["used_bytes"] or 0 for r in regions) == pages["sites_bytes"] - pages["waste_bytes"]
    heap = max(regions, key=lambda r: r["blocks"])
    assert heap["kind"] == "heap" and blocks <= heap["blocks"] <= blocks + 10


def shown_as_text(heapgauge, path, env, view):
    done = subprocess.run([heapgauge, "report", path, "--view", view], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    return done.stdout


def test_pages_are_not_those_of_a_program_that_another_one_replaced(heapgauge, target, clean_env, scratch, report_json):
    """They are gone, and the successor has the same pid: sites and regions of both would be mixed up."""
    script = "import os, sys, time; kept = [bytearray(50000) for _ in range(100)]; time.sleep(1); os.execv(sys.argv[1], sys.argv[1:])"
    argv = [heapgauge, "record", "-q", "-o", scratch / "exec.hg", "--pages-on", "end", "--"]
    done = subprocess.run([*argv, "/usr/bin/python3", "-c", script, target("pages_truth"), "one-per-page"], input="end\n", env=clean_env, text=True,
                          stdout=subprocess.PIPE, timeout=WAIT_SECONDS, check=True)  # fmt: skip
    assert "READY" in done.stdout
    regions = report_json(scratch / "exec.hg", "map", "--limit", "100000")["regions"]
    assert len({region["start"] for region in regions}) == len(regions)
    result = report_json(scratch / "exec.hg", "pages", "--limit", "100000")
    expect_balance(result, result["pages"]["rss_bytes"])
    text = shown_as_text(heapgauge, scratch / "exec.hg", clean_env, "map")
    assert "  read  when it exited, " in text and "  2 processes  " in text


def test_reports_say_of_which_process_the_pages_are(heapgauge, target, clean_env, scratch, report_json):
    script = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
    argv = [heapgauge, "record", "-q", "-o", scratch / "two.hg", "--pages-on", "end", "--"]
    subprocess.run([*argv, "/usr/bin/python3", "-c", script, target("pages_truth"), "one-per-page"], input="end\n", env=clean_env, text=True,
                   stdout=subprocess.PIPE, timeout=WAIT_SECONDS, check=True)  # fmt: skip
    pid = report_json(scratch / "two.hg", "pages")["pages"]["pid"]
    for view in ("pages", "pins"):
        text = " ".join(shown_as_text(heapgauge, scratch / "two.hg", clean_env, view).split())
        assert f" process {pid} " in text and "which has the most memory of the 2 whose pages were read" in text
    assert "READ AT" in shown_as_text(heapgauge, scratch / "two.hg", clean_env, "map")


#: Blocks of many sizes, with their addresses and what the allocator says that they have.
USABLE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.malloc_usable_size.restype = ctypes.c_size_t
libc.malloc.argtypes = libc.malloc_usable_size.argtypes = [ctypes.c_size_t]
for size in [*range(1, 300, 7), *range(300, 5000, 311), 16384, 16385, 40000, 100000, 131072, 131073, 500000]:
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    print(block, libc.malloc_usable_size(block))
"""


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libmimalloc.so.2"])
def test_blocks_of_other_allocators_take_their_size_class(heapgauge, clean_env, scratch, report_json, library):
    if not any(pathlib.Path(folder, library).exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")):
        pytest.skip(f"no {library}")
    done = subprocess.run(
        [heapgauge, "record", "-q", "-o", scratch / "sizes.hg", "--pages-on", "end", "--", sys.executable, "-c", USABLE],
        env=clean_env | {"LD_PRELOAD": library}, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    truth = dict(map(int, line.split()) for line in done.stdout.splitlines())
    assert done.returncode == 0 and len(truth) > 60, done.stderr
    listed = {}
    for region in report_json(scratch / "sizes.hg", "map", "--limit", "100000")["regions"]:
        blocks = region["block_list"]
        assert len(blocks["offset"]) == len(blocks["bytes"])
        listed |= {region["start"] + offset: size for offset, size in zip(blocks["offset"], blocks["bytes"])}
    assert {address: listed.get(address) for address in truth} == truth


@pytest.mark.parametrize(("layout", "reason"), [("forked", "inherited"), ("paused", "not recorded")])
def test_nothing_is_forecast_where_blocks_are_not_known(lay_out, pages_of, report_json, heapgauge, clean_env, scratch, layout, reason):
    """The blocks of `fragmented` are live, and not known to the profile."""
    with lay_out(layout, "--pages-on", "end") as laid:
        pid = recorded_children(laid.run.pid)[-1]
        pages = pages_of(pid, "pins")["pages"]
    path = scratch / f"{layout}.hg"
    kept = report_json(path, "pins", "--process", str(pid))["pages"]
    for said in (pages, kept):
        assert said["unknown_blocks"] == reason and said["free_bytes"] > 10 * MIB
        assert [said[name] for name in ("trim_bytes", "held_bytes", "holder_blocks", "holder_bytes", "holder_site")] == [None] * 5
    text = subprocess.run([heapgauge, "report", path, "--view", "pins", "--process", str(pid)], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "not known" in text and "malloc_trim" not in text
    assert [f for f in report_json(path, "advice", "--process", str(pid))["findings"] if f["rule"] == "fragmented"] == []


def test_numbers_name_their_process_and_moment(lay_out, report_json, heapgauge, clean_env, scratch):
    with lay_out("forked", "--pages-on", "end"):
        pass
    path = scratch / "forked.hg"
    result, regions = report_json(path, "pages", "--limit", "100000"), report_json(path, "map", "--limit", "100000")["regions"]
    pages = result["pages"]
    shown = [site for site in result["sites"] if site["pid"] == pages["pid"]]
    assert 0 < len(shown) < len(result["sites"]) and sum(site["resident_bytes"] for site in shown) == pages["sites_bytes"]
    assert {r["at_ns"] for r in regions if r["pid"] == pages["pid"]} == {pages["at_ns"]} and len({r["at_ns"] for r in regions}) == 2
    for view in ("pages", "pins"):
        text = subprocess.run([heapgauge, "report", path, "--view", view], env=clean_env, capture_output=True, text=True, check=True).stdout
        line = next(line for line in text.splitlines() if line.startswith("  process "))
        assert line.split()[1] == str(pages["pid"]) and "of the 2 whose pages were read" in line
    text = subprocess.run([heapgauge, "report", path, "--view", "map"], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "READ AT" in text
    text = subprocess.run([heapgauge, "report", path, "--view", "map", "--process", str(pages["pid"])], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "after its start" in text


def test_a_reading_that_failed_is_said(lay_out, heapgauge, clean_env, scratch, target):
    argv = [heapgauge, "record", "-q", "-o", scratch / "sampled.hg", "--pages-on", "end", "--", target("pages_truth"), "sampled"]
    done = subprocess.run(argv, env=clean_env, input="end\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "the pages of process" in done.stderr and "--mode exact" in done.stderr, done.stderr


@pytest.mark.parametrize("mode", ["sample", "tags"])
def test_other_modes_are_refused_with_the_reason(lay_out, heapgauge, clean_env, mode):
    with lay_out("one-per-page", "--mode", mode) as laid:
        done = subprocess.run(
            [heapgauge, "report", "--pid", str(laid.pid), "--view", "pages"], env=clean_env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and "--mode exact" in done.stderr


def test_a_recording_without_pages_says_how_to_get_them(record, heapgauge, clean_env):
    done = subprocess.run(
        [heapgauge, "report", record(["true"]).path, "--view", "pages"], env=clean_env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "--pages-on end" in done.stderr


@pytest.mark.parametrize(("layout", "condition"), [("one-per-page", "end"), ("large", "peak"), ("large", "rss>64MiB")])
def test_a_recording_keeps_its_pages(lay_out, pages_of, report_json, scratch, layout, condition):
    with lay_out(layout, "--pages-on", condition) as laid:
        now = pages_of(laid.pid)
        if condition != "end":  # for which the program waits
            time.sleep(1)
    kept = report_json(scratch / f"{layout}.hg", "pages", "--limit", "100000")
    assert parts_of(kept["pages"]) == kept["pages"]["rss_bytes"]
    assert sum(s["resident_bytes"] for s in kept["sites"]) == kept["pages"]["sites_bytes"]
    assert kept["pages"]["at_exit"] == (condition == "end")
    if condition == "rss>64MiB":  # in the middle
        assert kept["pages"]["rss_bytes"] > 60 * MIB
        return
    function = "keep" if condition == "end" else "zeros"
    for name in ("sole_bytes", "pinned_bytes"):
        assert site_of(kept, function)[name] == site_of(now, function)[name]


@pytest.mark.parametrize("mode", ["sample", "tags"])
def test_other_modes_are_refused_before_the_program_runs(record, mode):
    done = record(["true"], "--mode", mode, "--pages-on", "end")
    assert done.returncode != 0 and "--mode exact" in done.stderr


def test_every_format_has_the_pages_of_a_recording(lay_out, heapgauge, clean_env, scratch):
    with lay_out("one-per-page", "--pages-on", "end"):
        pass
    assert "who keeps free pages -> heapgauge report" in shown_as_text(heapgauge, scratch / "one-per-page.hg", clean_env, "summary")
    for view in ("pages", "pins", "map"):
        for form in ("text", "markdown", "json", "csv"):
            done = subprocess.run(
                [heapgauge, "report", scratch / "one-per-page.hg", "--view", view, "--format", form],
                env=clean_env, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0 and ("heap" if view == "map" else "keep") in done.stdout, done.stderr


def test_advice_names_the_site_that_keeps_pages(lay_out, report_json, scratch):
    """With the saving that test_what_an_arena_would_save_it_saves measures."""
    with lay_out("one-per-page", "--pages-on", "end"):
        pass
    path = scratch / "one-per-page.hg"
    found = [f for f in report_json(path, "advice")["findings"] if f["rule"] == "fragmented"]
    assert [f["saving_resident_bytes"] for f in found] == [site_of(report_json(path, "pins"), "keep")["arena_bytes"]]
    with lay_out("apart", "--pages-on", "end"):
        pass
    assert [f for f in report_json(scratch / "apart.hg", "advice")["findings"] if f["rule"] == "fragmented"] == []


PYTHON = """
import sys
kept = {i: str(i) * 8 for i in range(200000)}
kept = {i: s for i, s in kept.items() if i % 7 == 0}
print("READY", flush=True)
sys.stdin.readline()
"""


def recorded_children(pid):
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *recorded_children(int(child))]
    return found


def expect_real(pid, pages_of):
    """While it is stopped; the kernel may take clean pages of files nevertheless."""
    with stopped(pid):
        for _ in range(10):
            before, result, rss = smaps_rss(pid), pages_of(pid), smaps_rss(pid)
            if before == rss:
                break
    try:
        expect_balance(result, rss)
        assert result["pages"]["changed_blocks"] == result["pages"]["changed_bytes"] == 0
    except AssertionError:
        os.kill(pid, signal.SIGKILL)  # its parent is waited for
        raise
    return result


def test_python_adds_up_to_its_rss(heapgauge, clean_env, scratch, pages_of):
    argv = [heapgauge, "record", "-q", "-o", scratch / "python.hg", "--", os.path.realpath(sys.executable), "-c", PYTHON]
    with subprocess.Popen(argv, env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().strip() == "READY"
        expect_real(recorded_children(run.pid)[0], pages_of)
        run.stdin.close()


def test_redis_adds_up_to_its_rss(heapgauge, clean_env, scratch, pages_of):
    """With jemalloc, and two thirds of its keys deleted."""
    socket = scratch / "redis.sock"
    argv = [heapgauge, "record", "-q", "-o", scratch / "redis.hg", "--", "redis-server", "--port", "0", "--unixsocket", socket, "--save", ""]
    with subprocess.Popen(argv, env=clean_env, cwd=scratch, stdout=subprocess.DEVNULL) as run:
        wait_for(lambda: socket.exists() or run.poll() is not None, "redis-server to listen")
        assert run.poll() is None, "redis-server is not installed, or ended"

        def ask(*words):
            subprocess.run(["redis-cli", "-s", socket, *words], check=True, capture_output=True, timeout=WAIT_SECONDS)

        ask("EVAL", "for i=1,100000 do redis.call('SET', 'key'..i, string.rep('x', i % 300)) end", "0")
        ask("EVAL", "for i=1,100000 do if i % 3 > 0 then redis.call('DEL', 'key'..i) end end", "0")
        result = expect_real(recorded_children(run.pid)[0], pages_of)
        assert result["pages"]["sites_bytes"] > 10 * MIB
        ask("SHUTDOWN", "NOSAVE")


def test_clang_adds_up_to_its_rss(heapgauge, clean_env, scratch, pages_of):
    """While it compiles: many mappings, and an allocator of its own."""
    if not shutil.which("clang"):
        pytest.skip("clang is not installed")
    source = scratch / "large.cc"
    source.write_text("#include <regex>\n#include <map>\n#include <iostream>\n" + "".join(f"std::map<int, int[{i + 1}]> m{i};\n" for i in range(400)))
    argv = [heapgauge, "record", "-q", "-o", scratch / "clang.hg", "--", "clang", "-O2", "-c", source, "-o", scratch / "large.o"]
    with subprocess.Popen(argv, env=clean_env) as run:
        def large():
            return [pid for pid in recorded_children(run.pid) if private_rss(pid) > 30 * MIB]

        wait_for(large, "clang to grow")
        result = expect_real(large()[0], pages_of)
        assert result["pages"]["sites_bytes"] > 10 * MIB


def test_postgres_adds_up_to_its_rss(heapgauge, clean_env, scratch, pages_of):
    """A backend: a child of fork, whose inherited memory it did not allocate itself."""
    if not shutil.which("initdb") or os.geteuid() != 0:
        pytest.skip("postgresql is not installed, or this is not root, who may become its user")
    data, user = scratch / "data", "postgres"
    for folder in (scratch, *scratch.parents):
        if folder.owner() == "root" and folder != pathlib.Path("/") and folder != pathlib.Path("/tmp"):
            folder.chmod(0o755)
    data.mkdir()
    shutil.chown(data, user)
    subprocess.run(["initdb", "-D", data, "-A", "trust"], user=user, check=True, capture_output=True, cwd="/")
    argv = [heapgauge, "record", "-q", "-o", scratch / "pg.hg", "--", "setpriv", f"--reuid={user}", "--clear-groups", shutil.which("postgres")]
    argv += ["-D", data, "-k", data, "-c", "listen_addresses="]
    with subprocess.Popen(argv, env=clean_env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") as run:
        wait_for((data / ".s.PGSQL.5432").exists, "postgres to listen")
        query = ["psql", "-h", data, "-U", user, "-d", user, "-c", "create temp table t as select i, repeat('x', 100) from generate_series(1, 200000) i", "-c", "select pg_sleep(600)"]
        with subprocess.Popen(query, stdout=subprocess.DEVNULL) as client:
            def sleeping():
                return [pid for pid in recorded_children(run.pid) if b"SELECT" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

            try:
                wait_for(sleeping, "the query to sleep")
                for pid in (sleeping()[0], recorded_children(run.pid)[0]):
                    expect_real(pid, pages_of)
            finally:
                for pid in sleeping():  # the server waits for it, and it not for psql
                    os.kill(pid, signal.SIGTERM)
                client.terminate()
                run.terminate()


def test_a_condition_that_never_held_is_not_advised_again(record, heapgauge, clean_env, target):
    run = record([target("does_nothing")], "--pages-on", "live>500MiB")
    done = subprocess.run([heapgauge, "report", run.path, "--view", "pages"], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "although --pages-on was given: its condition did not hold" in done.stderr
    assert "record with --pages-on" not in done.stderr

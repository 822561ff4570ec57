# SPDX-License-Identifier: Apache-2.0
"""N21: where the sampling interval changed, the recorder has several sites of one stack; every view has one row of it, with their sum."""

import json
import math
import pathlib
import re
import subprocess

import pytest

from alone import preloaded
from compiled import compile_c, wait_for
from reading import with_frames
from test_attach import attach, mode_of  # noqa: F401 (fixtures)
from test_modes import talking

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"

# Takes blocks of two sizes from two places, frees every fourth of them, and counts. The words: 's' a step, 'e' exact, 't' as told,
# 'n' a snapshot, 'r' the rows of hg_sites.
PROGRAM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { STEP = 4000, SMALL = 100, LARGE = 700 };
static void *block[STEP];
static unsigned long calls, freed;
__attribute__((noinline)) static void *small(void) { void *p = malloc(SMALL); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static void *large(void) { void *p = malloc(LARGE); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static void settle(void) { for (int i = 0; i < 2; i++) { void *volatile p = malloc(2 << 20); free(p); } }
static void step(void)
{
	settle();
	for (int i = 0; i < STEP; i++) {
		block[i] = small();
		calls++;
		if (i % 4 == 0) { free(block[i]); freed++; }
		block[i] = large();
		if (i % 4 == 0) free(block[i]);
	}
}
static void *thread(void *unused) { step(); return unused; }
static void put_rows(void)
{
	static struct hg_site_stats row[100];
	size_t rows = hg_sites(row, 100, HG_BY_CALLS);
	for (size_t i = 0; i < rows; i++)
		fprintf(stderr, "ROW %p %p %u %lu %lu\n", row[i].frame[0], row[i].frame[1], row[i].tag,
			(unsigned long)row[i].heap.calls, (unsigned long)row[i].heap.live_blocks);
}
int main(void)
{
	static char in[64], out[128];
	pthread_t other;
	int word;
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	while ((word = getchar()) != EOF) {
		if (word == 's') step();
		if (word == 'e') hg_mode(HG_EXACT);
		if (word == 't') hg_mode(HG_DEFAULT_MODE);
		if (word == 'n') hg_snapshot("now");
		if (word == 'r') put_rows();
		if (word == '2') { pthread_create(&other, NULL, thread, NULL); pthread_join(other, NULL); }
		printf("%d\n", getpid());
		fflush(stdout);
	}
	fprintf(stderr, "TRUTH %lu %lu\n", calls, freed);
	return 0;
}
"""
STEP, SIZES = 4000, {"small": 100, "large": 700}


@pytest.fixture
def program(scratch):
    return compile_c(scratch, "steps", PROGRAM, "-O0", "-pthread", f"-I{INCLUDE}")


def own(sites, name, root="main"):
    """The rows of a function, called by main or by the thread."""
    of = [site for site in sites if site["stack"][0]["function"] == name]
    return [site for site in of if any(frame["function"] == root for frame in site["stack"])]


def holds(row, name, truth):
    """Five standard errors: once in two million by chance."""
    value, error = row[name], row.get(name + "_error", 0)
    assert 0 < error < truth / 3, (name, row)
    return abs(value - truth) <= 5 * error


def check_row(row, name, steps):
    calls, size = steps * STEP, SIZES[name]
    assert holds(row, "calls", calls) and holds(row, "total_bytes", calls * size)
    assert holds(row, "not_freed_blocks", calls * 3 // 4) and holds(row, "not_freed_bytes", calls * size * 3 // 4)
    assert holds(row, "frees", calls // 4)
    assert row["calls"] - row["frees"] == row["not_freed_blocks"]
    (bar,) = row["sizes"]
    assert (bar["low_bytes"], bar["high_bytes"], bar["count"]) == (size, size, row["calls"])
    assert math.isclose(bar["count_error"], row["calls_error"], rel_tol=0.1)
    assert row["max_bytes"] >= row["not_freed_bytes"]


def variance(blocks, size, interval):
    """Of an estimate of so many blocks."""
    return blocks * (1 / (1 - math.exp(-size / interval)) - 1)


@pytest.fixture
def ask(heapgauge, clean_env):
    """ask(source)(view, ...): the JSON of a view, of a recording or of a process that runs."""

    def of(*source):
        def view(name, *options):
            argv = [heapgauge, "report", *source, "--view", name, "--format", "json", *options]
            done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return with_frames(json.loads(done.stdout))

        return view

    return of


def test_n21_one_row_for_blocks_recorded_exactly_and_sampled(program, record, ask, heapgauge, clean_env, scratch):
    """A third is sampled; a snapshot; a third is recorded exactly; another snapshot; and samples again."""
    (scratch / "words").write_text("snesnts")
    with (scratch / "words").open() as stdin:
        run = record([program], "--mode", "sample", "--interval", "2KiB", stdin=stdin)
    assert run.returncode == 0, run.stderr
    assert re.search(r"TRUTH (\d+) (\d+)", run.stderr).groups() == (str(3 * STEP), str(3 * STEP // 4))
    view = ask(run.path)
    answer = view("sites", "--cost", "calls")
    assert sum(site["calls"] for site in answer["sites"]) == answer["shown"]
    assert answer["warnings"] == {}, "no call is in the totals and in no site"
    for name, size in SIZES.items():
        (site,) = own(answer["sites"], name)
        check_row(site, name, 3)
        assert not site["max_exact"], "the parts had theirs at different times"
        # The exact third adds no error.
        assert math.isclose(site["calls_error"] ** 2, variance(2 * STEP, size, 2048), rel_tol=0.3)
        (leak,) = own(view("leaks")["sites"], name)
        assert (leak["site"], leak["not_freed_bytes"]) == (site["site"], site["not_freed_bytes"])
        assert sum(age["count"] for age in leak["ages"]) == site["not_freed_blocks"]
        (node,) = [node for node in view("tree", "--cost", "calls")["tree"] if node["function"] == name]
        assert (node["calls"], node["calls_error"]) == (site["calls"], site["calls_error"])
        (course,) = own(view("history")["sites"], name)
        assert course["site"] == site["site"]
        live = lambda *at: own(view("sites", "--cost", "live", *at)["sites"], name)  # noqa: E731, B023
        (first,), (second,) = live("--at", "snap:now#1"), live("--at", "snap:now#2")
        (between,) = live("--at", "snap:now#2", "--minus", "snap:now#1")
        assert holds(first, "live_bytes", STEP * 3 // 4 * size) and holds(second, "live_bytes", STEP * 3 // 2 * size)
        # What came in between was recorded to the byte: it adds to the number, and nothing to its error.
        assert between["live_bytes"] == second["live_bytes"] - first["live_bytes"] == STEP * 3 // 4 * size
        assert second["live_bytes_error"] == first["live_bytes_error"]
        assert math.isclose(first["live_bytes_error"] ** 2, variance(STEP * 3 / 4, size, 2048) * size**2, rel_tol=0.4)
    (process,) = view("summary")["processes"]
    assert (process["mode"], process["sampling_interval_bytes"]) == ("mixed", 2048)
    text = subprocess.run([heapgauge, "report", run.path, "--view", "sites"], env=clean_env, capture_output=True, text=True, check=True)
    for name in SIZES:
        assert len(re.findall(rf" {name} \(steps.c:\d+\)$", text.stdout, re.M)) == 1, text.stdout


def test_n21_one_row_where_the_interval_was_changed_from_outside(
    program, build, clean_env, ask, attach, mode_of, heapgauge  # noqa: F811
):
    """By `record --pid`, which leaves it as it was: two changes."""
    env = preloaded(build, clean_env, HEAPGAUGE_MODE="sample", HEAPGAUGE_INTERVAL="512")
    with talking(program, env) as say:
        say("s")
        with attach(say.pid, "--mode", "sample", "--interval", "4KiB") as recorder:
            wait_for(lambda: mode_of(say.pid) == "sample 4.0 KiB", "the new interval")
            say("s")
            subprocess.run([heapgauge, "snap", str(say.pid), "--name", "then"], check=True, env=clean_env)
            say("2")
        assert recorder.returncode == 0, recorder.err
        wait_for(lambda: mode_of(say.pid) == "sample 512 B", "the interval of before")
        say("s")
        running = ask("--pid", str(say.pid))("sites", "--cost", "calls")["sites"]
    view = ask(recorder.path)
    sites = view("sites", "--cost", "calls")["sites"]
    then = view("sites", "--cost", "live", "--at", "snap:then")["sites"]
    for name, size in SIZES.items():
        (row,) = own(running, name)
        assert holds(row, "calls", 3 * STEP)
        (of_thread,) = own(sites, name, "thread")
        check_row(of_thread, name, 1)
        assert of_thread["max_exact"], "it was recorded at one interval"
        (row,) = own(sites, name)
        check_row(row, name, 2)
        parts = [variance(STEP, size, interval) for interval in (512, 4096)]
        assert math.isclose(row["calls_error"] ** 2, sum(parts), rel_tol=0.6)
        (row,) = own(then, name)
        assert holds(row, "live_bytes", STEP * 3 // 2 * size)
        assert math.isclose(row["live_bytes_error"] ** 2, sum(parts) * 3 / 4 * size**2, rel_tol=0.6)
    (process,) = view("summary")["processes"]
    assert (process["mode"], process["sampling_interval_bytes"]) == ("sampled", 4096)


def test_n21_the_program_itself_reads_one_row(program, record):
    """hg_sites, after two sampling intervals of one stack."""
    (pathlib.Path(program).parent / "words").write_text("sestsr")
    with (pathlib.Path(program).parent / "words").open() as stdin:
        run = record([program], "--mode", "sample", "--interval", "2KiB", stdin=stdin)
    rows = re.findall(r"ROW (\S+) (\S+) (\d+) (\d+) (\d+)", run.stderr)
    stacks = [row[:3] for row in rows]
    assert len(stacks) == len(set(stacks)) >= len(SIZES), rows
    for size in SIZES.values():
        error = math.sqrt(variance(2 * STEP, size, 2048))
        assert [row for row in rows if abs(int(row[3]) - 3 * STEP) <= 5 * error and abs(int(row[4]) - 3 * STEP * 3 / 4) <= 5 * error], rows

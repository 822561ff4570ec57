# SPDX-License-Identifier: Apache-2.0
"""What was counted between two moments: --at A --minus B of calls, bytes, frees, temporary blocks and waste."""

import collections
import os
import pathlib
import random
import signal
import subprocess

import pytest

from compiled import compile_c, wait_for

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"
COUNTED = ("calls", "total_bytes", "frees", "freed_bytes", "temporary_calls", "internal_fragmentation_bytes")
NO_TEMPORARY = [key for key in COUNTED if key != "temporary_calls"]

# Random operations of eight sites. After each round it takes a snapshot and prints what every site has counted so far, which it knows itself.
ROUNDS = 30
KNOWS = """
#include <heapgauge/heapgauge.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { SITES = 8, SLOTS = 512, ROUNDS = 30 };
static struct { unsigned long calls, bytes, frees, freed, temporary, waste; } known[SITES];
static struct { void *p; size_t n; int site; } held[SLOTS];
static int last = -1; /* the slot of the newest block */
static uint64_t state = 1;
static unsigned next(unsigned n) { state = state * 6364136223846793005u + 1442695040888963407u; return (unsigned)(state >> 33) % n; }
#define SITE(i) __attribute__((noinline)) static void *site##i(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
static void *(*const site[SITES])(size_t) = { site0, site1, site2, site3, site4, site5, site6, site7 };
static void step(unsigned of) {
    unsigned i = next(SLOTS), s = next(of);
    if (held[i].p) {
        known[held[i].site].frees++;
        known[held[i].site].freed += held[i].n;
        known[held[i].site].temporary += (int)i == last;
        free(held[i].p);
        held[i].p = NULL;
        if ((int)i == last)
            last = -1;
        return;
    }
    held[i].n = s < 3 ? SIZE / 32 * s : next(SIZE) + SIZE / 32;
    held[i].site = (int)s;
    held[i].p = site[s](held[i].n);
    last = (int)i;
    known[s].calls++;
    known[s].bytes += held[i].n;
    known[s].waste += malloc_usable_size(held[i].p) - held[i].n;
}
static void *work(void *round) {
    for (int i = 0; i < STEPS; i++) {
        step((unsigned)(2 + (long)round % 7));
        if (last >= 0 && next(3) == 0) { /* frees the newest: temporary */
            unsigned i = (unsigned)last;
            known[held[i].site].frees++; known[held[i].site].freed += held[i].n; known[held[i].site].temporary++;
            free(held[i].p);
            held[i].p = NULL;
            last = -1;
        }
    }
    return NULL;
}
int main(int argc, char **argv) {
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    for (long round = 0; round < ROUNDS; round++) {
        if (argc > 1) { /* each round in a thread of its own */
            pthread_t thread;
            pthread_create(&thread, NULL, work, (void *)round);
            pthread_join(thread, NULL);
        } else {
            work((void *)round);
        }
        char name[32];
        snprintf(name, sizeof name, "r%ld", round);
        hg_snapshot(name);
        for (int s = 0; s < SITES; s++)
            printf("%ld site%d %lu %lu %lu %lu %lu %lu\\n", round, s, known[s].calls, known[s].bytes, known[s].frees, known[s].freed,
                   known[s].temporary, known[s].waste);
    }
    fflush(stdout);
    if (getenv("WAIT"))
        pause();
}
"""


def knowing(scratch, size=500, steps=2000):
    return compile_c(scratch, "knows", KNOWS, f"-I{INCLUDE}", "-pthread", f"-DSIZE={size}", f"-DSTEPS={steps}")


def told(text):
    """By round, by site: the counters so far."""
    rounds = collections.defaultdict(dict)
    for line in text.splitlines():
        round_, site, *numbers = line.split()
        assert len(numbers) == len(COUNTED)
        rounds[int(round_)][site] = dict(zip(COUNTED, map(int, numbers)))
    return rounds


def between(rounds, to, since=None):
    """What the program itself counted in the window, of the sites where anything happened."""
    window = {}
    for site, numbers in rounds[to].items():
        before = rounds[since][site] if since is not None else dict.fromkeys(COUNTED, 0)
        numbers = {key: numbers[key] - before[key] for key in COUNTED}
        if any(numbers.values()):
            window[site] = numbers
    return window


def reported(report_json, path, *query, keys=COUNTED):
    sums = {}
    for site in report_json(path, "sites", *query)["sites"]:
        function = site["stack"][0]["function"]
        if function.startswith("site"):
            sums.setdefault(function, collections.Counter()).update({key: site[key] for key in keys})
    return {function: {key: sums[function][key] for key in keys} for function in sums}


def only(window, keys):
    return {site: {key: numbers[key] for key in keys} for site, numbers in window.items()}


@pytest.mark.parametrize("threads", [False, True])
def test_a_window_is_what_the_program_counted_itself(scratch, record, report_json, threads):
    """To the byte: windows of one round, of several, and from the start. The threads free blocks of each other."""
    run = record([knowing(scratch), *(["threads"] if threads else [])])
    assert run.returncode == 0, run.stderr
    rounds = told(run.stdout)
    assert len(rounds) == ROUNDS and sum(site["temporary_calls"] for site in rounds[ROUNDS - 1].values()) > 1000
    # A block that is freed by a thread that did not allocate it is not temporary, which the program does not tell apart.
    keys = NO_TEMPORARY if threads else COUNTED
    picks = random.Random(5)
    pairs = [(1, 0), (ROUNDS - 1, 0), (ROUNDS - 1, ROUNDS - 2)] + [sorted(picks.sample(range(ROUNDS), 2), reverse=True) for _ in range(6)]
    for to, since in pairs:
        query = "--at", f"snap:r{to}", "--minus", f"snap:r{since}"
        expected = only(between(rounds, to, since), keys)
        for cost in "calls", "live":
            assert reported(report_json, run.path, "--cost", cost, *query, keys=keys) == expected
        whole = report_json(run.path, "tree", "--cost", "total", *query)
        assert whole["moment"].startswith(f"from the snapshot 'r{since}', ")
        assert whole["shown"] >= sum(site["total_bytes"] for site in expected.values())
        functions = report_json(run.path, "functions", "--cost", "waste", *query)["functions"]
        waste = {row["function"]: row["self"] for row in functions if row["function"].startswith("site") and row["self"]}
        assert waste == {site: numbers["internal_fragmentation_bytes"] for site, numbers in expected.items() if numbers["internal_fragmentation_bytes"]}
    for to in 0, 7:
        assert reported(report_json, run.path, "--cost", "total", "--at", f"snap:r{to}", keys=keys) == only(between(rounds, to), keys)
    after = between(rounds, ROUNDS - 1, 3)
    assert reported(report_json, run.path, "--cost", "temporary", "--at", "end", "--minus", "snap:r3", keys=keys) == only(after, keys)


def test_a_rate_is_that_of_the_window(scratch, record, report_json):
    run = record([knowing(scratch)])
    times = {row["name"]: row["at_ns"] for row in report_json(run.path, "snapshots")["snapshots"] if row["name"]}
    query = "--at", "snap:r20", "--minus", "snap:r10"
    calls = report_json(run.path, "sites", "--cost", "calls", *query)["shown"]
    rate = report_json(run.path, "sites", "--cost", "rate", *query)["shown"]
    assert rate == pytest.approx(calls * 1e9 / (times["r20"] - times["r10"]), rel=1e-3, abs=1)


def test_without_a_collector_the_profile_has_it_too(scratch, heapgauge, report_json, clean_env):
    """Read from a process that records itself, whose snapshots are in its own memory."""
    recorder = pathlib.Path(heapgauge).with_name("libheapgauge.so")
    environment = {**clean_env, "LD_PRELOAD": str(recorder), "WAIT": "1"}
    program = subprocess.Popen([knowing(scratch)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        lines = [program.stdout.readline() for _ in range(ROUNDS * 8)]
        path = scratch / "alone.hg"
        subprocess.run([heapgauge, "record", "-q", "--pid", str(program.pid), "-o", path, "--duration", "10ms"], check=True)
    finally:
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    rounds = told("".join(lines))
    for to, since in (1, 0), (25, 7):
        assert reported(report_json, path, "--cost", "calls", "--at", f"snap:r{to}", "--minus", f"snap:r{since}") == between(rounds, to, since)


def test_a_recording_of_a_running_program_has_it_too(scratch, heapgauge, report_json, clean_env):
    """Written on a signal, of a copy of what the collector has."""
    argv = [heapgauge, "record", "-q", "-o", scratch / "run.hg", "--write-on", "signal=USR1", "--", knowing(scratch)]
    run = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**clean_env, "WAIT": "1"}, start_new_session=True)
    try:
        rounds = told("".join(run.stdout.readline() for _ in range(ROUNDS * 8)))
        run.send_signal(signal.SIGUSR1)
        wait_for(lambda: (scratch / "run.1.hg").exists(), "the recording")
        query = "--cost", "calls", "--at", "snap:r9", "--minus", "snap:r2"
        assert reported(report_json, scratch / "run.1.hg", *query) == between(rounds, 9, 2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_samples_estimate_a_window_with_their_error(scratch, record, report_json):
    """Within four standard errors, which are much smaller than the numbers, and smaller for a smaller window."""
    run = record([knowing(scratch, size=32000, steps=20000)], "--mode", "sample", "--interval", "64KiB")
    assert run.returncode == 0, run.stderr
    rounds = told(run.stdout)
    errors = []
    for to, since in (29, 0), (20, 10), (11, 10):
        query = "--at", f"snap:r{to}", "--minus", f"snap:r{since}"
        expected = between(rounds, to, since)
        for cost, key in ("calls", "calls"), ("total", "total_bytes"), ("temporary", "temporary_calls"):
            result = report_json(run.path, "sites", "--cost", cost, *query, "--focus", "^site[1-7]$")
            # Blocks of no bytes (site0) are hardly ever sampled.
            true, error = sum(expected[site][key] for site in expected if site != "site0"), result["shown_error"]
            assert abs(result["shown"] - true) < 4 * error, (to, since, cost)
            assert error < true / 4
            errors += [error] if cost == "total" else []
    assert errors[0] > errors[1] > errors[2] > 0


FORKS = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static void *site_child(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static void *site_parent(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main(void) {
    for (int i = 0; i < 10; i++) free(site_parent(100));
    hg_snapshot("before");
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 70; i++) free(site_child(10));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    usleep(20000);
    for (int i = 0; i < 3; i++) free(site_parent(100));
    hg_snapshot("after");
    for (int i = 0; i < 5; i++) free(site_parent(100));
}
"""


def test_a_child_that_began_and_ended_inside_counts(scratch, record, report_json):
    run = record([compile_c(scratch, "forks", FORKS, f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    counted = reported(report_json, run.path, "--cost", "calls", "--at", "snap:after", "--minus", "snap:before", keys=["calls", "frees"])
    assert counted == {"site_parent": {"calls": 3, "frees": 3}, "site_child": {"calls": 70, "frees": 70}}


def refusal(heapgauge, path, *query):
    done = subprocess.run([heapgauge, "report", path, *query], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr


def test_what_a_window_cannot_say_is_said(scratch, record, heapgauge, report_json):
    run = record([knowing(scratch)])
    for cost in "max", "lifetime", "realloc":
        assert f"{cost} is known for the whole run only" in refusal(heapgauge, run.path, "--cost", cost, "--at", "snap:r2", "--minus", "snap:r1")
    assert "not at the peak" in refusal(heapgauge, run.path, "--cost", "calls", "--at", "peak")
    assert "--at is earlier than --minus" in refusal(heapgauge, run.path, "--cost", "calls", "--at", "snap:r1", "--minus", "snap:r2")
    window = "--cost", "calls", "--at", "snap:r2", "--minus", "snap:r1"
    assert "kept per site, not per size" in refusal(heapgauge, run.path, "--by", "size", *window)
    assert "kept per site, not per thread" in refusal(heapgauge, run.path, "--by", "thread", *window)
    assert "of the whole run only" in refusal(heapgauge, run.path, "--view", "sizes", *window)
    for view in "lifetimes", "reallocs":
        assert f"the view {view} is of the whole run only" in refusal(heapgauge, run.path, "--view", view, *window)
    note = report_json(run.path, "sites", "--cost", "live", "--at", "end", "--minus", "peak")["note"]
    assert note.startswith("calls, totals and frees are of the whole run") and note.endswith("not at the peak")


def test_a_recording_without_counters_says_so(build, heapgauge, scratch, report_json):
    """As recordings of format 1.9 and older: live numbers are as ever; of calls it says why they are not of the window."""
    old = scratch / "old.hg"
    subprocess.run([build / "made" / "make_recording", old, "100", "10"], check=True)
    assert "snapshots of this recording have live bytes and blocks alone" in refusal(heapgauge, old, "--cost", "calls", "--at", "end", "--minus", "snap:1")
    result = report_json(old, "sites", "--cost", "live", "--at", "snap:5", "--minus", "snap:1")
    assert "have live bytes and blocks alone" in result["note"] and result["shown"] > 0


# A child ends without freeing 60 blocks; after that its parent allocates 10 more.
ENDS = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void keep(int count, size_t size) { for (int i = 0; i < count; i++) { void *p = malloc(size); __asm__ volatile("" : "+r"(p)); } }
int main(void) {
    keep(40, 2000);
    if (fork() == 0) { keep(60, 500); _exit(0); }
    wait(NULL);
    usleep(300000); /* until that is noticed */
    hg_snapshot("later");
    keep(10, 3000);
}
"""


def test_processes_that_ended_before_a_window_do_not_grow_in_it(scratch, record, report_json):
    """At the end they count with what they did not free, at both ends of the window."""
    run = record([compile_c(scratch, "ends", ENDS, f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    window = "--at", "end", "--minus", "snap:later"
    for cost, growth, whole in ("live", 30000, 140000), ("blocks", 10, 110):
        for sign, query in (1, window), (-1, ("--at", "snap:later", "--minus", "end")):
            result = report_json(run.path, "functions", "--by", "process", "--cost", cost, *query)
            assert result["shown"] == sign * growth and len(result["processes"]) == 1
        assert report_json(run.path, "functions", "--by", "process", "--cost", cost, "--at", "end")["shown"] == whole
    assert report_json(run.path, "sites", "--cost", "calls", *window)["shown"] == 10

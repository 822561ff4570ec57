# SPDX-License-Identifier: Apache-2.0
"""Recording that the program turns on and off, with and without stacks."""

import pathlib
import subprocess

import pytest

from compiled import compile_c, losses

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"

CONTROL = """
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void *kept[16];
__attribute__((noinline)) static void *seen(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static void *unseen(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
static void *other_thread(void *unused) {
    kept[8] = seen(5000); /* only the other thread is stopped */
    free(kept[8]);
    return unused;
}
static void run(enum hg_where where) {
    pthread_t thread;
    kept[0] = seen(100);
    kept[1] = seen(200);
    hg_stop(where);
    kept[2] = unseen(1000);
    kept[3] = unseen(2000);
    free(kept[0]);                   /* recorded before: ends now */
    kept[1] = realloc(kept[1], 300); /* the old block ends, the new one is not recorded */
    void *map = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (where == HG_THREAD) {
        pthread_create(&thread, 0, other_thread, 0);
        pthread_join(thread, 0);
    }
    hg_start(where);
    free(kept[2]);                     /* never recorded: counts nothing */
    kept[3] = realloc(kept[3], 4000);  /* a new block from here on */
    kept[4] = seen(400);
    free(kept[1]);
    munmap(map, 8192);
}
int main(int argc, char **argv) {
    run(strcmp(argv[1], "thread") == 0 ? HG_THREAD : HG_PROCESS);
    return 0;
}
"""


def by_function(sites):
    held = {}
    for site in sites:
        name = next((f["function"] for f in site["stack"] if f["function"] in ("seen", "unseen", "run")), "?")
        total = held.setdefault((site["kind"], name), [0, 0, 0, 0])
        for i, key in enumerate(("calls", "total_bytes", "frees", "freed_bytes")):
            total[i] += site[key]
    return held


@pytest.mark.parametrize("where", ["process", "thread"])
@pytest.mark.parametrize("allocator", ["glibc", "jemalloc"])
def test_what_is_allocated_while_stopped_counts_nowhere(where, allocator, scratch, record, report_json):
    program = compile_c(scratch, "control", CONTROL, "-pthread", f"-I{INCLUDE}")
    env = {"LD_PRELOAD": "libjemalloc.so.2"} if allocator == "jemalloc" else {}
    run = record([program, where], env=env)
    assert run.returncode == 0, run.stderr
    held = by_function(report_json(run.path, "sites", "--kind", "all", "--focus", "^run$")["sites"])
    expected = {
        ("heap", "seen"): [3, 700, 2, 300],
        ("heap", "run"): [1, 4000, 0, 0],
    }
    assert held == expected
    process = report_json(run.path)["processes"][0]
    assert losses(process) == {"turned_off": 1}
    if where == "thread":
        sites = report_json(run.path, "sites", "--focus", "other_thread")["sites"]
        assert [(site["calls"], site["total_bytes"], site["frees"]) for site in sites] == [(1, 5000, 1)]


MODES = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) static void *one(size_t n) { return kept = malloc(n); }
__attribute__((noinline)) static void *two(size_t n) { void *p = malloc(n); kept = p; return p; }
int main(void) {
    void *a, *b;
    { HG_SCOPE("exact"); a = one(10); b = two(20); }
    hg_mode(HG_TAGS);
    { HG_SCOPE("counted"); free(a); one(100); two(200); }
    one(400);
    hg_mode(HG_DORMANT);
    { HG_SCOPE("dormant"); one(1000); free(b); }
    hg_mode(HG_EXACT);
    { HG_SCOPE("again"); one(30); }
    hg_stacks(64, 4096);
    { HG_SCOPE("limited"); one(63); one(64); two(4096); two(4097); }
    hg_stacks(0, SIZE_MAX);
    { HG_SCOPE("whole"); one(1); }
    return 0;
}
"""


def test_modes_can_be_turned_by_the_program(scratch, record, report_json):
    run = record([compile_c(scratch, "modes", MODES, f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    rows = {}
    for site in report_json(run.path, "sites")["sites"]:
        key = (site["tag"], site["stack"][0]["function"])
        before = rows.get(key, (0, 0, 0))
        rows[key] = (before[0] + site["calls"], before[1] + site["total_bytes"], before[2] + site["frees"])
    no_stack = "[stack not recorded: mode or size limit]"
    assert rows == {
        ("exact", "one"): (1, 10, 1),
        ("exact", "two"): (1, 20, 1),
        ("counted", no_stack): (2, 300, 0),
        (None, no_stack): (1, 400, 0),
        ("again", "one"): (1, 30, 0),
        ("limited", "one"): (1, 64, 0),
        ("limited", "two"): (1, 4096, 0),
        ("limited", no_stack): (2, 63 + 4097, 0),
        ("whole", "one"): (1, 1, 0),
    }
    assert losses(report_json(run.path)["processes"][0]) == {"turned_off": 1}
    visits = {row["tag"]: row["visits"] for row in report_json(run.path, "tags")["tags"] if row["tag"]}
    assert visits == {"exact": 1, "counted": 1, "dormant": 1, "again": 1, "limited": 1, "whole": 1}


STARTS = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) static void take(size_t n) { kept = malloc(n); }
int main(void) {
    void *early = malloc(1000);
    take(10);
    hg_start(HG_PROCESS);
    take(20);
    free(early);
    hg_stop(HG_PROCESS);
    take(40);
    return 0;
}
"""


@pytest.mark.parametrize("options, variables", [(["--start", "dormant"], {}), (["--mode", "dormant"], {}), ([], {"HEAPGAUGE_MODE": "dormant"})],
                         ids=["start", "mode", "variable"])
def test_a_program_that_begins_dormant_starts_recording_itself(scratch, record, report_json, options, variables):
    program = compile_c(scratch, "starts", STARTS, f"-I{INCLUDE}")
    run = record([program], *options, env=variables)
    assert run.returncode == 0, run.stderr
    sites = report_json(run.path, "sites")["sites"]
    assert [(site["stack"][0]["function"], site["total_bytes"]) for site in sites] == [("take", 20)]
    assert losses(report_json(run.path)["processes"][0]) == {"turned_off": 1}


def test_the_mode_tags_from_the_command_line(target, record, report_json):
    """The same numbers by tag, and no stacks."""
    whole, plain = record([target("t_tags")]), record([target("t_tags")], "--mode", "tags")
    numbers = lambda run: {
        row["tag"]: [row[key] for key in ("visits", "self_calls", "self_total_bytes", "self_frees", "self_peak_bytes")]
        for row in report_json(run.path, "tags")["tags"]
        if row["tag"]
    }
    assert numbers(plain) == numbers(whole)
    assert [report_json(run.path)["processes"][0]["mode"] for run in (whole, plain)] == ["exact", "tags"]
    sites = report_json(plain.path, "sites", "--kind", "all")["sites"]
    assert {tuple(f["function"] for f in site["stack"]) for site in sites} == {("[stack not recorded: mode or size limit]",)}


def test_stacks_by_size_from_the_command_line(scratch, record, report_json):
    source = "#include <stdlib.h>\nvoid *volatile p;\nint main(void) { p = malloc(10); p = malloc(1000); p = malloc(9000); return 0; }\n"
    run = record([compile_c(scratch, "sizes", source)], "--stacks-from", "128", "--stacks-to", "4KiB")
    sites = report_json(run.path, "sites")["sites"]
    assert {(site["stack"][0]["function"], site["total_bytes"]) for site in sites} == {
        ("main", 1000),
        ("[stack not recorded: mode or size limit]", 9010),
    }

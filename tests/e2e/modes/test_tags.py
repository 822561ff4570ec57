# SPDX-License-Identifier: Apache-2.0
"""What a program says about its own memory by <heapgauge/heapgauge.h>: scopes, and how the recorder is found."""

import csv
import itertools
import json
import pathlib
import shutil
import subprocess

import pytest

from compiled import compile_c, losses

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"


def tags_of(report_json, path, *options):
    """{path of tags: row} of the view, without the rows that are no tag."""
    return {row["tag"]: row for row in report_json(path, "tags", *options)["tags"] if row["tag"]}


def numbers(row):
    return tuple(row[key] for key in ("visits", "self_calls", "self_total_bytes", "self_frees", "self_freed_bytes"))


def test_every_tag_has_what_was_allocated_in_it(target, record, report_json):
    run = record([target("t_tags")])
    truth = {}
    for line in run.stdout.splitlines():
        if line.startswith("TAG "):
            path, *rest = line[4:].split("|")
            truth[path] = tuple(map(int, rest))
    assert len(truth) > 15
    tags = tags_of(report_json, run.path)
    got = {path: numbers(row) for path, row in tags.items()}
    # What libc allocates for a thread is the caller's, and so is counted there.
    joiner = got.pop("joiner")
    assert joiner[0] == truth.pop("joiner")[0]
    assert got == truth
    whole = report_json(run.path)["processes"][0]
    assert sum(row["self_calls"] for row in report_json(run.path, "tags")["tags"]) == whole["calls"]
    assert not losses(whole)
    mapped = tags_of(report_json, run.path, "--kind", "mmap")
    assert mapped["mapping"]["self_total_bytes"] == 8192


def test_totals_of_a_tag_are_its_own_and_those_below(target, record, report_json):
    run = record([target("t_tags")])
    rows = report_json(run.path, "tags")["tags"]
    for at, row in enumerate(rows):
        below = itertools.takewhile(lambda other: other["depth"] > row["depth"], rows[at + 1 :])
        inside = [row, *below]
        for key in ("total_bytes", "calls", "frees", "freed_bytes", "peak_bytes", "not_freed_bytes"):
            assert row[key] == sum(other[f"self_{key}"] for other in inside), (row["tag"], key)
        if row["visits"]:
            assert row["bytes_per_visit"] == row["total_bytes"] // row["visits"]
    leaky = next(row for row in rows if row["tag"] == "leaky")
    assert (leaky["not_freed_bytes"], leaky["bytes_per_visit"]) == (1000, 1000)


def test_by_tag_and_filter_by_tag(target, record, report_json):
    run = record([target("t_tags")])
    by_tag = {row["tag"]: row for row in report_json(run.path, "functions", "--by", "tag", "--cost", "total")["tags"]}
    assert by_tag["server/parser"]["total_bytes"] == 3000
    assert by_tag["server"]["total_bytes"] == 10700
    sites = report_json(run.path, "sites", "--tag", "^server")["sites"]
    assert {site["tag"] for site in sites} == {"server", "server/parser"}
    assert sum(site["total_bytes"] for site in sites) == 13700
    only = report_json(run.path, "tags", "--tag", "^server/")["tags"]
    assert [(row["tag"], row["self_total_bytes"]) for row in only] == [("server", 0), ("server/parser", 3000)]
    with pytest.raises(AssertionError, match="nothing in the heap matches"):
        report_json(run.path, "sites", "--tag", "^$")


MAIN = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
void part(int bytes);
static void *volatile block;
int main(void) {
    for (int i = 0; i < 3; i++) {
        HG_SCOPE("main");
        block = malloc(10);
        free(block);
        part(20);
    }
    return 0;
}
"""
PART = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile block;
void part(int bytes) {
    HG_SCOPE("part");
    block = malloc(bytes);
    free(block);
}
"""
LINKERS = ["bfd", "gold", "lld", "mold"]
KINDS = {
    "PIE": ["-fPIE", "-pie"],
    "no-PIE": ["-fno-pie", "-no-pie"],
    "static library": ["-fPIE", "-pie"],
    "LTO": ["-flto", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linker", LINKERS)
def test_the_recorder_is_found_whatever_the_linker(linker, kind, scratch, record, report_json):
    if not shutil.which(f"ld.{linker}"):
        pytest.fail(f"ld.{linker} is not installed")
    flags = ["-O2", f"-I{INCLUDE}", *KINDS[kind]]
    if kind == "LTO" and linker == "lld":
        flags = ["-O2", f"-I{INCLUDE}", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]  # gcc's is not lld's
    for name, text in ("main", MAIN), ("part", PART):
        (scratch / f"{name}.c").write_text(text)
        compiling = [flag for flag in flags if not flag.startswith(("-pie", "-no-pie", "-Wl"))]
        subprocess.run(["gcc", *compiling, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=scratch, check=True)
    part = "part.o"
    if kind == "static library":
        subprocess.run(["ar", "rcs", "libpart.a", "part.o"], cwd=scratch, check=True)
        part = "libpart.a"
    subprocess.run(["gcc", *flags, f"-fuse-ld={linker}", "main.o", part, "-o", "program"], cwd=scratch, check=True)
    assert subprocess.run([scratch / "program"], check=False).returncode == 0
    run = record([scratch / "program"])
    assert run.returncode == 0, run.stderr
    tags = tags_of(report_json, run.path)
    assert {path: numbers(row) for path, row in tags.items()} == {
        "main": (3, 3, 30, 3, 30),
        "main/part": (3, 3, 60, 3, 60),
    }


def test_in_a_static_program_the_calls_do_nothing(scratch):
    (scratch / "part.c").write_text(PART)
    program = compile_c(scratch, "static", MAIN, "-static", f"-I{INCLUDE}", str(scratch / "part.c"))
    assert subprocess.run([program], check=False).returncode == 0


CXX = """
#include <heapgauge/heapgauge.h>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
static void *volatile kept[64];
static int used;
__attribute__((noinline)) static void take(size_t n) { kept[used++] = malloc(n); }
__attribute__((noinline)) static void thrower(int how) {
    heapgauge::scope outer{"outer"};
    take(1);
    try {
        HG_SCOPE("inner");
        take(2);
        if (how)
            throw how;
    } catch (int) {
        take(4);
    }
    take(8);
}
template <typename T> static void generic(T value) {
    HG_SCOPE("generic");
    take(sizeof value);
}
struct member { heapgauge::scope scope{"member"}; };
int main() {
    errno = 7;
    thrower(0);
    thrower(1);
    generic(char{});
    generic(0.0);
    {
        member *m = new member;
        take(16);
        delete m;
    }
    std::string name = "computed ";
    for (int i = 0; i < 4; i++) {
        HG_SCOPE_NAME((name + char('a' + i % 2)).c_str());
        take(32);
    }
    take(64);
    return errno == 7 ? 0 : 1;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_scopes_in_cxx(compiler, level, scratch, record, report_json):
    (scratch / "cxx.cc").write_text(CXX)
    subprocess.run(
        [compiler, level, "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "cxx.cc", "-o", "cxx"], cwd=scratch, check=True
    )
    run = record([scratch / "cxx"])
    assert run.returncode == 0, run.stderr
    sites = report_json(run.path, "sites", "--focus", "take")["sites"]
    held = {}
    for site in sites:
        held[site["tag"]] = held.get(site["tag"], 0) + site["total_bytes"]
    assert held == {
        "outer": 2 * 1 + 4 + 2 * 8,
        "outer/inner": 4,
        "generic": 9,
        "member": 16,
        "computed a": 64,
        "computed b": 64,
        None: 64,
    }
    tags = tags_of(report_json, run.path)
    assert [tags[path]["visits"] for path in ("outer", "outer/inner", "generic", "member")] == [2, 2, 2, 1]


FORK = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile keep;
int main(void) {
    HG_SCOPE("parent");
    keep = malloc(100);
    pid_t pid = fork();
    {
        HG_SCOPE("both");
        keep = malloc(pid ? 10 : 20);
    }
    keep = malloc(pid ? 1 : 2);
    if (pid == 0) {
        HG_SCOPE_NAME("parent");
        keep = malloc(4);
        _exit(0);
    }
    waitpid(pid, 0, 0);
    return 0;
}
"""


def test_a_forks_child_has_the_tags_of_its_parent(scratch, record, report_json):
    run = record([compile_c(scratch, "forks", FORK, f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    held = {}
    for site in report_json(run.path, "sites")["sites"]:
        key = (site["pid"], site["tag"])
        held[key] = held.get(key, 0) + site["total_bytes"]
    first, second = (p["pid"] for p in report_json(run.path)["processes"])
    assert held == {
        (first, "parent"): 101,
        (first, "parent/both"): 10,
        (second, "parent"): 6,
        (second, "parent/both"): 20,
    }


MANY = """
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { THREADS = 1000, TAGS = 10000, AT_ONCE = 50 };
static void *work(void *arg) {
    long n = (long)arg;
    char name[32];
    HG_SCOPE("worker");
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "job %ld", (n * 20 + i) % TAGS);
        HG_SCOPE_NAME(name);
        void *volatile block = malloc(10 + i);
        free(block);
    }
    return 0;
}
int main(void) {
    pthread_t threads[AT_ONCE];
    for (long n = 0; n < THREADS; n += AT_ONCE) {
        for (long i = 0; i < AT_ONCE; i++)
            pthread_create(&threads[i], 0, work, (void *)(n + i));
        for (long i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], 0);
    }
    return 0;
}
"""


def test_ten_thousand_tags_and_a_thousand_threads(scratch, record, report_json):
    run = record([compile_c(scratch, "many", MANY, "-pthread", f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    tags = tags_of(report_json, run.path)
    jobs = {path: row for path, row in tags.items() if path.startswith("worker/job ")}
    assert len(jobs) == 10000
    assert all(row["visits"] == 2 and row["self_calls"] == 2 for row in jobs.values())
    # Job n is of round n % 20 in both of its threads.
    assert all(row["self_total_bytes"] == 2 * (10 + int(path.split()[-1]) % 20) for path, row in jobs.items())
    assert tags["worker"]["visits"] == 1000
    assert tags["worker"]["calls"] == 20000 and tags["worker"]["frees"] == 20000
    assert not losses(report_json(run.path)["processes"][0])


def test_the_tree_of_tags_is_a_graph(target, record, report_json, heapgauge, scratch):
    run = record([target("t_tags")])
    path = scratch / "tags.dot"
    subprocess.run([heapgauge, "export", run.path, "--format", "dot-tags", "--cost", "total", "-o", path], check=True)
    if not shutil.which("dot"):
        pytest.fail("dot is not installed: apt install graphviz")
    plain = subprocess.run(["dot", "-Tplain", path], capture_output=True, text=True, check=True).stdout.splitlines()
    nodes = {line.split()[1] for line in plain if line.startswith("node ")}
    edges = [line.split()[1:3] for line in plain if line.startswith("edge ")]
    tags = report_json(run.path, "tags")["tags"]
    assert len(nodes) == len([row for row in tags if row["tag"]]) + 1
    assert len(edges) == len(nodes) - 1 and {child for _, child in edges} == nodes - {"t0"}
    text = path.read_text()
    assert "total_bytes 3000, self 3000, visits 100, total_bytes 3000" in text
    assert "total_bytes 13700, self 10700, visits 100" in text


def test_exports_of_sites_have_the_tag(target, record, heapgauge, scratch):
    run = record([target("t_tags")])
    path = scratch / "sites.jsonl"
    subprocess.run([heapgauge, "export", run.path, "--format", "jsonl", "-o", path], check=True)
    sites = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(site["total_bytes"] for site in sites if site["tag"] == "server/parser") == 3000
    table = scratch / "sites.csv"
    subprocess.run([heapgauge, "export", run.path, "--format", "csv", "-o", table], check=True)
    with table.open(newline="") as rows:
        by_tag = list(csv.DictReader(rows))
    assert sum(int(row["total_bytes"]) for row in by_tag if row["tag"] == "server/parser") == 3000


def test_a_comparison_by_tag(scratch, record, heapgauge):
    source = """
    #include <heapgauge/heapgauge.h>
    #include <stdlib.h>
    static void *volatile kept;
    __attribute__((noinline)) static void take(size_t n) { kept = malloc(n); }
    int main(int argc, char **argv) {
        { HG_SCOPE("a"); take(100); }
        { HG_SCOPE("b"); take(10 * argc); }
        return 0;
    }"""
    program = compile_c(scratch, "two", source, f"-I{INCLUDE}")
    before, after = record([program]), record([program, "more"])
    done = subprocess.run(
        [heapgauge, "diff", before.path, after.path, "--view", "functions", "--by", "tag", "--cost", "total", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {row["tag"]: row["total_bytes"] for row in json.loads(done.stdout)["tags"]} == {"b": 10}


LABELS = """
#include <heapgauge/heapgauge.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static void *volatile kept;
__attribute__((noinline)) static void take(size_t n) { kept = malloc(n); }
static hg_context carried;
static void *worker(void *unused) {
    take(1);
    hg_context before = hg_context_get();
    hg_context_set(carried);
    take(10);
    {
        HG_SCOPE("step");
        take(20);
    }
    take(40);
    hg_context_set(before);
    take(2);
    return unused;
}
static ucontext_t main_context, other;
static char stack[256 << 10];
static void coroutine(void) {
    HG_SCOPE("coroutine");
    take(1000);
    hg_context mine = hg_context_get();
    hg_context_set(carried);
    swapcontext(&other, &main_context);
    hg_context_set(mine);
    take(2000);
}
int main(void) {
    pthread_t thread;
    errno = 9;
    {
        HG_SCOPE("request");
        HG_LABEL("tenant", "acme");
        take(100);
        carried = hg_context_get();
        pthread_create(&thread, 0, worker, 0);
        pthread_join(thread, 0);
        hg_label("phase", "load");
        take(200);
        hg_label("tenant", "other one");
        take(400);
        hg_label("phase", NULL);
        take(800);
        getcontext(&other);
        other.uc_stack.ss_sp = stack;
        other.uc_stack.ss_size = sizeof stack;
        other.uc_link = &main_context;
        makecontext(&other, coroutine, 0);
        hg_context here = hg_context_get();
        swapcontext(&main_context, &other);
        hg_context_set(here);
        take(3000);
        swapcontext(&main_context, &other);
    }
    take(7);
    for (int i = 0; i < 2000; i++) {
        char number[16];
        sprintf(number, "%d", i);
        HG_LABEL("id", number);
        take(16);
    }
    return errno == 9 ? 0 : 1;
}
"""


def test_contexts_travel_and_labels_are_bounded(scratch, record, report_json):
    program = compile_c(scratch, "labels", LABELS, "-pthread", f"-I{INCLUDE}")
    assert subprocess.run([program], check=False).returncode == 0
    run = record([program])
    assert run.returncode == 0, run.stderr
    by = lambda axis: {
        row[axis]: row["total_bytes"]
        for row in report_json(run.path, "functions", "--by", axis, "--cost", "total", "--focus", "take")[f"{axis}s"]
    }
    tags = by("tag")
    ids = {tag: size for tag, size in tags.items() if tag.startswith("id=")}
    assert {tag: size for tag, size in tags.items() if tag not in ids} == {
        "(no tag)": 1 + 2 + 7,
        "request/tenant=acme": 100 + 10 + 40,
        "request/tenant=acme/step": 20,
        "request/tenant=acme/phase=load": 200,
        "request/tenant=other one/phase=load": 400,
        "request/tenant=other one": 800 + 3000,
        "request/tenant=other one/coroutine": 1000 + 2000,
    }
    assert len(ids) == 1025 and ids.pop("id=other") == 16 * (2000 - 1024) and set(ids.values()) == {16}
    labels = by("label")
    assert labels["tenant=acme"] == 170
    assert labels["phase=load tenant=acme"] == 200
    assert labels["tenant=other one"] == 6800
    assert labels["(no label)"] == 10
    lost = losses(report_json(run.path)["processes"][0])
    lost.pop("stacks_stopped", None)  # where makecontext's stack begins
    assert lost == {"other_labels": 2000 - 1024}
    only = lambda *options: sum(site["total_bytes"] for site in report_json(run.path, "sites", "--focus", "take", *options)["sites"])
    assert only("--label", "tenant=acme") == 370
    assert only("--label", "tenant=acme", "--label", "phase=load") == 200
    assert only("--label", "tenant=other one") == 400 + 6800
    with pytest.raises(AssertionError, match="nothing in the heap matches"):
        only("--label", "tenant=other")
    assert only("--label", "tenant") == 370 + 400 + 6800
    assert only("--label", "id=1.*", "--label", "id=.*7") == 16 * (1 + 10 + 2)  # 17, 1x7, 1007, 1017
    sites = report_json(run.path, "sites", "--label", "phase")["sites"]
    assert [site["labels"] for site in sites] == [
        {"phase": "load", "tenant": "other one"},
        {"phase": "load", "tenant": "acme"},
    ]
    visits = {row["tag"]: row["visits"] for row in report_json(run.path, "tags", "--label", "phase=load")["tags"]}
    assert visits["request/tenant=acme/phase=load"] == 1 and not any(tag.startswith("id=") for tag in visits if tag)
    kinds = {row["tag"]: row["kind"] for row in report_json(run.path, "tags")["tags"]}
    assert kinds["request"] == "scope" and kinds["request/tenant=acme"] == "label"


HIDING = """
#include <heapgauge/heapgauge.h>
#include <setjmp.h>
#include <stdlib.h>
static void *volatile kept;
static jmp_buf back;
__attribute__((noinline)) static void take(size_t n) { kept = malloc(n); }
__attribute__((noinline)) static void leaves(hg_context to) {
    HG_SCOPE("left");
    take(1000);
    hg_context_set(to);
    longjmp(back, 1);
}
__attribute__((noinline)) static void leaves_too(void) {
    HG_SCOPE("left too");
    hg_label("tenant", "gone with it");
    take(2000);
    longjmp(back, 1);
}
int main(void) {
    hg_context request;
    hg_label("tenant", "acme");
    {
        HG_SCOPE("request");
        request = hg_context_get();
        hg_label("tenant", NULL); /* set outside of the scope */
        take(1);
        hg_label("tenant", "beta");
        take(2);
        hg_label("tenant", "");
        hg_label("nothing", NULL);
        take(4);
    }
    take(8);
    hg_label("tenant", NULL);
    take(16);
    if (setjmp(back) == 0)
        leaves(request);
    take(32); /* what was given stays, though the scope is gone */
    hg_context_set((hg_context){ 0 });
    if (setjmp(back) == 0)
        leaves_too();
    take(64); /* nothing was given */
    return 0;
}
"""


def test_labels_are_hidden_and_contexts_survive_longjmp(scratch, record, report_json):
    run = record([compile_c(scratch, "hiding", HIDING, f"-I{INCLUDE}")])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "functions", "--by", "label", "--cost", "total", "--focus", "take")["labels"]
    assert {row["label"]: row["total_bytes"] for row in rows} == {
        "(no label)": 1 + 4 + 16 + 1000 + 64,
        "tenant=beta": 2,
        "tenant=acme": 8 + 32,
        "tenant=gone with it": 2000,
    }
    assert losses(report_json(run.path)["processes"][0]) == {}

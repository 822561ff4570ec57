# SPDX-License-Identifier: Apache-2.0
"""What malloc-tag, MallocProfiler and memtrail show of themselves by their examples, done by <heapgauge/heapgauge.h>: programs
of the same shape, whose numbers are known to the byte. With what they get wrong: blocks that another thread frees, realloc."""

import json
import subprocess

import pytest

from compiled import losses
from test_control import INCLUDE


@pytest.fixture
def built(scratch):
    """built(name, source): the program, in C++17."""

    def compile_cxx(name, source):
        (scratch / f"{name}.cc").write_text(source)
        flags = ["-std=c++17", "-g", "-O1", "-fno-inline", "-pthread", "-w", f"-I{INCLUDE}"]
        subprocess.run(["g++", *flags, f"{name}.cc", "-o", name], cwd=scratch, check=True)
        return scratch / name

    return compile_cxx


def tags_of(report_json, path, *options):
    """{tag: (visits, calls, bytes, frees, bytes freed, all of it inside)}."""
    keys = ("visits", "self_calls", "self_total_bytes", "self_frees", "self_freed_bytes", "total_bytes")
    return {row["tag"]: tuple(row[key] for key in keys) for row in report_json(path, "tags", *options)["tags"] if row["tag"]}


# ---- malloc-tag ----

# Its first example: Top calls A and B, A calls B; what each allocates itself, and by whom it was called.
SCOPES = """
#include <heapgauge/heapgauge.h>
#include <cstdlib>
static void *volatile kept;
void b() { heapgauge::scope in{"B"}; kept = ::operator new[](200); }
void a() { heapgauge::scope in{"A"}; kept = malloc(100); b(); }
void top() { heapgauge::scope in{"Top"}; a(); kept = malloc(5); b(); }
int main() { top(); return 0; }
"""


def test_scopes_within_scopes(built, record, report_json, heapgauge, clean_env):
    run = record([built("scopes", SCOPES)])
    assert run.returncode == 0, run.stderr
    assert tags_of(report_json, run.path) == {
        "Top": (1, 1, 5, 0, 0, 505),
        "Top/A": (1, 1, 100, 0, 0, 300),
        "Top/A/B": (1, 1, 200, 0, 0, 200),
        "Top/B": (1, 1, 200, 0, 0, 200),
    }
    graph = subprocess.run([heapgauge, "export", run.path, "--format", "dot-tags", "-o", "-"], env=clean_env, capture_output=True, text=True)
    assert graph.stdout.count("->") >= 3 and "digraph" in graph.stdout


# Its second one: threads of the same shape, each with numbers of its own; a shower of small blocks; a thread without scopes. And
# what its users cannot have: a block that another thread frees, in another scope, and one that realloc moves out of its scope.
THREADS = """
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
static void *volatile sink;
static void *passed_on[2], *grown[2];
static pthread_barrier_t all;
static void shower(long i) {
    HG_SCOPE("FuncB");
    enum { MOST = 2000 };
    void *node[MOST];
    for (int n = 0; n < 1000 + 1000 * i; n++) node[n] = malloc(80);
    for (int n = 0; n < 1000 + 1000 * i; n++) free(node[n]);
}
static void func_a(long i) { HG_SCOPE("FuncA"); sink = malloc(100 + i * 1024); shower(i); }
static void *example(void *number) {
    long i = (long)number;
    char name[16];
    snprintf(name, sizeof name, "Example/%ld", i);
    prctl(PR_SET_NAME, name);
    HG_SCOPE("ExampleThread");
    func_a(i);
    sink = malloc(5);
    shower(i);
    passed_on[i] = malloc(5000);
    grown[i] = malloc(300);
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all); /* threads that live at the same time have numbers of their own */
    return NULL;
}
static void *without(void *unused) {
    prctl(PR_SET_NAME, "Without");
    for (int n = 0; n < 100; n++) { sink = malloc(150); free(sink); }
    return NULL;
}
static void *taker(void *unused) {
    prctl(PR_SET_NAME, "Taker");
    HG_SCOPE("Taker");
    pthread_barrier_wait(&all);
    for (int i = 0; i < 2; i++) { free(passed_on[i]); grown[i] = realloc(grown[i], 700); }
    pthread_barrier_wait(&all);
    return NULL;
}
static void run(void *(*main)(void *), long number) {
    pthread_t thread;
    pthread_create(&thread, NULL, main, (void *)number);
    pthread_join(thread, NULL);
}
int main(void) {
    pthread_t thread[2];
    pthread_barrier_init(&all, NULL, 3);
    for (long i = 0; i < 2; i++) pthread_create(&thread[i], NULL, example, (void *)i);
    run(taker, 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    run(without, 0);
    return 0;
}
"""


def test_threads_and_blocks_that_cross_them(built, record, report_json):
    run = record([built("threads", THREADS)])
    assert run.returncode == 0, run.stderr
    shower = lambda calls, visits: (visits, calls, 80 * calls, calls, 80 * calls, 80 * calls)
    assert tags_of(report_json, run.path) == {
        # 5, 5000 and 300 in each of two threads; the last two ended elsewhere, and ended here
        "ExampleThread": (2, 6, 2 * 5305, 4, 2 * 5300, 2 * 5305 + 1224 + 2 * 80 * 3000),
        "ExampleThread/FuncA": (2, 2, 100 + 1124, 0, 0, 1224 + 80 * 3000),
        "ExampleThread/FuncA/FuncB": shower(3000, 2),
        "ExampleThread/FuncB": shower(3000, 2),
        "Taker": (1, 2, 1400, 0, 0, 1400),
    }
    second = tags_of(report_json, run.path, "--thread", "^Example/1$")
    assert second["ExampleThread/FuncA"][:3] == (1, 1, 1124) and second["ExampleThread/FuncB"] == shower(2000, 1)
    # Who frees is told apart from whose it was.
    freed = {row["name"]: row["freed_by_owner"] for row in report_json(run.path, "threads")["threads"]}
    assert sum(owner["bytes"] for owner in freed["Taker"].values()) == 2 * 5300
    sites = report_json(run.path, "sites", "--thread", "^Without$", "--tag", "^$")["sites"]
    assert (100, 15000, 100) in [(site["calls"], site["total_bytes"], site["frees"]) for site in sites]
    assert losses(report_json(run.path)["processes"][0]) == {}


# ---- MallocProfiler ----

# Its demonstration of instrumenting: off until one function is reached; there a table is filled, with or without room
# reserved, and its numbers are read before it goes: calls, bytes, live, most. The program counts for itself by an allocator.
INSTRUMENTED = """
#include <heapgauge/heapgauge.hpp>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
static std::size_t calls, bytes, live, most;
template <typename T> struct counting {
    using value_type = T;
    counting() = default;
    template <typename U> counting(const counting<U> &) {}
    T *allocate(std::size_t n) {
        calls++; bytes += n * sizeof(T); live += n * sizeof(T);
        if (live > most) most = live;
        return static_cast<T *>(malloc(n * sizeof(T)));
    }
    void deallocate(T *p, std::size_t n) { live -= n * sizeof(T); free(p); }
    friend bool operator==(counting, counting) { return true; }
    friend bool operator!=(counting, counting) { return false; }
};
struct value { double a; int b; };
using table = std::unordered_map<int, value, std::hash<int>, std::equal_to<int>, counting<std::pair<const int, value>>>;
static void *volatile before;
static void print(const char *name) {
    auto now = heapgauge::stats();
    struct hg_site_stats top[1] = {};
    std::size_t sites = hg_sites(top, 1, HG_BY_LIVE_BYTES);
    if (now)
        std::printf("\\"%s\\": {\\"truth\\": [%zu, %zu, %zu, %zu], \\"read\\": [%llu, %llu, %llu, %llu], \\"top\\": [%zu, %u, %llu]}",
                    name, calls, bytes, live, most, (unsigned long long)now->heap.calls, (unsigned long long)now->heap.bytes,
                    (unsigned long long)now->heap.live_bytes, (unsigned long long)now->peak_bytes, sites, top[0].frames,
                    (unsigned long long)top[0].heap.live_bytes);
}
static void instrumented(bool reserve) {
    hg_start(HG_PROCESS);
    table made;
    if (reserve) made.reserve(100000);
    for (int i = 0; i < 100000; i++) made[i * 10] = { i / 10., i };
    print("full");
    hg_stop(HG_PROCESS);
}
int main(int argc, char **) {
    static char out[4096];
    std::setvbuf(stdout, out, _IOFBF, sizeof out);
    before = malloc(12345); /* nobody looks yet */
    std::printf("{");
    instrumented(argc > 1);
    std::printf(", ");
    free(before);
    print("gone");
    std::printf("}\\n");
    return 0;
}
"""


@pytest.mark.parametrize("reserve", [[], ["reserve"]], ids=["grows", "reserved"])
def test_only_one_function_is_looked_at(reserve, built, record, report_json):
    program = built("instrumented", INSTRUMENTED)
    run = record([program, *reserve], "--start", "dormant")
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    for moment in said.values():
        assert moment["read"] == moment["truth"]
    assert said["full"]["truth"][2] > 3_000_000 and said["gone"]["truth"][2] == 0
    assert said["full"]["top"][0] == 1 and said["full"]["top"][1] > 2
    sites = report_json(run.path, "sites")["sites"]
    assert sum(site["calls"] for site in sites) == said["full"]["truth"][0]
    assert {site["not_freed_bytes"] for site in sites} == {0}
    assert all(any(f["function"].startswith("instrumented") for f in site["stack"]) for site in sites)
    growths = [site["calls"] for site in sites if site["calls"] != 100000]
    assert len(sites) == 2 and (growths == [1] if reserve else growths[0] > 10)
    assert losses(report_json(run.path)["processes"][0]) == {"turned_off": 1}


# Its tests, which are its examples: a vector that grows and one that does not, recursion deeper than anybody prints; one thread
# allocates and another deletes; eight that keep to themselves; hundreds that take one block each, freed by as many others.
SIMPLE = """
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
template <int room> __attribute__((noinline)) void fill(int size) {
    std::vector<int> v;
    if (room) v.reserve(size);
    for (int i = 0; i < size; i++) v.push_back(i);
    __asm__ volatile("" : : "r"(v.data()));
}
__attribute__((noinline)) void recursive(std::vector<int *> &v, int n) {
    if (n == 0) return;
    v.push_back(new int(4));
    recursive(v, n - 1);
    __asm__ volatile("");
}
enum { MANY = 300 };
static int *block[MANY];
__attribute__((noinline)) void takes(int i) { block[i] = new int[1000]; }
__attribute__((noinline)) void gives(int i) { delete[] block[i]; }
static void all(void (*what)(int)) {
    for (int i = 0; i < MANY; i += 50) {
        std::vector<std::thread> some;
        for (int n = i; n < i + 50; n++) some.emplace_back(what, n);
        for (auto &thread : some) thread.join();
    }
}
int main() {
    fill<0>(100);
    fill<1>(1000);
    std::vector<int *> v;
    recursive(v, 257);
    std::vector<std::thread> eight;
    for (int i = 0; i < 8; i++) eight.emplace_back(fill<0>, 1000);
    for (auto &thread : eight) thread.join();
    all(takes);
    all(gives);
    return 0;
}
"""


def test_vectors_recursion_and_blocks_of_other_threads(built, record, report_json):
    run = record([built("simple", SIMPLE)], "--depth", "1000")
    assert run.returncode == 0, run.stderr
    sites = report_json(run.path, "sites", "--names", "full")["sites"]

    def site(*functions, main=True):
        """All sites of the program's own code below these functions: (calls, bytes, frees, most that was live at once)."""
        mine = [
            s for s in sites
            if all(any(name in f["function"] for f in s["stack"]) for name in functions)
            and any(f["function"] == "main" for f in s["stack"]) == main
        ]  # fmt: skip
        return (*(sum(s[key] for s in mine) for key in ("calls", "total_bytes", "frees")), mine)

    calls, total, frees, found = site("fill<0>")
    assert (calls, total, frees) == (8, 4 * 255, 8), "1, 2, 4 and so on up to 128"
    assert [s["max_bytes"] for s in found] == [4 * (64 + 128)], "the old one and the new one while it is copied"
    assert site("fill<1>")[:3] == (1, 4000, 1)
    # 257 blocks at as many depths, none of them cut, and the vector that holds them.
    is_recursive = lambda f: f["function"].startswith("recursive(")
    deep = [s for s in sites if any(map(is_recursive, s["stack"]))]
    ints = [s for s in deep if s["total_bytes"] == 4]
    assert len(ints) == 257 and all(s["not_freed_bytes"] == 4 for s in ints)
    assert sorted(sum(map(is_recursive, s["stack"])) for s in ints) == list(range(1, 258))
    vector = [s for s in deep if s not in ints]
    assert (sum(s["calls"] for s in vector), sum(s["total_bytes"] for s in vector)) == (10, 8 * 1023)
    # Eight threads of the same stack.
    assert site("fill<0>", main=False)[:3] == (8 * 11, 8 * 4 * 2047, 8 * 11)
    calls, total, frees, found = site("takes(", main=False)
    assert (calls, total, frees) == (300, 300 * 4000, 300)
    assert {s["not_freed_bytes"] for s in found} == {0}
    assert losses(report_json(run.path)["processes"][0]) == {}


# ---- memtrail ----

# Its sample: every way to allocate, each time one block that is freed and one that leaks, and a snapshot after each; realloc and
# another thread's frees in addition. It prints what should leak.
SAMPLE = """
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static size_t leaked;
static void *volatile sink;
void by_malloc(void) { void *p = malloc(1024); sink = malloc(1024); leaked += 1024; free(p); free(NULL); }
void by_calloc(void) { void *p = calloc(2, 1024); sink = calloc(2, 1024); leaked += 2048; free(p); }
void by_realloc(void) {
    void *p = malloc(1024);
    p = realloc(p, 2048);
    sink = realloc(NULL, 512);
    leaked += 512 + 3000;
    sink = realloc(p, 3000);
}
void by_memalign(void) { void *p, *q; posix_memalign(&p, 16, 1024); posix_memalign(&q, 16, 1024); leaked += 1024; free(p); sink = q; }
void by_strings(void) { char *p = strdup("hello"), *q; sink = strndup("goodbye", 4); asprintf(&q, "%d", 12345); leaked += 5; free(p); free(q); }
void by_new(void) {
    char *p = new char, *q = new char[512];
    sink = new char; sink = new char[512];
    leaked += 513;
    delete p; delete[] q;
}
static void *frees(void *block) { free(block); return NULL; }
void by_another(void) {
    pthread_t thread;
    void *mine = malloc(777);
    pthread_create(&thread, NULL, frees, mine);
    pthread_join(thread, NULL);
    sink = malloc(99);
    leaked += 99;
}
int main(void) {
    static char out[256];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    hg_snapshot("begin");
    by_malloc(); hg_snapshot("malloc");
    by_calloc(); hg_snapshot("calloc");
    by_realloc(); hg_snapshot("realloc");
    by_memalign(); hg_snapshot("memalign");
    by_strings(); hg_snapshot("strings");
    by_new(); hg_snapshot("new");
    by_another(); hg_snapshot("another");
    printf("Should leak %zu bytes...\\n", leaked);
    return 0;
}
"""


def test_snapshots_deltas_leaks_and_the_most_at_once(built, record, report_json):
    run = record([built("sample", SAMPLE)])
    assert run.returncode == 0, run.stderr
    leaked = int(run.stdout.split()[2])
    each = {"malloc": 1024, "calloc": 2048, "realloc": 3512, "memalign": 1024, "strings": 5, "new": 513, "another": 99}
    assert leaked == sum(each.values())
    mine = ["--focus", "^by_"]
    live = lambda *options: sum(s["live_bytes"] for s in report_json(run.path, "sites", *mine, *options)["sites"])
    # --show-snapshots, --show-snapshot-deltas, --show-cumulative-snapshot-delta
    before, total = "begin", 0
    assert live("--at", "snap:begin") == 0
    for name, size in each.items():
        if name == "another":  # the thread's own memory is kept by the C library for the next one
            mine = ["--focus", "^by_", "--ignore", "pthread_create"]
        total += size
        assert live("--at", f"snap:{name}") == total
        changes = report_json(run.path, "sites", *mine, "--at", f"snap:{name}", "--minus", f"snap:{before}")["sites"]
        changed = {next(f["function"] for f in s["stack"] if f["function"].startswith("by_")).split("(")[0] for s in changes if s["live_bytes"]}
        assert changed == {f"by_{name}"} and sum(s["live_bytes"] for s in changes) == size
        assert live("--at", f"snap:{name}", "--minus", "snap:begin") == total
        before = name
    # --show-leaks and --show-maximum
    leaks = report_json(run.path, "leaks", *mine)["sites"]
    assert sum(s["not_freed_bytes"] for s in leaks) == leaked
    reallocs = [s for s in report_json(run.path, "reallocs", "--focus", "^by_realloc")["sites"] if s["realloc"]["calls"]]
    assert sum(s["realloc"]["calls"] for s in reallocs) == 2, "of a block; realloc(NULL) is none"
    assert (sum(s["realloc"]["old_bytes"] for s in reallocs), sum(s["realloc"]["new_bytes"] for s in reallocs)) == (3072, 5048)
    process = report_json(run.path)["processes"][0]
    assert process["peak_bytes"] >= leaked and losses(process) == {}

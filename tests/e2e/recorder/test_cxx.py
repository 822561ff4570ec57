# SPDX-License-Identifier: Apache-2.0
"""<heapgauge/heapgauge.hpp>: a std::pmr resource that tags, and scopes around one call."""

import pathlib
import subprocess

import pytest

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"

PMR = r"""
#include <heapgauge/heapgauge.hpp>
#include <cstdio>
#include <memory_resource>
#include <string>
#include <vector>
static int *volatile made;
int main() {
    heapgauge::tagged_resource index{"index"}, other{"other"};
    const int *moved_from;
    {
        std::pmr::vector<int> numbers{&index};
        numbers.reserve(100);
        numbers.resize(200);
        moved_from = numbers.data();
        {
            HG_SCOPE("request");
            std::pmr::vector<std::pmr::string> words{&index};
            words.reserve(2);
            words.emplace_back(std::string(99, 'x').c_str());
        }
        std::pmr::vector<int> second{&other};
        second.reserve(50);
        second = std::move(numbers); /* as the resources behind them are equal, nothing is copied */
#ifdef __cpp_rtti
        if (second.data() != moved_from || !index.is_equal(other))
            return 1;
#endif
        if (index.is_equal(*std::pmr::new_delete_resource()) || !index.is_equal(index))
            return 2;
    }
    {
        heapgauge::tagged_resource chunks{"chunks"};
        std::pmr::monotonic_buffer_resource arena{1000, &chunks};
        heapgauge::tagged_resource inside{"inside", &arena};
        std::pmr::vector<char> bytes{&inside};
        bytes.reserve(10);
        bytes.reserve(20);
        void *wide = chunks.allocate(256, 128);
        chunks.deallocate(wide, 256, 128);
        if (inside.upstream_resource() != &arena)
            return 3;
    }
    made = heapgauge::in("maker", [] { return new int[11]; });
    delete[] made;
    const int &same = heapgauge::in("reference", [&]() -> const int & { return *moved_from; });
    heapgauge::in("nothing", [] {});
    return &same == moved_from ? 0 : 4;
}
"""


@pytest.mark.parametrize("flags", [["-O0"], ["-O2", "-std=c++20"], ["-O2", "-fno-rtti"]], ids=" ".join)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_memory_resource_that_tags(compiler, flags, scratch, record, report_json):
    (scratch / "pmr.cc").write_text(PMR)
    argv = [compiler, "-std=c++17", *flags, "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([*argv, "pmr.cc", "-o", "pmr"], cwd=scratch, check=True)
    assert subprocess.run([scratch / "pmr"], check=False).returncode == 0
    run = record([scratch / "pmr"])
    assert run.returncode == 0, run.stderr
    keys = ("visits", "self_calls", "self_total_bytes", "self_frees", "self_freed_bytes")
    tags = {row["tag"]: tuple(row[key] for key in keys) for row in report_json(run.path, "tags")["tags"] if row["tag"]}
    strings = 2 * 40  # a pmr string is a resource, a pointer, a length and a small buffer
    copied = 800 if "-fno-rtti" in flags else 0
    # The arena's only chunk is 1000 and what it keeps about it.
    visits, calls, total, frees, _ = tags.pop("inside/chunks")
    assert (visits, calls, frees) == (1, 1, 1) and 1000 <= total <= 1064
    assert tags == {
        "index": (2, 2, 400 + 800, 2, 400 + 800),
        "request": (1, 1, 100, 1, 100),
        "request/index": (2, 2, strings + 100, 2, strings + 100),
        "other": (1 + (copied > 0), 1 + (copied > 0), 200 + copied, 1 + (copied > 0), 200 + copied),
        "inside": (2, 0, 0, 0, 0),
        "chunks": (1, 1, 256, 1, 256),
        "maker": (1, 1, 44, 1, 44),
        "reference": (1, 0, 0, 0, 0),
        "nothing": (1, 0, 0, 0, 0),
    }


CONTROL = r"""
#include <heapgauge/heapgauge.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>
static void *kept[20];
__attribute__((noinline)) static void *take(std::size_t n) { void *p = std::malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main() {
    std::vector<std::function<int(int)>> queue;
    queue.reserve(1);
    {
        heapgauge::scope request{"request"};
        heapgauge::label tenant{"tenant", "acme"};
        kept[0] = take(100);
        queue.push_back(heapgauge::carry([](int bytes) { kept[1] = take(bytes); return bytes; }));
    }
    std::thread worker([&] {
        heapgauge::scope own{"worker"};
        if (queue[0](200) != 200) std::abort();
        kept[2] = take(300); /* its own again */
    });
    worker.join();
    hg_snapshot("one");
    {
        heapgauge::pause quiet;
        kept[3] = take(4000);
        { heapgauge::pause inside; }
        kept[4] = take(4000);
    }
    kept[5] = take(500);
    hg_mode(HG_TAGS);
    { HG_SCOPE("tags"); kept[6] = take(600); }
    hg_mode(HG_DEFAULT_MODE);
    std::free(kept[0]);
    hg_mark("between");
    hg_snapshot("two");
    auto all = heapgauge::stats();
    auto request = heapgauge::tag_stats("request"), none = heapgauge::tag_stats("nobody");
    if (!hg_is_recorded()) return all || request ? 1 : 0;
    if (!all || all->mode != HG_EXACT || all->heap.live_bytes > all->peak_bytes) return 2;
    if (!request || none || std::strcmp(request->name, "request") != 0) return 3;
    /* the function object of the queue is the request's, too */
    if (request->total.calls < 2 || request->total.freed_bytes != 100) return 4;
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_contexts_labels_control_moments_and_numbers(compiler, scratch, record, report_json):
    (scratch / "control.cc").write_text(CONTROL)
    argv = [compiler, "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", f"-I{INCLUDE}"]
    subprocess.run([*argv, "control.cc", "-o", "control"], cwd=scratch, check=True)
    assert subprocess.run([scratch / "control"], check=False).returncode == 0
    run = record([scratch / "control"])
    assert run.returncode == 0, run.stderr
    rows = report_json(run.path, "functions", "--by", "tag", "--cost", "total", "--focus", "^take")["tags"]
    assert {row["tag"]: row["total_bytes"] for row in rows} == {"request/tenant=acme": 300, "worker": 300, "(no tag)": 500}
    tags = {row["tag"]: (row["self_calls"], row["self_total_bytes"]) for row in report_json(run.path, "tags")["tags"]}
    assert tags["tags"] == (1, 600)
    snapshots = report_json(run.path, "snapshots")["snapshots"]
    assert [row["name"] for row in snapshots] == ["one", "between", "two"]
    assert snapshots[2]["live_bytes"] - snapshots[0]["live_bytes"] == 500 + 600 - 100

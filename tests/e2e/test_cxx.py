# SPDX-License-Identifier: Apache-2.0
"""<heapgauge/heapgauge.hpp>: a std::pmr resource that tags, and scopes around one call."""

import pathlib
import subprocess

import pytest

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"

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

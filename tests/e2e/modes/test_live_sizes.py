# SPDX-License-Identifier: Apache-2.0
"""The sizes of blocks that are live at the end: --view sizes --cost live."""

import collections
import subprocess

from compiled import compile_c

# Keeps some blocks of random sizes, and prints the sizes of those by function. More than eight sizes, so that calls are counted by class.
KEEPS = """
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
static uint64_t state = 3;
static unsigned next(unsigned n) { state = state * 6364136223846793005u + 1442695040888963407u; return (unsigned)(state >> 33) % n; }
__attribute__((noinline)) static void *few(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static void *many(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main(void) {
    static char out[1 << 18];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    for (int i = 0; i < 5000; i++) {
        int of_few = next(2) == 0;
        size_t n = of_few ? 16u << next(3) : next(20) == 0 ? 4000 + next(100000) : next(700);
        void *p = of_few ? few(n) : many(n);
        if (next(3)) {
            free(p);
            continue;
        }
        printf("%s %zu\\n", of_few ? "few" : "many", n);
    }
    fflush(stdout);
}
"""


def kept(text, functions):
    return collections.Counter(int(size) for function, size in map(str.split, text.splitlines()) if function in functions)


def shown(result):
    assert all(row["exact"] and row["live_bytes"] == row["live_blocks"] * row["low_bytes"] for row in result["sizes"])
    return {row["low_bytes"]: row["live_blocks"] for row in result["sizes"]}


def test_sizes_of_live_blocks_are_exact(scratch, record, report_json):
    run = record([compile_c(scratch, "keeps", KEEPS)])
    assert run.returncode == 0, run.stderr
    for functions in ["few"], ["many"], ["few", "many"]:
        focus = "--focus", f"^({'|'.join(functions)})$"
        expected = kept(run.stdout, functions)
        assert len(expected) > 500 or functions == ["few"]
        result = report_json(run.path, "sizes", "--cost", "live", *focus)
        assert shown(result) == expected
        assert result["live_blocks"] == sum(expected.values())
        assert result["live_bytes"] == result["shown"] == sum(size * blocks for size, blocks in expected.items())
        weights = [row["live_bytes"] for row in result["sizes"]]
        assert weights == sorted(weights, reverse=True)
        assert shown(report_json(run.path, "sizes", "--cost", "blocks", "--at", "end", *focus)) == expected


def test_samples_estimate_them(scratch, record, report_json):
    run = record([compile_c(scratch, "keeps", KEEPS)], "--mode", "sample", "--interval", "1KiB")
    expected = kept(run.stdout, ["few", "many"])
    result = report_json(run.path, "sizes", "--cost", "live", "--focus", "^(few|many)$")
    true = sum(size * blocks for size, blocks in expected.items())
    assert abs(result["live_bytes"] - true) < 4 * result["live_bytes_error"]
    assert sum(row["live_bytes"] for row in result["sizes"]) == result["live_bytes"]
    # A block of at least the interval is always sampled, and counts once.
    for row in result["sizes"]:
        if row["low_bytes"] >= 1024:
            assert row["live_blocks"] == expected[row["low_bytes"]] and row["live_blocks_error"] == 0


def test_other_moments_are_refused_and_what_was_not_kept_is_said(build, heapgauge, scratch, record):
    run = record([compile_c(scratch, "keeps", KEEPS)])
    done = subprocess.run([heapgauge, "report", run.path, "--view", "sizes", "--cost", "peak"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "those of live blocks at the end only" in done.stderr
    old = scratch / "old.hg"
    subprocess.run([build / "made" / "make_recording", old, "100", "10"], check=True)
    done = subprocess.run([heapgauge, "report", old, "--view", "sizes", "--cost", "live"], capture_output=True, text=True, check=True)
    assert "their sizes were not kept" in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""record --free-sites and the view freed-by, against programs that know which function frees how much of what."""

import re
import signal
import subprocess
import sys

import pytest

from compiled import compile_c, losses

PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone, noipa))
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")
NOINLINE void *make_a(void) { void *p = malloc(100); KEEP(p); return p; }
NOINLINE void *make_b(void) { void *p = calloc(1, 3000); KEEP(p); return p; }
NOINLINE void *make_c(size_t n) { void *p = malloc(n); KEEP(p); return p; }
NOINLINE void end_x(void *p) { free(p); __asm__ volatile(""); }
NOINLINE void end_y(void *p) { free(p); __asm__ volatile(""); }
NOINLINE void *grow(void *p, size_t n) { p = realloc(p, n); KEEP(p); return p; }
static void *blocks[64];
static void *other_thread(void *unused)
{
	for (int i = 0; i < 64; i++) end_y(blocks[i]);
	return unused;
}
int main(int argc, char **argv)
{
	for (int i = 0; i < 700; i++) end_x(make_a());
	for (int i = 0; i < 30; i++) end_y(make_a());
	for (int i = 0; i < 50; i++) end_x(make_b());
	for (int i = 0; i < 64; i++) blocks[i] = make_b();
	pthread_t thread;
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
	/* 20 blocks of 1 MiB that grow once: a realloc ends each of them, and end_x what it became. */
	for (int i = 0; i < 20; i++) end_x(grow(make_c(1 << 20), 3 << 20));
	for (int i = 0; i < 5; i++) { void *leaked = make_a(); KEEP(leaked); }
	if (argc > 1) {
		void *library = dlopen(argv[1], RTLD_NOW);
		void *(*make)(void) = (void *(*)(void))dlsym(library, "make_in_library");
		void (*end)(void *) = (void (*)(void *))dlsym(library, "end_in_library");
		for (int i = 0; i < 8; i++) end_x(make());
		for (int i = 0; i < 9; i++) end(make_a());
		dlclose(library);
	}
	if (getenv("DIE")) kill(getpid(), SIGKILL);
	return 0;
}
"""
LIBRARY = r"""
#include <stdlib.h>
void *make_in_library(void) { void *p = malloc(200); __asm__ volatile("" : "+r"(p)); return p; }
void end_in_library(void *p) { free(p); __asm__ volatile(""); }
"""
MIB = 1 << 20
TRUTH = {
    ("make_a", "end_x"): (700, 70_000),
    ("make_a", "end_y"): (30, 3_000),
    ("make_b", "end_x"): (50, 150_000),
    ("make_b", "end_y"): (64, 192_000),
    ("make_c", "grow"): (20, 20 * MIB),
    ("grow", "end_x"): (20, 60 * MIB),
}
IN_LIBRARY = {("make_in_library", "end_x"): (8, 1600), ("make_a", "end_in_library"): (9, 900)}


@pytest.fixture
def program(scratch):
    return compile_c(scratch, "program", PROGRAM, "-pthread", "-fno-builtin", "-ldl")


def innermost(stack):
    """The program's innermost function."""
    for frame in stack:
        if re.fullmatch(r"(make|end)_\w+|grow", frame["function"] or ""):
            return frame["function"]
    return "?"


def key_of(result, row):
    """The functions that allocated and freed."""
    stacks = [[frame if isinstance(frame, dict) else result["frames"][frame] for frame in row[key]] for key in ("stack", "free_stack")]
    return innermost(stacks[0]), innermost(stacks[1])


def pairs(result):
    found = {}
    for row in result["pairs"]:
        key = key_of(result, row)
        frees, freed = found.get(key, (0, 0))
        found[key] = (frees + row["frees"], freed + row["freed_bytes"])
    found.pop(("?", "?"), None)  # of the libraries
    return found


def test_each_pair_has_its_blocks_and_bytes(program, record, report_json):
    run = record([program], "--free-sites")
    assert pairs(report_json(run.path, "freed-by")) == TRUTH
    # Both directions.
    assert pairs(report_json(run.path, "freed-by", "--focus", "^make_b$")) == {key: value for key, value in TRUTH.items() if key[0] == "make_b"}
    assert pairs(report_json(run.path, "freed-by", "--freed-in", "^end_y$")) == {key: value for key, value in TRUTH.items() if key[1] == "end_y"}
    # Nothing else changes, and the sums are those of the sites.
    plain = record([program])
    for path in (run.path, plain.path):
        assert losses(report_json(path)["processes"][0]) == {}
    keys = ("calls", "frees", "freed_bytes", "not_freed_bytes", "kind", "entry")
    sites = [sorted(tuple(site[key] for key in keys) for site in report_json(path, "sites", "--focus", "^(make|grow)")["sites"]) for path in (run.path, plain.path)]
    assert sites[0] == sites[1]
    for name in ("make_a", "make_b", "make_c", "grow"):
        of_sites = report_json(run.path, "sites", "--focus", f"^{name}$")["sites"]
        assert sum(site["frees"] for site in of_sites) == sum(frees for (made, _), (frees, _) in TRUTH.items() if made == name)


def test_libraries_that_are_closed_keep_their_pairs(program, record, report_json, scratch):
    library = compile_c(scratch, "library.so", LIBRARY, "-shared", "-fPIC", "-fno-builtin")
    run = record([program, library], "--free-sites")
    assert pairs(report_json(run.path, "freed-by")) == TRUTH | IN_LIBRARY


def test_pairs_survive_sigkill(program, record, report_json):
    run = record([program], "--free-sites", env={"DIE": "1"})
    assert run.returncode == -signal.SIGKILL
    assert pairs(report_json(run.path, "freed-by")) == TRUTH


def test_without_the_option_the_view_says_what_to_do(program, record, report_json, heapgauge, clean_env):
    run = record([program])
    assert report_json(run.path, "freed-by")["pairs"] == []
    text = subprocess.run([heapgauge, "report", run.path, "--view", "freed-by"], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "record --free-sites" in text
    refused = subprocess.run([heapgauge, "report", run.path, "--freed-in", "x", "--view", "sites"], env=clean_env, capture_output=True, text=True)
    assert refused.returncode != 0 and "freed-by" in refused.stderr


def test_a_full_table_keeps_the_sums(record, report_json, scratch):
    """More freeing stacks than the budget has memory for: what has no stack is [other], and no block is lost."""
    source = r"""
    #include <stdlib.h>
    static void *volatile kept;
    static __attribute__((noinline, noclone)) void end(void *p, unsigned path, int depth)
    {
        if (depth == 0) { free(p); return; }
        if (path & 1) end(p, path >> 1, depth - 1); else end(p, path >> 1, depth - 1);
        __asm__ volatile("");
    }
    static __attribute__((noinline, noclone)) void *make(void) { void *p = malloc(64); kept = p; return p; }
    int main(void) { for (unsigned i = 0; i < 1 << 17; i++) end(make(), i, 17); return 0; }
    """
    run = record([compile_c(scratch, "many", source, "-O0", "-fno-builtin")], "--free-sites", "--budget", "8MiB")
    result = report_json(run.path, "freed-by", "--focus", "^make$", "--limit", "1000000")
    assert sum(row["frees"] for row in result["pairs"]) == 1 << 17
    assert sum(row["freed_bytes"] for row in result["pairs"]) == 64 << 17
    assert report_json(run.path)["processes"][0]["health"].get("unsited_calls", 0) > 0


def test_python_functions_free(record, report_json, scratch):
    script = scratch / "script.py"
    script.write_text("def make():\n    return bytearray(100_000)\ndef end(kept):\n    kept.clear()\nfor _ in range(40):\n    end([make()])\n")
    run = record([sys.executable, "-I", script], "--free-sites")
    rows = report_json(run.path, "freed-by", "--focus", "^make$", "--freed-in", "^end$")["pairs"]
    assert sum(row["frees"] for row in rows if row["freed_bytes"] >= 100_000) == 40


def test_samples_count_by_their_weight(record, report_json, scratch):
    source = PROGRAM.replace("i < 700", "i < 700000").replace("i < 30;", "i < 300000;")
    run = record([compile_c(scratch, "sampled", source, "-pthread", "-fno-builtin", "-ldl")], "--free-sites", "--mode", "sample", "--interval", "4096")
    answer = report_json(run.path, "freed-by")
    found = pairs(answer)
    # About 17,000 and 7,300 samples: the standard error is below 1.2 %.
    assert abs(found[("make_a", "end_x")][0] / 700_000 - 1) < 0.07
    assert abs(found[("make_a", "end_y")][0] / 300_000 - 1) < 0.07
    for end, truth in (("end_x", 700_000), ("end_y", 300_000)):
        row = max((row for row in answer["pairs"] if key_of(answer, row) == ("make_a", end)), key=lambda row: row["frees"])
        assert 0.003 * truth < row["frees_error"] < 0.03 * truth and abs(row["frees"] - truth) < 5 * row["frees_error"]
        assert row["freed_bytes_error"] / row["freed_bytes"] == pytest.approx(row["frees_error"] / row["frees"], rel=0.2)


def test_modes_without_stacks_refuse(heapgauge, clean_env, scratch):
    done = subprocess.run([heapgauge, "record", "--free-sites", "--mode", "tags", "--", "true"], env=clean_env, cwd=scratch, capture_output=True, text=True)
    assert done.returncode != 0 and "--free-sites needs stacks" in done.stderr

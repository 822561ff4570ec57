# SPDX-License-Identifier: Apache-2.0
"""record --mode sample: estimates with intervals that hold the truth, whatever the program does with its blocks."""

import subprocess

import pytest

from compiled import compile_c, losses

# Prints what it asked for and what it keeps: sizes on both sides of the interval, reallocs, frees by another thread.
PROGRAM = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
enum { BLOCKS = 60000, KEPT = 20000 };
static void *block[BLOCKS];
static size_t size[BLOCKS];
static unsigned long long calls, bytes, kept;
static uint32_t seed = SEED;
static size_t any(void)
{
	seed = seed * 1664525u + 1013904223u;
	size_t most = (seed >> 28) == 0 ? 40000 : (seed >> 28) < 4 ? 3000 : 200;
	return 1 + (seed >> 8) % most;
}
static void count(size_t n) { calls++; bytes += n; }
static void *free_half(void *unused)
{
	for (int i = 0; i < BLOCKS; i += 2) { free(block[i]); block[i] = NULL; }
	return unused;
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 0; i < BLOCKS; i++) {
		size[i] = any();
		block[i] = i % 3 == 0 ? calloc(1, size[i]) : i % 3 == 1 ? malloc(size[i]) : aligned_alloc(16, size[i]);
		count(size[i]);
	}
	for (int i = 0; i < BLOCKS; i += 5) {
		size[i] = any();
		block[i] = realloc(block[i], size[i]);
		count(size[i]);
	}
	pthread_t thread;
	pthread_create(&thread, NULL, free_half, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; i < BLOCKS; i++) {
		if (i % 2 == 0 || i >= KEPT) { free(block[i]); block[i] = NULL; }
		else kept += size[i];
	}
	printf("calls %llu bytes %llu kept %llu\n", calls, bytes, kept);
	if (GIVE_BACK)
		for (int i = 0; i < BLOCKS; i++) free(block[i]);
	return 7;
}
"""


@pytest.fixture
def sampled(record, report_json, scratch):
    """sampled(seed, interval, give_back): (truth, the one process of the recording)."""

    def run(seed, interval, give_back=0):
        flags = [f"-DSEED={seed}u", f"-DGIVE_BACK={give_back}", "-pthread", "-O1"]
        program = compile_c(scratch, f"p{seed}-{give_back}", PROGRAM, *flags)
        done = record([program], "--mode", "sample", "--interval", interval)
        assert done.returncode == 7 and done.stderr == ""
        words = done.stdout.split()
        truth = dict(zip(words[::2], map(int, words[1::2])))
        (process,) = report_json(done.path)["processes"]
        assert process["mode"] == "sampled"
        assert losses(process) == {}
        return truth, process

    return run


def test_intervals_hold_the_truth(sampled):
    """Of 12 runs, each with three intervals of 95 %: 30 or more of 36 hold it, which fails once in 10,000 by chance."""
    held = 0
    for seed in range(12):
        truth, process = sampled(seed, "64KiB")
        assert process["sample_interval_bytes"] == 64 << 10
        assert process["samples"] > 500
        factor = 1.96 + 2.4 / (process["samples"] - 1)  # Student's
        for name, value, error in (
            ("calls", process["calls"], process["calls_error"]),
            ("bytes", process["bytes"], process["bytes_error"]),
            ("kept", process["leaked_bytes"], process["leaked_bytes_error"]),
        ):
            assert 0 < error < value
            held += abs(value - truth[name]) <= factor * error
    assert held >= 30


def test_what_is_given_back_is_gone_to_the_last_byte(sampled):
    """The frees of what was recorded are all seen: in other threads, by realloc, at any size."""
    truth, process = sampled(3, "4KiB", give_back=1)
    assert (process["leaked_bytes"], process["leaked_blocks"]) == (0, 0)
    assert abs(process["bytes"] - truth["bytes"]) < truth["bytes"] / 10


def test_reallocs_are_estimates_too(record, report_json, scratch):
    """Whether or not the block was a sample before: 12,000 of them, most of blocks that were none."""
    program = compile_c(scratch, "reallocs", PROGRAM, "-DSEED=1u", "-DGIVE_BACK=0", "-pthread", "-O1")
    exact, sampled = (
        report_json(record([program], *mode).path, "reallocs")["sites"][0]["realloc"]
        for mode in ([], ["--mode", "sample", "--interval", "4KiB"])
    )
    assert exact["calls"] == 12000
    for name in ("calls", "moved_calls", "grown_calls", "shrunk_calls", "old_bytes", "new_bytes"):
        assert 0 < sampled[name + "_error"] < 0.5 * sampled[name]
        assert abs(sampled[name] - exact[name]) <= 5 * sampled[name + "_error"]
    # The smaller of the two sizes, of which one is not that which makes it a sample.
    assert abs(sampled["moved_bytes"] - exact["moved_bytes"]) < 0.5 * exact["moved_bytes"]


@pytest.mark.parametrize("size", [30000, 100000, 300000, 500000])
def test_a_buffer_that_is_used_again_is_not_rounded_the_same_way_each_time(size, record, report_json, scratch):
    """N1: the address decided, and was always the same: up to 63 standard errors off."""
    source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 20000; i++) { char *volatile p = malloc(%d); free(p); } }\n"
    run = record([compile_c(scratch, "again", source % size)], "--mode", "sample")
    (site,) = [site for site in report_json(run.path, "sites")["sites"] if site["calls"] > 1000]
    assert abs(site["calls"] - 20000) < 5 * site["calls_error"]


def test_blocks_as_large_as_the_interval_are_exact(record, report_json, scratch):
    source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 300; i++) { char *p = malloc(5000 + i); p[0] = 1; } }"
    done = record([compile_c(scratch, "large", source, "-O0")], "--mode", "sample", "--interval", "4KiB")
    (process,) = report_json(done.path)["processes"]
    expected = sum(range(5000, 5300))
    assert process["bytes"] >= expected and process["bytes"] - expected < 20000  # and what libc took
    assert process["leaked_blocks"] >= 300


def test_cxx_operators(record, report_json, scratch):
    source = (
        "#include <string>\n#include <vector>\n#include <memory>\n"
        "int main() { unsigned long n = 0; for (int i = 0; i < 200000; i++) { auto p = std::make_unique<std::string>(100, 'x');"
        " std::vector<int> v(i % 50 + 1); n += p->size() + v.size(); } return n == 0; }"
    )
    (scratch / "operators.cc").write_text(source)
    program = scratch / "operators"
    subprocess.run(["g++", "-g", "-O1", scratch / "operators.cc", "-o", program], check=True)
    done = record([program], "--mode", "sample", "--interval", "16KiB")
    assert done.returncode == 0
    (process,) = report_json(done.path)["processes"]
    assert losses(process) == {}
    # make_unique's string, its text, the vector's array.
    truth = 200000 * (32 + 101) + sum(4 * (i % 50 + 1) for i in range(200000))
    assert abs(process["bytes"] - truth - 72704) < 4 * process["bytes_error"] + 80000
    assert process["leaked_bytes"] <= 72704 + 16384  # libstdc++'s emergency pool


def test_children_are_sampled_too(record, report_json, scratch):
    source = (
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(void) { char *kept = malloc(100000); kept[0] = 1; for (int k = 0; k < 3; k++) if (fork() == 0) {"
        " free(kept); for (int i = 0; i < 20000; i++) free(malloc(500)); _exit(0); }"
        " while (wait(NULL) > 0) ; return 0; }"
    )
    done = record([compile_c(scratch, "forks", source, "-O0")], "--mode", "sample", "--interval", "16KiB")
    processes = report_json(done.path)["processes"]
    assert len(processes) == 4 and all(p["mode"] == "sampled" and losses(p) == {} for p in processes)
    for child in processes[1:]:
        assert abs(child["bytes"] - 10_000_000) < 4 * child["bytes_error"]
        assert child["leaked_bytes"] == 0


def test_a_sampled_program_without_a_sample_is_sampled(record, report_json, heapgauge, clean_env, scratch):
    """C3, N21: it was called exact, and said to have an allocator of its own."""
    source = "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(16); }\n"
    run = record([compile_c(scratch, "one", source)], "--mode", "sample", "--interval", "16MiB")
    (process,) = report_json(run.path)["processes"]
    assert process["mode"] == "sampled"
    report = [heapgauge, "report", run.path]
    text = subprocess.run(report, env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "0 ALLOCATIONS SAMPLED" in text and "allocator" not in text and "exact," not in text

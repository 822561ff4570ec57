# SPDX-License-Identifier: Apache-2.0
"""record --mode sample: estimates with intervals that hold the truth, whatever the program does with its blocks."""

import math
import pathlib
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"

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


def of_program(site):
    """Not what libc keeps for a thread that has ended, which may be a sample too."""
    return not any("pthread_create" in frame["function"] for frame in site["stack"])


def estimate(sites, name):
    """The sum of a number over sites, and its standard error."""
    return sum(site[name] for site in sites), math.sqrt(sum(site.get(name + "_error", 0) ** 2 for site in sites))


@pytest.fixture
def sampled(record, report_json, scratch):
    """sampled(seed, interval, give_back): (truth, the one process of the recording, the program's own sites)."""

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
        return truth, process, [row for row in report_json(done.path, "sites")["sites"] if of_program(row)]

    return run


def test_intervals_hold_the_truth(sampled):
    """Of 12 runs, each with three intervals of 95 %: 30 or more of 36 hold it, which fails once in 10,000 by chance."""
    held = 0
    for seed in range(12):
        truth, process, sites = sampled(seed, "64KiB")
        assert process["sampling_interval_bytes"] == 64 << 10
        assert process["samples"] > 500
        factor = 1.96 + 2.4 / (process["samples"] - 1)  # Student's
        for name, column in (("calls", "calls"), ("bytes", "total_bytes"), ("kept", "not_freed_bytes")):
            value, error = estimate(sites, column)
            assert 0 < error < value
            held += abs(value - truth[name]) <= factor * error
    assert held >= 30


def test_what_is_given_back_is_gone_to_the_last_byte(sampled):
    """The frees of what was recorded are all seen: in other threads, by realloc, at any size."""
    truth, _, sites = sampled(3, "4KiB", give_back=1)
    assert estimate(sites, "not_freed_bytes")[0] == estimate(sites, "not_freed_blocks")[0] == 0
    assert abs(estimate(sites, "total_bytes")[0] - truth["bytes"]) < truth["bytes"] / 10


def test_reallocs_are_estimates_too(record, report_json, scratch):
    """Whether or not the block was a sample before: 12,000 of them, most of blocks that were none."""
    program = compile_c(scratch, "reallocs", PROGRAM, "-DSEED=1u", "-DGIVE_BACK=0", "-pthread", "-O1")
    exact, sampled = (
        report_json(record([program], *mode).path, "reallocs")["sites"][0]["realloc"]
        for mode in ([], ["--mode", "sample", "--interval", "4KiB"])
    )
    assert exact["calls"] == 12000
    for name in ("calls", "moved_calls", "grown_calls", "shrunk_calls", "old_bytes", "new_bytes"):
        # A sum of weights w has the variance w * (w - 1) of each: its root is never above the sum, however few samples carry it. But
        # the sum has whole weights, and one that is drawn down to 1 may have been nearly 2.
        # In 60 runs it was at most 0.63 of that, and the truth at most 3.9 errors away; a few small blocks weigh most.
        assert 0 < sampled[name + "_error"] <= 2 * sampled[name]
        assert abs(sampled[name] - exact[name]) <= 8 * sampled[name + "_error"]
    # The smaller of the two sizes, of which one is not that which makes it a sample.
    assert abs(sampled["moved_bytes"] - exact["moved_bytes"]) <= 8 * max(sampled["old_bytes_error"], sampled["new_bytes_error"])


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
    assert process["total_bytes"] >= expected and process["total_bytes"] - expected < 20000  # and what libc took
    assert process["not_freed_blocks"] >= 300


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
    value, error = estimate(report_json(done.path, "sites")["sites"], "total_bytes")
    assert abs(value - truth - 72704) < 4 * error + 80000
    assert truth <= process["total_bytes"] < truth + 80000  # counted, and what libc took
    assert process["not_freed_bytes"] <= 72704 + 16384  # libstdc++'s emergency pool


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
        assert (child["calls"], child["total_bytes"]) == (20_000, 10_000_000)
        assert child["not_freed_bytes"] == 0


def test_a_sampled_program_without_a_sample_is_sampled(record, report_json, heapgauge, clean_env, scratch):
    """C3, N21: it was called exact, and said to have an allocator of its own."""
    source = "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(16); }\n"
    run = record([compile_c(scratch, "one", source)], "--mode", "sample", "--interval", "16MiB")
    (process,) = report_json(run.path)["processes"]
    assert process["mode"] == "sampled"
    report = [heapgauge, "report", run.path]
    text = subprocess.run(report, env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "0 ALLOCATIONS SAMPLED" in text and "allocator" not in text and "exact," not in text


# Small blocks of four threads, a few large ones, reallocs, and at the end children that allocate next to nothing.
COUNTED = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned long calls[4], bytes[4];
static void *work(void *number)
{
	long t = (long)number;
	unsigned seed = 77 * (unsigned)t + 1;
	for (int i = 0; i < 20000; i++) {
		seed = seed * 1103515245 + 12345;
		size_t n = i % 5000 == 0 ? 700000 : 1 + (seed >> 16) % 200;
		void *volatile p = i % 7 == 0 ? calloc(1, n) : malloc(n);
		calls[t]++, bytes[t] += n;
		if (i % 11 == 0) {
			p = realloc(p, 2 * n);
			calls[t]++, bytes[t] += 2 * n;
		}
		if (i % 3) free(p);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread[4];
	setvbuf(stdout, NULL, _IONBF, 0);
	for (long i = 0; i < 4; i++) pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
	for (int i = 0; i < 4; i++) printf("%lu %lu\n", calls[i], bytes[i]);
	if (argc > 1) kill(getpid(), SIGKILL);
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			void *volatile p = malloc(10 + i);
			free(p);
			_exit(0);
		}
	while (wait(NULL) > 0) ;
	return 0;
}
"""


def counted(process):
    return process["calls"], process["total_bytes"]


@pytest.mark.parametrize("killed", [[], ["killed"]], ids=["exits", "killed"])
@pytest.mark.parametrize("interval", ["256B", "4KiB", "512KiB", "16MiB"])
def test_all_calls_and_bytes_are_counted(interval, killed, record, report_json, scratch):
    """C4: the number of calls was estimated, and off by more than its error said wherever most blocks are small."""
    program = compile_c(scratch, "counted", COUNTED, "-pthread")
    exact = record([program, *killed])
    sampled = record([program, *killed], "--mode", "sample", "--interval", interval)
    assert exact.returncode == sampled.returncode == (-signal.SIGKILL if killed else 0)
    first, second = (report_json(run.path)["processes"] for run in (exact, sampled))
    assert second[0]["mode"] == "sampled" and "calls_error" not in second[0] and "bytes_error" not in second[0]
    # A thread that gets no CPU while it has a lock costs the others samples, but no counts.
    assert set(losses(second[0])) <= {"lock_timeouts", "lost_samples"}
    assert counted(first[0]) == counted(second[0])
    truth = [tuple(map(int, line.split())) for line in sampled.stdout.split("\n") if line]
    threads = report_json(sampled.path, "threads")["threads"]
    assert sorted(truth) == sorted((t["calls"], t["total_bytes"]) for t in threads if t["calls"] > 100)
    main = (second[0]["calls"] - sum(t[0] for t in truth), second[0]["total_bytes"] - sum(t[1] for t in truth))
    assert main == (4, main[1]) and main[1] < 2000  # four threads


def test_a_child_without_a_sample_is_recorded_too(record, report_json, scratch):
    """C11: a process in which nothing was sampled was left out without a word."""
    program = compile_c(scratch, "counted", COUNTED, "-pthread")
    processes = report_json(record([program], "--mode", "sample").path)["processes"]
    assert sorted(map(counted, processes[1:])) == [(1, 10), (1, 11), (1, 12)]
    assert all(p["mode"] == "sampled" and p["samples"] == 0 for p in processes[1:])


def test_stopped_calls_are_not_counted(heapgauge, clean_env, report_json, scratch):
    source = (
        "#include <heapgauge/heapgauge.h>\n#include <stdlib.h>\n"
        "static void take(int n) { for (int i = 0; i < n; i++) { void *volatile p = malloc(100); free(p); } }\n"
        "int main(void) { take(1000); hg_stop(HG_PROCESS); take(50000); hg_start(HG_PROCESS); take(2000); }\n"
    )
    program = compile_c(scratch, "stops", source, f"-I{INCLUDE}")
    path = scratch / "stops.hg"
    subprocess.run([heapgauge, "record", "-q", "--mode", "sample", "-o", path, program], env=clean_env, check=True, timeout=WAIT_SECONDS)
    (process,) = report_json(path)["processes"]
    assert counted(process) == (3000, 300000)


def test_budgets_of_calls_and_bytes_can_be_told(heapgauge, clean_env, record, scratch):
    """C4, N5: what is counted is no estimate."""
    program = compile_c(scratch, "counted", COUNTED, "-pthread")
    path = record([program, "killed"], "--mode", "sample").path
    for limit, status in (("87279", 1), ("87280", 0)):
        done = subprocess.run([heapgauge, "check", path, "--max-calls", limit], env=clean_env, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr


# The handler allocates after each instruction of the recorder.
INTERRUPTED = r"""
#include "interrupted.h"
#include "single_step.h"
static void on_step(int number, siginfo_t *info, void *context)
{
	if (interrupted_where(context) == IN_RECORDER) {
		void *volatile p = malloc(3000);
		free(p);
	}
}
int main(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	interrupted_init();
	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < 50; i++) {
		step_on();
		void *volatile p = malloc(3500);
		step_off();
		free(p);
	}
	for (int i = 0; i < 20000; i++) {
		void *volatile p = malloc(1000);
		free(p);
	}
}
"""


def test_a_signal_handler_that_allocates_does_not_end_the_sampling(record, report_json, scratch):
    """What it took of a countdown between the question and the answer made that less than nothing: 2^64 bytes to the next sample."""
    program = compile_c(scratch, "interrupted", INTERRUPTED, "-D_GNU_SOURCE", f"-I{INCLUDE.parent / 'tests' / 'targets'}")
    run = record([program], "--mode", "sample", "--interval", "4KiB")
    assert run.returncode == 0
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] >= 20000 and process["samples"] > 20000 * 1000 / 4096 / 2


# In the child another thread allocates first, and gets the slot that the forking one had in its parent.
SILENT = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(int count) { while (count--) { void *volatile p = malloc(100); free(p); } }
static void *nothing(void *unused) { return unused; }
static void *first(void *unused) { prctl(PR_SET_NAME, "first"); work(300); return unused; }
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, nothing, NULL);
	pthread_join(thread, NULL);
	work(10);
	if (fork() == 0) {
		prctl(PR_SET_NAME, "forker");
		pthread_create(&thread, NULL, first, NULL); /* on the stack of the one before: allocates nothing */
		pthread_join(thread, NULL);
		work(200);
		_exit(0);
	}
	wait(NULL);
}
"""


def test_a_thread_that_forked_does_not_count_for_another(record, report_json, scratch):
    """Its countdown led to the word of its slot in the parent, which another thread had got in the child."""
    run = record([compile_c(scratch, "silent", SILENT, "-pthread")], "--mode", "sample")
    threads = {thread["name"]: thread["calls"] for thread in report_json(run.path, "threads")["threads"]}
    assert threads["first"] == 300 and threads["forker"] == 200


FORKS_OFTEN = SILENT.replace("if (fork() == 0)", "for (int i = 0; i < 8; i++) if (fork() == 0)").replace("work(200)", "work(1)").replace(
    "wait(NULL);", "while (wait(NULL) > 0);"
)


def test_a_thread_that_forked_draws_a_new_distance(record, report_json, scratch):
    """In 63% of the runs its first block in each child was a sample, and counted as a whole interval."""
    program = compile_c(scratch, "often", FORKS_OFTEN, "-pthread")
    for _ in range(5):
        run = record([program], "--mode", "sample", "--interval", "16MiB")
        assert len(report_json(run.path)["processes"]) == 9
        assert sum(site["samples"] for site in report_json(run.path, "sites", "--cost", "total")["sites"]) < 8

# SPDX-License-Identifier: Apache-2.0
"""A budget in percent: samples come as often as they may cost, each with the weight of its interval, and the totals stay right."""

import math
import os
import re
import subprocess

import pytest

from alone import file_of, folder_on_tmpfs, preloaded
from compiled import compile_c

# 64 KiB of small blocks in each round, for so many seconds of its own processor time; then how much it was.
BUSY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
__attribute__((noinline)) static void *take(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
int main(int argc, char **argv)
{
	static void *kept[64];
	unsigned long blocks = 0;
	while (cpu() < atof(argv[1])) {
		for (int k = 0; k < 1000; k++) {
			int i = k % 64;
			free(kept[i]);
			kept[i] = take(1024);
			blocks++;
		}
	}
	for (int i = 0; i < 64; i++)
		free(kept[i]);
	printf("%lu\n", blocks);
	fflush(stdout);
	if (argc > 2)
		_exit(0);
	return 0;
}
"""
SECONDS = "2.5"


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("pace"), "busy", BUSY)


def looked_at(report_json, path):
    process = report_json(path)["processes"][0]
    sites = [site for site in report_json(path, "sites")["sites"] if site["stack"][0]["function"] == "take"]
    return process, sites


def check(process, sites, blocks):
    total = sum(site["total_bytes"] for site in sites)
    # One in 16,000 is further off than four standard errors.
    error = math.sqrt(sum(site["total_bytes_error"] ** 2 for site in sites))
    assert abs(total - blocks * 1024) <= 4 * error + 64 * 1024
    assert blocks * 1024 <= process["total_bytes"] < blocks * 1024 + 64 * 1024


@pytest.mark.parametrize("alone", [False, True], ids=["collector", "alone"])
def test_samples_take_no_more_than_they_may(alone, busy, build, record, clean_env, report_json):
    """Of every 256 bytes one sample would be most of what the program does; half a percent are few."""
    if alone:
        with folder_on_tmpfs() as folder:
            env = preloaded(
                build, clean_env, folder, HEAPGAUGE_MODE="sample", HEAPGAUGE_INTERVAL="256",
                HEAPGAUGE_BUDGET="32MiB,0.5%", HEAPGAUGE_KEEP="1",
            )
            program = subprocess.Popen([busy, SECONDS], env=env, stdout=subprocess.PIPE, text=True)
            blocks = int(program.communicate()[0])
            process, sites = looked_at(report_json, file_of(folder, program.pid))
    else:
        run = record([busy, SECONDS], "--mode", "sample", "--interval", "256", "--budget", "0.5%", "--budget", "32MiB")
        assert run.returncode == 0, run.stderr
        blocks = int(run.stdout)
        process, sites = looked_at(report_json, run.path)
    assert process["sampling_interval_bytes"] >= 256 << 6  # the widest
    # N21: one row, though each step of the interval is a site of its own in the recording; most came by when it was wide.
    assert len(sites) == 1
    assert process["samples"] < blocks // 20
    check(process, sites, blocks)


def test_a_budget_that_is_large_enough_changes_nothing(busy, record, report_json):
    """Half is not enough on a busy machine: a sample during which another program runs seems long."""
    run = record([busy, "1"], "--mode", "sample", "--interval", "512KiB", "--budget", "100%")
    assert run.returncode == 0, run.stderr
    process, sites = looked_at(report_json, run.path)
    assert process["sampling_interval_bytes"] == 512 << 10 and len(sites) == 1
    check(process, sites, int(run.stdout))


@pytest.mark.parametrize("budget, words", [("0%", "more than 0%"), ("101%", "at most 100%"), ("x", "0.5%"), ("-1%", "more than 0%")])
def test_what_is_no_budget(budget, words, heapgauge):
    done = subprocess.run([heapgauge, "record", "--mode", "sample", "--budget", budget, "true"], capture_output=True, text=True)
    assert done.returncode == 2 and words in done.stderr


def test_it_is_about_samples(heapgauge):
    done = subprocess.run([heapgauge, "record", "--budget", "0.5%", "true"], capture_output=True, text=True)
    assert done.returncode == 2 and "--mode sample" in done.stderr


def test_a_program_that_may_not_read_the_counter(scratch, record, report_json):
    """PR_SET_TSC: reading it would be a signal. From then on nobody measures."""
    source = r"""
#include <stdlib.h>
#include <sys/prctl.h>
void *volatile kept;
int main(void)
{
	for (int i = 0; i < 1000; i++) { kept = malloc(1000); free(kept); }
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 3;
	for (int i = 0; i < 100000; i++) { kept = malloc(1000); free(kept); }
	return 0;
}
"""
    run = record([compile_c(scratch, "no_counter", source)], "--mode", "sample", "--interval", "256", "--budget", "0.5%")
    assert run.returncode == 0, run.stderr
    assert report_json(run.path)["processes"][0]["calls"] > 90000

# SPDX-License-Identifier: Apache-2.0
"""Smallest, mean and largest size, the highest rate and the most live blocks, against a program that knows them."""

import subprocess

from compiled import compile_c

# 500 blocks of 10 to 509 bytes, all freed but one, then 3 large ones: most blocks are live long before the peak in bytes.
PROGRAM = r"""
#include <stdlib.h>
#include <unistd.h>
static void *volatile blocks[500];
int main(void)
{
	for (int i = 0; i < 500; i++) blocks[i] = malloc(10 + i);
	usleep(2000000); /* the collector looks many times, also on a busy machine */
	for (int i = 1; i < 500; i++) free(blocks[i]);
	for (int i = 1; i < 4; i++) blocks[i] = malloc(1000000);
	usleep(100000);
	return 0;
}
"""


def test_a_program_that_knows_its_sizes(record, report_json, scratch, heapgauge, clean_env):
    run = record([compile_c(scratch, "program", PROGRAM)])
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] == 503
    assert process["mean_bytes"] == (sum(range(10, 510)) + 3_000_000) // 503
    assert process["largest_bytes"] == 1_000_000
    # One site has 500 sizes, which are counted in classes: the smallest class begins at 8 or 10.
    assert 8 <= process["smallest_bytes"] <= 10
    assert process["peak_blocks"] == 4 and process["max_live_blocks"] == 500
    # How long it took to allocate them depends on the machine.
    assert 503 / 60 < process["max_calls_per_second"] <= 503 / 0.001
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("  sizes ")]
    assert f"at least {process['smallest_bytes']} B to 976.6 KiB, 6.1 KiB on average; at most 500 blocks live and " in line


def test_a_program_without_blocks_has_no_sizes(record, report_json, target, heapgauge, clean_env):
    run = record([target("does_nothing")])
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] == 0
    assert process["smallest_bytes"] is process["mean_bytes"] is process["largest_bytes"] is None
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "  sizes " not in text


# Ten sizes of one site are a class; its bounds are no block's size.
CLASSES = r"""
#include <stdlib.h>
static void *volatile block;
int main(void)
{
	for (int i = 0; i < 10; i++) block = malloc(5000 + i);
	block = malloc(5500);
	return 0;
}
"""


def sizes_of(heapgauge, env, path):
    text = subprocess.run([heapgauge, "report", path, "-b"], env=env, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("  sizes ")]
    return line.split(";")[0].split(None, 1)[1]


def test_bounds_of_classes_and_samples_are_marked(record, scratch, heapgauge, clean_env):
    program = compile_c(scratch, "classes", CLASSES)
    exact = record([program])
    assert sizes_of(heapgauge, clean_env, exact.path) == "at least 4,096 B to at most 6,143 B, 5,049 B on average"
    sampled = record([program], "--mode", "sample", "--interval", "1KiB")
    assert sizes_of(heapgauge, clean_env, sampled.path).endswith(" B in the samples, 5,049 B on average in all")


ONE = "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(777); (void)block; return 0; }\n"


def test_one_allocation_is_one(record, scratch, heapgauge, clean_env):
    run = record([compile_c(scratch, "one", ONE)])
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "  allocated  1 allocation of 777 B" in text

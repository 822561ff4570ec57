# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of a run comes from the rows that were written: a reader of the file sees the same."""

import os
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

OPERATIONS = "20000" if os.environ.get("HEAPGAUGE_LONG") == "1" else "3000"
PROGRAMS = [
    (["shown_family"], []),
    (["shown_course"], []),
    (["many_forks", "in-turn", "20"], []),
    (["random_operations", "7", OPERATIONS], []),
    (["random_operations", "8", OPERATIONS], ["--mode", "sample", "--interval", "1KiB"]),
    (["new_stacks", "30000"], []),
    (["does_nothing"], []),
]


@pytest.mark.parametrize("words, options", PROGRAMS, ids=[" ".join(words + options) for words, options in PROGRAMS])
def test_a_reader_of_the_file_sees_what_the_summary_said(words, options, heapgauge, target, clean_env, scratch):
    path = scratch / "run.hg"
    argv = [target(words[0]), *words[1:]]
    done = subprocess.run(
        [heapgauge, "record", "-o", path, *options, "--", *argv], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    said = done.stderr[done.stderr.index("heapgauge: ") + len("heapgauge: ") : done.stderr.index("\n  wrote ")]
    read = subprocess.run(
        [heapgauge, "report", path, "--view", "summary", "--limit", "8"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert read.returncode == 0, read.stderr
    assert said == read.stdout


def test_the_options_in_effect_are_in_the_recording(record, report_json, heapgauge, scratch, clean_env):
    (scratch / ".heapgauge.ini").write_text("[record]\nevery = 1s\n")
    options = ("--on", "rss>80%", "--depth", "32", "--depth", "64")
    run = record(["/bin/true"], *options, env={"HEAPGAUGE_MODE": "sample", "HEAPGAUGE_DEPTH": "16"}, cwd=scratch)
    expected = "--mode sample --depth 64 --every 1s --on 'rss>80%'"
    assert report_json(run.path)["run"]["options"] == expected
    argv = [heapgauge, "report", run.path]
    text = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True).stdout
    assert f"  options    {expected}\n" in text
    # A merged recording has them if they are the same in all.
    other = record(["/bin/true"], "--depth", "7")
    for paths, kept in (((run.path, run.path), expected), ((run.path, other.path), "")):
        subprocess.run([heapgauge, "merge", *paths, "-o", scratch / "m.hg"], env=clean_env, check=True, capture_output=True)
        assert report_json(scratch / "m.hg")["run"]["options"] == kept
    (scratch / ".heapgauge.ini").unlink()
    assert report_json(record(["/bin/true"]).path)["run"]["options"] == ""


def text_of(heapgauge, env, path, *options):
    return subprocess.run([heapgauge, "report", path, *options], env=env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout


CALLS = """
#include <stdlib.h>
int main(void) { for (int i = 0; i < 1000; i++) { void *p = malloc(100); __asm__ volatile("" : "+r"(p)); } }
"""


def test_lost_calls_are_not_called_none(record, report_json, heapgauge, scratch, clean_env):
    """So little memory is not even enough for the first thread."""
    run = record([compile_c(scratch, "calls", CALLS)], "--budget", "200KiB")
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] == 0 and process["health"]["unregistered_calls"] >= 1000
    text = text_of(heapgauge, clean_env, run.path)
    assert "! 0 ALLOCATIONS RECORDED: the calls that the program made could not be recorded; the view health says why\n" in text
    assert "no call reached the recorder" not in text


# Its blocks are in static data, or in mappings of its own, which are recorded.
OWN = """
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef MAPS
void *malloc(size_t size) { return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
#else
static char memory[64 << 20];
static size_t used;
void *malloc(size_t size) { used += size; return memory + used - size; }
#endif
void free(void *block) { (void)block; }
int main(void) { for (int i = 0; i < 40; i++) memset(malloc(1 << 20), 1, 1 << 20); usleep(600000); return 0; }
"""


@pytest.mark.parametrize("way", ["STATIC", "MAPS"])
def test_coverage_without_the_blocks_of_an_own_allocator(way, record, heapgauge, scratch, clean_env):
    """It is not explained by what was recorded that 40 MiB are in no recorded block."""
    run = record([compile_c(scratch, "own", OWN, f"-D{way}", "-fno-builtin")])
    for view in "summary", "memory":
        text = text_of(heapgauge, clean_env, run.path, "--view", view)
        assert "100.0 % of its heap and anonymous memory is in no recorded block" in text
        (line,) = [line for line in text.splitlines() if line.startswith("  coverage ")]
        assert line.split(None, 1)[1] == "unknown: the blocks of the program's own allocator were not recorded"

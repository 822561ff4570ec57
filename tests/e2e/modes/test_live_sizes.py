# SPDX-License-Identifier: Apache-2.0
"""The sizes of blocks that are live at the end and at snapshots: --view sizes --cost live."""

import collections
import subprocess
import time

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
    assert done.returncode != 0 and "were not kept: they are known at the end" in done.stderr
    old = scratch / "old.hg"
    subprocess.run([build / "made" / "make_recording", old, "100", "10"], check=True)
    done = subprocess.run([heapgauge, "report", old, "--view", "sizes", "--cost", "live"], capture_output=True, text=True, check=True)
    assert "their sizes were not kept" in done.stdout


# In three steps, after each of which it prints what it keeps and waits for a line.
STEPS = """
#include <stdio.h>
#include <stdlib.h>
static void *kept[2000];
static size_t of[2000];
static void say(void) {
    for (int i = 0; i < 2000; i++)
        if (kept[i]) printf("%zu ", of[i]);
    printf("\\n");
    fflush(stdout);
    getchar();
}
int main(void) {
    static char out[1 << 16], in[16];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    setvbuf(stdin, in, _IOFBF, sizeof in);
    for (int i = 0; i < 1000; i++) kept[i] = malloc(of[i] = (size_t)(i * i % 3001));
    say();
    for (int i = 1000; i < 2000; i++) kept[i] = malloc(of[i] = 40000u + (size_t)i);
    for (int i = 0; i < 1000; i += 3) { free(kept[i]); kept[i] = NULL; }
    say();
    for (int i = 1000; i < 2000; i++) kept[i] = realloc(kept[i], of[i] = 100);
    say();
}
"""


def by_class(sizes):
    """By power of two: blocks and bytes."""
    sums = collections.defaultdict(lambda: [0, 0])
    for size in sizes:
        sum_of = sums[1 << size.bit_length() - 1 if size else 0]
        sum_of[0] += 1
        sum_of[1] += size
    return {low: tuple(both) for low, both in sums.items()}


def run_steps(heapgauge, env, program, path, seconds):
    """What it kept in each step, by class; snapshots are taken all the time."""
    expected = []
    argv = [heapgauge, "record", "-q", "-o", path, "--every", "20ms", "--", program]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        for _ in range(3):
            expected.append(by_class(map(int, run.stdout.readline().split())))
            time.sleep(seconds)
            run.stdin.write("\n")
            run.stdin.flush()
    assert run.returncode == 0
    return expected


JUMP = """
#include <stdlib.h>
#include <unistd.h>
static void *kept[1000];
int main(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(100); usleep(500000); return kept[0] == NULL; }
"""


def test_two_snapshots_of_one_moment_have_the_sizes_once(record, scratch, report_json):
    """Both conditions become true at the same look."""
    run = record([compile_c(scratch, "jump", JUMP)], "--on", "live>90KiB", "--on", "live>91KiB")
    moments = report_json(run.path, "snapshots")["snapshots"]
    assert len(moments) == 2
    for number in (1, 2):
        sizes = report_json(run.path, "sizes", "--cost", "live", "--at", f"snap:{number}")["sizes"]
        assert [row["live_blocks"] for row in sizes if row["low_bytes"] == 64] == [1000]


def test_snapshots_have_the_sizes_of_then(heapgauge, scratch, clean_env, report_json):
    path, program = scratch / "steps.hg", compile_c(scratch, "steps", STEPS)
    for seconds in (0.5, 4, 20):  # a busy machine takes few
        expected = run_steps(heapgauge, clean_env, program, path, seconds)
        course = report_json(path, "sizes", "--cost", "live").get("live_bytes_by_time_and_size", {})
        moments = [next((at for at, sizes in course.items() if sizes == {str(low): both[1] for low, both in step.items()}), None) for step in expected]
        if all(moments):
            break
    assert all(moments) and moments == sorted(moments, key=int)
    for at, classes in zip(moments, expected):
        result = report_json(path, "sizes", "--cost", "live", "--at", f"time:{int(at) / 1e9:.9f}s")
        assert {row["low_bytes"]: (row["live_blocks"], row["live_bytes"]) for row in result["sizes"]} == classes
        assert (result["live_blocks"], result["live_bytes"]) == tuple(map(sum, zip(*classes.values())))
    done = subprocess.run([heapgauge, "report", path, "--view", "sizes", "--cost", "live", "--at", f"time:{int(moments[2]) / 1e9:.9f}s", "--focus", "main"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "kept for whole processes" in done.stderr


# Keeps 40 blocks, waits for a line, has a child that ends without freeing 60 blocks, and waits again.
CHILD = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void keep(int count, size_t size) { for (int i = 0; i < count; i++) { void *p = malloc(size); __asm__ volatile("" : "+r"(p)); } }
static void say(void) { printf("%d\\n", (int)getpid()); fflush(stdout); getchar(); }
int main(void) {
    static char out[64], in[64];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    setvbuf(stdin, in, _IOFBF, sizeof in);
    keep(40, 2000);
    say();
    if (fork() == 0) { keep(60, 500); _exit(0); }
    wait(NULL);
    say();
}
"""


def test_processes_that_do_not_run_have_no_sizes_then(heapgauge, scratch, clean_env, report_json):
    path, program = scratch / "child.hg", compile_c(scratch, "child", CHILD)
    argv = [heapgauge, "record", "-q", "-o", path, "--every", "20ms", "--", program]
    for seconds in (0.5, 4, 20):  # a busy machine takes few
        with subprocess.Popen(argv, env=clean_env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            for _ in range(2):
                pid = run.stdout.readline().strip()
                time.sleep(seconds)
                run.stdin.write("\n")
                run.stdin.flush()
        child = next(row for row in report_json(path, "processes")["processes"] if str(row["pid"]) != pid)
        began, ended = child["started_offset_ns"], child["started_offset_ns"] + child["duration_ns"]
        course = report_json(path, "sizes", "--cost", "live", "--process", pid)["live_bytes_by_time_and_size"]
        kept_at = [int(at) for at, sizes in course.items() if sizes == {"1024": 80000}]
        moments = [at for at in kept_at if at < began][:1] + [at for at in kept_at if at > ended][:1]
        if len(moments) == 2:
            break
    assert len(moments) == 2
    for at in moments:
        result = report_json(path, "sizes", "--cost", "live", "--at", f"time:{at / 1e9:.9f}s")
        assert [(row["low_bytes"], row["live_blocks"], row["live_bytes"]) for row in result["sizes"]] == [(1024, 40, 80000)]
        assert (result["live_blocks"], result["live_bytes"]) == (40, 80000)
    assert report_json(path, "sizes", "--cost", "live")["live_bytes"] == 40 * 2000 + 60 * 500  # what they did not free


ALIKE = "#include <stdlib.h>\nvoid *volatile block;\nint main(void) { for (int i = 0; i < 3; i++) block = malloc(1500000 + i * 100); block = malloc(9); }\n"


def test_sizes_that_look_alike_have_all_their_digits(heapgauge, scratch, record, report_json):
    run = record([compile_c(scratch, "alike", ALIKE)])
    expected = ["1,500,000 B", "1,500,100 B", "1,500,200 B", "9 B"]
    text = subprocess.run([heapgauge, "report", run.path, "--view", "sizes", "--cost", "live"], capture_output=True, text=True, check=True).stdout
    rows = text[text.index("  SIZE ") :].splitlines()[1:5]
    assert sorted(row.split("  ")[1] for row in rows) == expected
    groups = report_json(run.path, "functions", "--by", "size", "--cost", "total")["sizes"]
    assert sorted(row["size"] for row in groups) == expected

# SPDX-License-Identifier: Apache-2.0
"""What heapgauge check and diff say of recordings whose truth is known."""

import json
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, wait_for
from recorder import library

TINY = r"""
#include <stdlib.h>
static void *volatile block;
int main(void)
{
	for (int i = 0; i < 20200; i++)
		block = malloc(8);
	for (int i = 0; i < 30; i++)
		block = malloc(300000);
}
"""
ONE = "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(16); }\n"
GROWS = r"""
#include <stdlib.h>
static void *volatile block;
static __attribute__((noinline)) void grow(long n) { block = malloc(n); }
static __attribute__((noinline)) void other(long n) { block = malloc(n); }
int main(int argc, char **argv) { grow(atol(argv[1])); other(5000); }
"""

BECOMES = r"""
#include <stdlib.h>
#include <unistd.h>
static void *volatile block;
int main(int argc, char **argv)
{
	for (int i = 0; i < 5000; i++)
		block = malloc(10);
	if (argc > 1)
		execl(argv[1], argv[1], (char *)0);
}
"""


@pytest.fixture
def check(heapgauge, clean_env):
    """check(path, option...): status, and what it says as JSON; of status 2 maybe None, and the sentence."""

    def run(path, *options):
        argv = [heapgauge, "check", path, "--format", "json", *options]
        done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    return run


def test_a_budget_of_counts_is_not_kept_by_chance(check, record, scratch):
    """N5: 20,230 blocks were leaked; 35 of 60 sampled runs kept a limit of 1,000."""
    program = compile_c(scratch, "tiny", TINY)
    for _ in range(10):
        run = record([program], "--mode", "sample")
        assert check(run.path, "--max-leaked-blocks", "1000")[0] == 2
    assert check(record([program]).path, "--max-leaked-blocks", "1000")[0] == 1


def test_nothing_is_told_without_a_sample(check, record, scratch):
    """N5, C3: it was taken for an exact recording of a program that allocates nothing."""
    run = record([compile_c(scratch, "one", ONE)], "--mode", "sample", "--interval", "16MiB")
    assert check(run.path, "--max-peak", "100MiB")[0] == 2


def test_a_file_that_is_cut_or_damaged_keeps_no_budget(check, record, scratch):
    """What is missing would count as 0."""
    whole = record([compile_c(scratch, "tiny", TINY)]).path.read_bytes()
    path = scratch / "part.hg"
    steps = range(40, len(whole), len(whole) // 40)
    flipped = [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:] for at in steps]
    for part in [whole[:at] for at in steps] + flipped:
        path.write_bytes(part)
        assert check(path, "--max-leaked", "1KiB")[0] != 0
        assert check(path, "--max-peak", "1GiB")[0] != 0


def test_a_file_that_is_cut_is_not_passed_on_as_a_whole(heapgauge, clean_env, record, scratch):
    run = record([compile_c(scratch, "tiny", TINY)])
    path = scratch / "part.hg"
    path.write_bytes(run.path.read_bytes()[:-100])
    for argv, status, words in (
        (["merge", run.path, path, "-o", scratch / "merged.hg"], 1, "is damaged or was not finished"),
        (["export", path, "--format", "csv", "-o", scratch / "sites.csv"], 0, "the file was cut"),
    ):
        done = subprocess.run([heapgauge, *argv], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == status and words in done.stderr, done.stderr
    assert not (scratch / "merged.hg").exists()


def test_a_site_that_matches_nothing_keeps_no_budget(check, record, scratch):
    """N6: and of several sites a stack need match only one."""
    run = record([compile_c(scratch, "grows", GROWS), "100000"])
    status, _, said = check(run.path, "--max-leaked", "0", "--site", "nosuch")
    assert status == 2 and "no heap stack matches --site" in said
    assert check(run.path, "--max-leaked", "100000", "--site", "^grow$")[0] == 0
    assert check(run.path, "--max-leaked", "104999", "--site", "^grow$", "--site", "^other$")[0] == 1
    assert check(run.path, "--max-leaked", "105000", "--site", "^grow$", "--site", "^other$")[0] == 0


def test_the_guilty_of_several_processes_are_told_by_their_change(check, record, scratch):
    """N7: with several processes it named all that a stack holds as what it has more."""
    program = compile_c(scratch, "grows", GROWS)
    old, new = (
        record(["sh", "-c", f"{program} {bytes}; {program} 50; true"]) for bytes in (100000, 120000)
    )  # fmt: skip
    status, answer, _ = check(new.path, "--baseline", old.path)
    (row,) = [row for row in answer["budgets"] if row["verdict"] == "broken" and row["measure"] == "leaked"]
    assert status == 1
    assert [(site["label"].split()[0], site["value"]) for site in row["responsible_sites"]] == [("grow", 20000)]


def test_a_leak_that_came_is_not_noise(heapgauge, clean_env, record, scratch):
    """N8: of exact recordings, where all that is allocated stayed the same."""
    source = GROWS.replace("grow(atol(argv[1]));", "grow(1000); if (atol(argv[1])) free(block);")
    program = compile_c(scratch, "leaks", source)
    old, new = (record([program, frees]).path for frees in ("1", "0"))
    argv = [heapgauge, "diff", old, new, "--cost", "leaked"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    assert "grow" in done.stdout and "noise" not in done.stdout, done.stdout


HELLO = {
    "c": (["gcc"], "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { LEAK puts(\"hello\"); }\n", "void *volatile p = malloc(1);"),
    "cc": (
        ["g++"],
        "#include <iostream>\n#include <string>\nint main() { LEAK std::cout << std::string(100, 'x') << std::endl; }\n",
        "auto *volatile p = new char;",
    ),
    "rs": (["rustc"], "fn main() { LEAK println!(\"hello\"); }\n", "std::mem::forget(std::hint::black_box(Box::new(1u8)));"),
    "f90": (
        ["gfortran"],
        "program hello\nuse iso_c_binding\ninterface\nfunction malloc(n) bind(c)\nimport\ntype(c_ptr) :: malloc\n"
        "integer(c_size_t), value :: n\nend function\nend interface\ntype(c_ptr) :: p\nLEAK\nprint *, 'hello'\nend program\n",
        "p = malloc(1_c_size_t)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", HELLO)
def test_hello_world_leaks_nothing_and_one_byte_is_seen(language, check, record, scratch):
    """N16: stdio's buffer, libstdc++'s pool and the like failed the README's own example."""
    compiler, source, leak = HELLO[language]
    for name, text in (("hello", ""), ("leaky", leak)):
        (scratch / f"{name}.{language}").write_text(source.replace("LEAK", text))
        argv = [*compiler, "-g", scratch / f"{name}.{language}", "-o", scratch / name]
        subprocess.run(argv, check=True, timeout=WAIT_SECONDS, cwd=scratch)
        run = record([scratch / name])
        status, answer, _ = check(run.path, "--max-leaked", "0")
        assert (status, answer["budgets"][0]["value"]) == ((1, 1) if text else (0, 0)), answer
    assert check(run.path, "--max-leaked", "0", "--suppressions", "none")[1]["budgets"][0]["value"] > 1


@pytest.mark.parametrize("language", HELLO)
def test_record_and_check_agree_on_hello_world(language, heapgauge, clean_env, check, scratch):
    """In one step as in two: the same memory is suppressed."""
    compiler, source, leak = HELLO[language]
    budgets = scratch / "budgets.ini"
    budgets.write_text("max-leaked = 0\n")
    for name, text, status in (("hello", "", 0), ("leaky", leak, 1)):
        (scratch / f"{name}.{language}").write_text(source.replace("LEAK", text))
        subprocess.run([*compiler, "-g", scratch / f"{name}.{language}", "-o", scratch / name], check=True, timeout=WAIT_SECONDS, cwd=scratch)
        argv = [heapgauge, "record", "-q", "-o", scratch / f"{name}.hg", "--check", budgets, "--", scratch / name]
        done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == status, done.stderr
        assert check(scratch / f"{name}.hg", "--budgets", budgets)[0] == status


def test_a_tolerance_in_bytes_and_the_source_line(check, record, scratch):
    program = compile_c(scratch, "grows", GROWS)
    before, after = (record([program, str(size)]).path for size in (100_000, 103_000))
    status, said, _ = check(after, "--baseline", before, "--tolerance", "2%")
    assert status == 1
    (peak,) = [row for row in said["budgets"] if row["measure"] == "peak"]
    assert peak["limit"] == int(105_000 * 1.02) and peak["value"] == 108_000
    site = peak["responsible_sites"][0]
    assert site["file"] == str(scratch / "grows.c") and site["line"] == 4 and site["label"] == "grow (grows.c:4)"
    assert check(after, "--baseline", before, "--tolerance", "2%,4KiB")[0] == 0
    for wrong in "2%,", "2%,much", "x", "-1%":
        assert "--tolerance needs" in check(after, "--baseline", before, "--tolerance", wrong)[2]


def test_a_baseline_of_other_programs_is_not_met(check, record, scratch):
    """Nothing was compared, so nothing was met."""
    ours, other = (record([compile_c(scratch, name, GROWS), "1000"]).path for name in ("grows", "other"))
    status, said, _ = check(ours, "--baseline", other)
    assert status == 2 and [row["program"] for row in said["budgets"]] == ["grows"]
    assert "no process of that name is in the baseline" in said["budgets"][0]["reason"]
    assert check(ours, "--baseline", ours)[0] == 0


def test_a_process_is_compared_with_its_counterpart(check, record, scratch):
    """Three of one program: each with the one that has its command line, and those of the same with the one that came as late."""
    program = compile_c(scratch, "grows", GROWS)

    def run(*sizes):
        return record(["sh", "-c", "; ".join(f"{program} {size}" for size in sizes)]).path

    assert check(run(1000, 900_000, 50_000), "--baseline", run(900_000, 50_000, 1000), "--process", "grows")[0] == 0
    status, said, _ = check(run(1001, 900_000), "--baseline", run(1000, 900_000), "--process", "^[^ ]*grows 1001$")
    assert status == 1 and {row["program"] for row in said["budgets"]} == {"grows"}
    assert [row["baseline"] for row in said["budgets"] if row["measure"] == "peak"] == [6000]
    assert "no process" in check(run(1000), "--max-peak", "1GiB", "--process", "nobody")[2]


def test_one_that_became_another_program_is_not_counted_with_it(check, record, scratch):
    """Both have the same process id."""
    one = compile_c(scratch, "one", ONE)
    run = record([compile_c(scratch, "becomes", BECOMES), str(one)])
    status, said, _ = check(run.path, "--max-calls", "4999")
    assert status == 0, said
    (row,) = said["budgets"]
    assert row["value"] < 4999


# Whose malloc is its own: the recorder sees none of its calls.
OWN = """
#include <string.h>
#include <unistd.h>
static char memory[1 << 20];
static size_t used;
void *malloc(size_t size) { used = (used + size + 15) & ~15ul; return used < sizeof memory ? memory + used - ((size + 15) & ~15ul) : 0; }
void free(void *block) { (void)block; }
int main(void) { for (int i = 0; i < 100; i++) memset(malloc(1000), 1, 1000); usleep(300000); return 0; }
"""


def reasons(answer):
    status, said, _ = answer
    assert status == 2, said
    return {row["reason"] for row in said["budgets"] if row["verdict"] == "unknown"}


def test_what_was_not_recorded_keeps_no_budget(check, record, scratch):
    program = compile_c(scratch, "grows", GROWS)
    dormant = record([program, "1000"], "--start", "dormant").path
    exact = record([program, "1000"]).path
    (why,) = reasons(check(dormant, "--max-peak", "1GiB", "--max-calls", "1000000", "--max-growth", "1GiB"))
    assert why == "the recorder was dormant (--mode exact records)"
    assert reasons(check(dormant, "--baseline", exact)) == {why}
    measures = ("peak", "not freed at exit", "calls")
    assert reasons(check(exact, "--baseline", dormant)) == {f"the baseline does not have its {measure}: {why}" for measure in measures}
    own = record([compile_c(scratch, "own", OWN)]).path
    assert reasons(check(own, "--max-peak", "1GiB")) == {"an allocator linked into the program was not recorded"}


def test_a_program_that_was_missed_keeps_no_budget(check, record, scratch):
    static = compile_c(scratch, "still", GROWS, "-static")
    run = record(["sh", "-c", f"{static} 1000; true"])
    assert reasons(check(run.path, "--max-peak", "1GiB")) == {"it was not recorded: statically linked"}
    assert check(run.path, "--max-peak", "1GiB", "--process", "sh")[0] == 0
    budgets = scratch / "budgets.ini"
    for pattern, status in (("st*", 2), ("dash", 0)):
        budgets.write_text(f"[{pattern}]\nmax-peak = 1GiB\n")
        assert check(run.path, "--budgets", budgets)[0] == status


def test_what_a_running_process_did_not_free_is_not_known(check, record, scratch):
    program = compile_c(scratch, "stays", GROWS.replace("other(5000);", "other(5000); sleep(4);"))
    run = record([program, "1000"], "--duration", "1s")
    assert reasons(check(run.path, "--max-leaked", "1GiB")) == {"the process was still running: what was live may be freed"}
    assert check(run.path, "--max-peak", "1GiB")[0] == 0
    assert check(run.path, "--baseline", run.path)[0] == 0


def test_diff_says_which_side_recorded_nothing(heapgauge, clean_env, record, scratch):
    """All of the other side seems to be new or gone."""
    program = compile_c(scratch, "grows", GROWS)
    dormant = record([program, "1000"], "--start", "dormant").path
    exact = record([program, "1000"]).path

    def diff(*argv):
        done = subprocess.run([heapgauge, "diff", *argv], env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
        return done.stdout

    why = "0 ALLOCATIONS RECORDED: the recorder was dormant all the time"
    for view in "summary", "sites", "tree", "functions":
        assert f"! BEFORE: {why}" in diff(dormant, exact, "--view", view)
        assert f"! AFTER: {why}" in diff(exact, dormant, "--view", view)
        assert "RECORDED" not in diff(exact, exact, "--view", view)
        assert json.loads(diff(dormant, exact, "--view", view, "--format", "json"))["note"].startswith(f"BEFORE: {why}")
    assert f"! AFTER, in 1 of 2 runs: {why}" in diff(exact, "--to", dormant, exact)


def said_of(heapgauge, env, path, *options):
    argv = [heapgauge, "check", path, *options]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS).stdout


def test_numbers_that_look_alike_have_all_their_digits(heapgauge, clean_env, record, scratch):
    path = record([compile_c(scratch, "grows", GROWS), "95001"]).path
    assert "peak 100,001 B > 100,000 B" in said_of(heapgauge, clean_env, path, "--max-peak", "100000")
    assert "peak 100,001 B <= 100,002 B" in said_of(heapgauge, clean_env, path, "--max-peak", "100002")
    assert "peak 97.7 KiB > 48.8 KiB" in said_of(heapgauge, clean_env, path, "--max-peak", "50000")
    assert "peak 97.7 KiB <= 97.7 KiB" in said_of(heapgauge, clean_env, path, "--max-peak", "100001")


def test_without_a_sample_there_is_no_upper_bound(check, heapgauge, clean_env, record, scratch):
    path = record([compile_c(scratch, "one", ONE)], "--mode", "sample").path
    status, said, _ = check(path, "--max-peak", "1GiB")
    assert status == 2 and [(row["low"], row["high"]) for row in said["budgets"]] == [(0, None)]
    assert "peak 0 B (at least 0 B at 95 % confidence) <= 1.0 GiB, but " in said_of(heapgauge, clean_env, path, "--max-peak", "1GiB")


# Maps a MiB every 20 ms and writes to it; its heap is one block.
MAPS = r"""
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *volatile block;
__attribute__((noinline)) void map_window(void) { memset(mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 20); __asm__(""); }
int main(void) { block = malloc(100); for (int i = 0; i < 100; i++) { map_window(); usleep(20000); } }
"""


def test_mappings_are_said_to_be_outside_of_all_budgets(check, heapgauge, clean_env, record, scratch, report_json):
    run = record([compile_c(scratch, "maps", MAPS)])
    status, said, _ = check(run.path, "--max-peak", "1MiB")
    assert status == 0 and said["mapped_bytes"] == 100 << 20
    line = "mappings are not part of these budgets: up to 100.0 MiB in maps"
    assert said_of(heapgauge, clean_env, run.path, "--max-peak", "1MiB").splitlines()[-1].strip() == line
    assert f"::notice title=heapgauge::{line}\n" in said_of(heapgauge, clean_env, run.path, "--max-peak", "1MiB", "--format", "github")
    junit = scratch / "junit.xml"
    check(run.path, "--max-peak", "1MiB", "--junit", junit)
    assert f"<system-out>{line}</system-out>" in junit.read_text()
    status, _, error = check(run.path, "--max-peak", "1MiB", "--site", "map_window")
    assert status == 2 and "no heap stack matches --site" in error
    for view in "growth", "advice":
        assert report_json(run.path, view)["unjudged_mapped_bytes"] == 100 << 20
        text = subprocess.run([heapgauge, "report", run.path, "--view", view], env=clean_env, capture_output=True, text=True, check=True).stdout
        assert "up to 100.0 MiB of mappings are not judged (--view growth --kind mmap)" in text.splitlines()[0], text
    assert report_json(run.path, "growth", "--kind", "mmap")["unjudged_mapped_bytes"] == 0


def test_one_budget_is_said_in_the_singular(heapgauge, clean_env, record, scratch):
    run = record([compile_c(scratch, "one", ONE)])
    for options, line in ((("--max-peak", "1MiB"), "the budget is met"), (("--max-peak", "1MiB", "--max-calls", "9"), "all 2 budgets met")):
        assert said_of(heapgauge, clean_env, run.path, *options).splitlines()[0] == f"heapgauge: {line}"
        assert said_of(heapgauge, clean_env, run.path, *options, "--format", "github") == f"::notice title=heapgauge::{line}\n"


def test_rows_about_no_measure_have_no_number(check, record, scratch):
    run = record([compile_c(scratch, "one", ONE)])
    budgets, junit = scratch / "budgets.ini", scratch / "junit.xml"
    budgets.write_text("[other]\nmax-peak = 1MiB\n")
    status, said, _ = check(run.path, "--budgets", budgets, "--junit", junit)
    (row,) = said["budgets"]
    assert status == 2 and said["unknown"] == 1
    assert (row["program"], row["pid"], row["measure"], row["value"], row["limit"]) == ("other", 0, None, None, None)
    assert '<testcase classname="other" name="recorded">' in junit.read_text()


def test_nothing_checked_is_no_success(check, heapgauge, clean_env, record, scratch):
    """A file without a budget, before anything runs."""
    program = compile_c(scratch, "one", ONE)
    budgets = scratch / "budgets.ini"
    budgets.write_text("# max-peak = 1MiB\n")
    run = record([program])
    assert check(run.path, "--budgets", budgets)[0] == 2
    argv = [heapgauge, "record", "-o", scratch / "none.hg", "--check", budgets, "--", program]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 2 and f"{budgets} has no budget" in done.stderr and not (scratch / "none.hg").exists()


LEAKS = r"""
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile block;
__attribute__((noinline)) void leak(void) { block = malloc(1000); }
int main(int argc, char **argv) { for (long i = 0; i < atol(argv[1]); i++) { leak(); usleep(5000); } if (argc > 2) raise(SIGKILL); }
"""


def test_growth_that_was_not_judged_meets_no_budget(check, heapgauge, clean_env, record, report_json, scratch):
    """Too short a run, a process that was killed early, one that was attached for a moment, and a profile of another tool."""
    program = compile_c(scratch, "leaks", LEAKS)
    short = record([program, "10"]).path
    killed = record([program, "10", "killed"]).path
    late, self_recorded = scratch / "late.hg", clean_env | {"LD_PRELOAD": str(library(heapgauge.parent))}
    with subprocess.Popen([program, "100000"], env=self_recorded) as run:
        try:
            argv = [heapgauge, "record", "-q", "--pid", str(run.pid), "--duration", "300ms", "-o", late]
            wait_for(lambda: subprocess.run(argv, env=clean_env, capture_output=True, timeout=WAIT_SECONDS, check=False).returncode == 0, "the attach")
            live = json.loads(subprocess.run([heapgauge, "report", "--pid", str(run.pid), "--view", "growth", "--format", "json"], env=clean_env, capture_output=True, check=True).stdout)
        finally:
            run.kill()
    imported = scratch / "leaks.pb.gz"
    subprocess.run([heapgauge, "export", short, "--format", "pprof", "-o", imported], env=clean_env, check=True, timeout=WAIT_SECONDS)
    for path in short, killed, late, imported:
        status, said, _ = check(path, "--max-growth", "1GiB/s")
        (row,) = said["budgets"]
        assert status == 2 and (row["measure"], row["verdict"], row["value"]) == ("growth", "unknown", None), path
    for view in [report_json(path, "growth") for path in (short, killed, late)] + [live]:
        assert (view["heap_verdict"], view["growing_bytes_per_second"]) == ("unknown", None)
    for form in "text", "markdown":
        argv = [heapgauge, "report", late, "--view", "growth", "--format", form]
        assert "growth is unknown: a verdict needs 8 snapshots" in subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True).stdout

# SPDX-License-Identifier: Apache-2.0
"""The verdict of planted programs and of healthy ones: each was written down before it was run."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c
from running import compile_keeper, keeping, stood_still

HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define ALONE __attribute__((noinline))
static void *volatile kept[100000];
static int count;
"""

LEAK = ("growing", "unclear")  # the latter where the machine is too busy for enough snapshots

# name: (source, verdicts, what the sentence names)
PLANTED = {
    "leak_per_request": (
        r"""
ALONE static void parse(void) { kept[count++] = malloc(300); }
int main(void) { for (int i = 0; i < 3000; i++) { parse(); if (i % 10 == 0) usleep(2000); } return 0; }
""",
        LEAK, "from parse (",
    ),
    "leak_through_a_wrapper": (
        r"""
ALONE static void *checked(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
#define USE(i) ALONE static void use##i(void) { free(checked(20 * i + 8)); }
USE(1) USE(2) USE(3) USE(4) USE(5) USE(6) USE(7) USE(8) USE(9)
ALONE static void load(void) { kept[count++] = checked(700); }
int main(void)
{
	use1(); use2(); use3(); use4(); use5(); use6(); use7(); use8(); use9();
	for (int i = 0; i < 2000; i++) { load(); if (i % 10 == 0) usleep(2000); }
	return 0;
}
""",
        LEAK, "from load (",
    ),
    "leak_beside_a_large_table": (
        r"""
ALONE static void table(void) { kept[count++] = calloc(1, 8 << 20); }
ALONE static void forget(void) { kept[count++] = malloc(900); }
int main(void) { table(); for (int i = 0; i < 3000; i++) { forget(); if (i % 10 == 0) usleep(2000); } free(kept[0]); return 0; }
""",
        LEAK, "from forget (",
    ),
    "a_leak_below_a_large_peak": (
        r"""
ALONE static void buffer(void) { kept[99999] = malloc(400 << 20); free(kept[99999]); }
ALONE static void leak(void) { for (int i = 0; i < 200; i++) kept[count++] = malloc(100000); }
int main(void) { buffer(); leak(); _exit(0); }
""",
        (*LEAK, "kept"), "100.0 % from leak (",
    ),
    "many_stacks_of_one_owner": (
        r"""
ALONE static void parse(int depth) { kept[count++] = malloc(1000); if (depth) parse(depth - 1); __asm__ volatile(""); }
ALONE static void table(void) { kept[count++] = malloc(60000); }
int main(void) { table(); for (int i = 0; i < 20; i++) parse(200); _exit(0); }
""",
        (*LEAK, "kept"), "98.5 % from parse (",
    ),
    "little_and_nothing_freed": (
        r"""
int main(void) { for (int i = 0; i < 10; i++) kept[i] = malloc(1000); _exit(0); }
""",
        ("freed",), "Only 9.8 KiB was not freed at exit",
    ),
    "killed": (
        r"""
#include <signal.h>
int main(void) { for (int i = 0; i < 10; i++) kept[i] = malloc(1000); raise(SIGKILL); }
""",
        ("freed",), "Only 9.8 KiB was not freed when it was killed",
    ),
    "everything_freed": (
        r"""
int main(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(500); for (int i = 0; i < 1000; i++) free(kept[i]); _exit(0); }
""",
        ("freed",), "Everything was freed",
    ),
    "nearly_everything_freed": (
        r"""
ALONE static void build(void) { for (int i = 0; i < 5000; i++) kept[i] = malloc(1000); }
int main(void) { build(); for (int i = 0; i < 5000; i++) free(kept[i]); kept[0] = malloc(100); _exit(0); }
""",
        ("freed",), "All but 100 B had been freed",
    ),
    "a_cache_that_is_kept": (
        r"""
ALONE static void fill(void) { for (int i = 0; i < 40; i++) kept[i] = malloc(50000); }
int main(void) { fill(); for (int i = 0; i < 300; i++) { free(malloc(1000)); usleep(500); } _exit(0); }
""",
        ("kept",), "from fill (",
    ),
    "one_large_block_is_kept": (
        r"""
ALONE static void reserve(void) { kept[0] = malloc(30 << 20); memset(kept[0], 1, 30 << 20); }
int main(void) { reserve(); for (int i = 0; i < 200; i++) { free(malloc(1000)); usleep(500); } _exit(0); }
""",
        ("kept",), "from reserve (",
    ),
    "a_burst_makes_the_peak": (
        r"""
ALONE static void burst(void) { for (int i = 0; i < 2000; i++) kept[i] = malloc(10000); for (int i = 0; i < 2000; i++) free(kept[i]); }
int main(void) { usleep(300000); burst(); usleep(300000); _exit(0); }
""",
        ("freed",), "% in burst (",
    ),
    "the_peak_is_elsewhere": (
        r"""
ALONE static void small(void) { kept[99999] = malloc(1000); }
ALONE static void large(void) { kept[1] = malloc(5000000); memset(kept[1], 1, 5000000); free(kept[1]); }
int main(void) { small(); large(); _exit(0); }
""",
        ("freed",), "% in large (",
    ),
}


def report(heapgauge, env, path, *words):
    return subprocess.run(
        [heapgauge, "report", path, *words], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    ).stdout


def verdict_of(heapgauge, env, path):
    text = next(line for line in report(heapgauge, env, path).splitlines() if line.startswith("  verdict "))
    return json.loads(report(heapgauge, env, path, "--format", "json"))["verdict"]["kind"], text


def duration_of(heapgauge, env, path):
    return json.loads(report(heapgauge, env, path, "--format", "json"))["run"]["duration_ns"] / 1e9


def record(heapgauge, env, path, *argv, **options):
    subprocess.run(
        [heapgauge, "record", "-q", "-o", path, "--", *map(str, argv)],
        env=env, stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS, **options,
    )


@pytest.mark.parametrize("name", PLANTED)
def test_planted(heapgauge, clean_env, report_json, scratch, name):
    source, kind, named = PLANTED[name]
    program = compile_c(scratch, name, HEAD + source, "-g", "-O1", "-fno-ipa-icf")
    for _ in range(8):
        record(heapgauge, clean_env, scratch / "run.hg", program)
        if kind is not LEAK or not stood_still(report_json(scratch / "run.hg", "timeline")["timeline"]):
            break
    got, text = verdict_of(heapgauge, clean_env, scratch / "run.hg")
    assert got in kind and named in text, text


# In other languages: name: (command that builds {source} as {program}, suffix, source, verdicts, what the sentence names).
CPLUSPLUS = ["g++", "-g", "-O1", "-std=c++17", "-pthread", "{source}", "-o", "{program}"]
PYTHON = None  # a script
OTHER_LANGUAGES = {
    "a_map_of_strings_grows": (
        CPLUSPLUS, "cc",
        r"""
#include <map>
#include <string>
#include <unistd.h>
struct Sessions { std::map<int, std::string> all; void open(int id) { all[id] = std::string(400, 'x'); } };
int main() { Sessions sessions; for (int i = 0; i < 3000; i++) { sessions.open(i); if (i % 10 == 0) usleep(2000); } _exit(0); }
""",
        LEAK, "from Sessions::open (",
    ),
    "a_vector_doubles_for_the_peak": (
        CPLUSPLUS, "cc",
        r"""
#include <unistd.h>
#include <vector>
__attribute__((noinline)) static void collect(std::vector<long> &v) { for (long i = 0; i < 3000000; i++) v.push_back(i); }
int main() { { std::vector<long> v; collect(v); } _exit(0); }
""",
        ("freed",), "% in collect (",
    ),
    "a_thread_leaks": (
        CPLUSPLUS, "cc",
        r"""
#include <memory>
#include <thread>
#include <unistd.h>
struct Buffer { char bytes[5000]; };
__attribute__((noinline)) static void worker() { for (int i = 0; i < 2000; i++) { std::make_unique<Buffer>().release(); if (i % 10 == 0) usleep(2000); } }
int main() { std::thread(worker).join(); _exit(0); }
""",
        LEAK, "from worker (",
    ),
    "an_array_is_kept": (
        ["gfortran", "-g", "-O1", "{source}", "-o", "{program}"], "f90",
        """
module field
  real(8), allocatable, target :: grid(:, :)
contains
  subroutine set_up()
    allocate (grid(1000, 1000))
    grid = 1
  end subroutine
end module
program main
  use field
  use iso_c_binding
  interface
    subroutine leave(status) bind(c, name="_exit")
      use iso_c_binding
      integer(c_int), value :: status
    end subroutine
  end interface
  call set_up()
  call leave(0_c_int)
end program
""",
        ("kept",), "from field::set_up (",
    ),
    "boxes_are_forgotten": (
        ["rustc", "-g", "-Copt-level=1", "{source}", "-o", "{program}"], "rs",
        """
#[inline(never)]
fn handle(i: u64) { std::mem::forget(vec![i as u8; 700]); }
fn main() {
    for i in 0..3000 {
        handle(i);
        if i % 10 == 0 { std::thread::sleep(std::time::Duration::from_millis(2)); }
    }
}
""",
        LEAK, "handle (",
    ),
    "a_python_cache_grows": (
        PYTHON, "py",
        """
import os, time
cache = {}
def handle(i):
    cache[i] = bytearray(5000)
for i in range(2000):
    handle(i)
    if i % 10 == 0:
        time.sleep(0.002)
os._exit(0)
""",
        LEAK, "from handle (",
    ),
    "a_python_list_makes_the_peak": (
        PYTHON, "py",
        """
import os
def load():
    rows = [bytearray(20000) for _ in range(1000)]
    return len(rows)
load()
os._exit(0)
""",
        ("freed", "kept"), "% in load",
    ),
}


@pytest.mark.parametrize("name", OTHER_LANGUAGES)
def test_planted_in_other_languages(heapgauge, clean_env, report_json, scratch, name):
    command, suffix, source, kind, named = OTHER_LANGUAGES[name]
    program, text = scratch / name, scratch / f"{name}.{suffix}"
    text.write_text(source)
    if command and not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    if command:
        subprocess.run([word.format(source=text, program=program) for word in command], check=True, cwd=scratch)
    for _ in range(8):
        record(heapgauge, clean_env, scratch / "run.hg", *([program] if command else ["/usr/bin/python3", text]))
        if kind is not LEAK or not stood_still(report_json(scratch / "run.hg", "timeline")["timeline"]):
            break
    got, sentence = verdict_of(heapgauge, clean_env, scratch / "run.hg")
    assert got in kind and named in sentence, sentence


def test_one_reading_of_a_running_process_does_not_judge_growth(heapgauge, clean_env, build, scratch):
    """It has no snapshots: the process may leak."""
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env)) as run:
        words = [heapgauge, "report", "--pid", str(run.target)]
        shown = subprocess.run(words, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout
        known = json.loads(subprocess.run([*words, "--format", "json"], env=clean_env, capture_output=True, timeout=WAIT_SECONDS, check=True).stdout)
    assert (known["verdict"]["growth"], known["verdict"]["growth_snapshots"]) == ("unknown", 0)
    assert "; growth is unknown: there are no snapshots." in shown


HEALTHY = {
    "ls": ["ls", "-lR", "/usr/share/doc"],
    "find": ["find", "/usr/share", "-name", "*.gz"],
    "grep": ["grep", "-r", "the", "/usr/share/common-licenses"],
    "sed": ["sed", "s/a/b/g", "/usr/share/common-licenses/GPL-3"],
    "awk": ["awk", "{ n[$1]++ } END { for (k in n) print k, n[k] }", "/usr/share/common-licenses/GPL-3"],
    "tar": ["tar", "cf", "/dev/null", "/usr/share/common-licenses"],
    "xz": ["xz", "-c", "/usr/share/common-licenses/GPL-3"],
    "perl": ["perl", "-e", "my %h; $h{$_} = $_ x 3 for 1..20000; print scalar keys %h"],
    "python": ["/usr/bin/python3", "-c", "d = {i: str(i) for i in range(50000)}; print(len(d))"],
    "git": ["git", "--version"],
    "sort": ["sort", "-R", "/usr/share/common-licenses/GPL-3"],
    "diff": ["diff", "/usr/share/common-licenses/GPL-2", "/usr/share/common-licenses/GPL-3"],
    "dpkg": ["dpkg-query", "-W"],
    "bash": ["bash", "-c", "for i in {1..3000}; do a[i]=$i$i; done; echo ${#a[@]}"],
    "readelf": ["readelf", "-aW", "/bin/true"],
    "nm": ["nm", "-D", "/bin/bash"],
    "make": ["make", "-p", "-f", "/dev/null"],
    "curl": ["curl", "--version"],
    "sqlite": ["sqlite3", ":memory:", "create table t(x); with recursive n(i) as (select 1 union all select i+1 from n limit 20000) "
               "insert into t select i from n; select sum(x) from t;"],
    "node": ["node", "-e", "let a = []; for (let i = 0; i < 1e5; i++) a.push('x' + i); console.log(a.length)"],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(heapgauge, clean_env, scratch, name):
    """No false alarm."""
    argv = HEALTHY[name]
    if not shutil.which(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    record(heapgauge, clean_env, scratch / "run.hg", *argv)
    kind, text = verdict_of(heapgauge, clean_env, scratch / "run.hg")
    if kind == "growing" and duration_of(heapgauge, clean_env, scratch / "run.hg") > 1:
        pytest.skip("a busy machine: what starts for seconds does grow until its end")
    assert kind in ("freed", "kept", "unclear") and "it grew" not in text, text


def test_markdown_has_the_verdict_first_and_keeps_its_limit(heapgauge, clean_env, scratch):
    source, _, named = PLANTED["leak_through_a_wrapper"]
    program = compile_c(scratch, "wrapped", HEAD + source, "-g", "-O1")
    record(heapgauge, clean_env, scratch / "run.hg", program)
    markdown = lambda *words: subprocess.run(
        [heapgauge, "report", scratch / "run.hg", "--format", "markdown", *words],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS,
    )
    whole = markdown().stdout
    assert whole == markdown().stdout
    lines = whole.splitlines()
    assert lines[0].startswith("**") and lines[2].startswith("- **verdict**: ") and named in lines[2]
    assert "via checked" in lines[3] and any("coverage" in line for line in lines)
    assert any("heapgauge report" in line for line in lines)
    for tokens in (100, 120, 150, 200):
        cut = markdown("--max-tokens", str(tokens)).stdout
        assert len(cut.encode()) <= 4 * tokens and "verdict" in cut
        assert cut == whole or cut.endswith("(cut: raise --max-tokens)\n")
    assert "needs --format markdown" in subprocess.run(
        [heapgauge, "report", scratch / "run.hg", "--max-tokens", "100"], env=clean_env, capture_output=True, text=True
    ).stderr
    assert markdown("--max-tokens", "7").returncode == 2


def test_names_are_escaped_in_markdown(heapgauge, clean_env, scratch):
    program = compile_c(scratch, "p", HEAD + "int main(void) { kept[0] = malloc(1); return 0; }", "-g")
    odd = scratch / "a<b>|`*[x](y)__c__~d&e_f_g"
    program.rename(odd)
    record(heapgauge, clean_env, scratch / "run.hg", odd)
    text = subprocess.run(
        [heapgauge, "report", scratch / "run.hg", "--format", "markdown"], env=clean_env, capture_output=True, text=True
    ).stdout
    assert r"a\<b>\|\`\*\[x](y)\_\_c\_\_\~d\&e_f_g" in text.splitlines()[0]


# name: (what the program does before and after, what the verdict of the comparison says)
COMPARED = {
    "larger": ("grow(100, 1000)", "grow(100, 2000)", r"not freed \+97\.7 KiB, 100\.0 % of it in grow \(.*: the same number of blocks, 2\.0 times their size\."),
    "more": ("grow(100, 1000)", "grow(300, 1000)", r"of it in grow \(.*: 300 blocks instead of 100, of the same size\."),
    "new": ("other(50, 1000)", "other(50, 1000); grow(100, 1000)", r"100\.0 % of it in grow \(.*\): 100 blocks instead of 0\."),
    "gone": ("other(50, 1000); grow(100, 1000)", "other(50, 1000)", r"not freed -97\.7 KiB, 100\.0 % of it in grow \(.*\): 0 blocks instead of 100\."),
    "same": ("grow(100, 1000)", "grow(100, 1000)", r"Peak and memory not freed unchanged\."),
    "leak_among_temporaries": (
        "serve(20000, 0)", "serve(10, 8)", r"[Nn]ot freed \+2\.0 KiB, 100\.0 % of it in serve \(.*\): 8 blocks instead of 0\.",
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_compared(heapgauge, clean_env, scratch, name):
    *bodies, expected = COMPARED[name]
    source = HEAD + r"""
ALONE static void grow(int calls, int bytes) { for (int i = 0; i < calls; i++) kept[count++] = malloc(bytes); }
ALONE static void serve(int temporaries, int kept_blocks)
{
	while (temporaries--) free(kept[count] = malloc(10));
	while (kept_blocks--) kept[count++] = malloc(256);
}
ALONE static void other(int calls, int bytes) { for (int i = 0; i < calls; i++) kept[count++] = malloc(bytes); }
int main(void) { BODY; _exit(0); }
"""
    for side, body in zip(("before", "after"), bodies):
        folder = scratch / side
        folder.mkdir()
        program = compile_c(folder, "program", source, f"-DBODY={body}", "-fno-ipa-icf", "-Wno-unused-function")
        record(heapgauge, clean_env, scratch / f"{side}.hg", program)
    done = subprocess.run(
        [heapgauge, "diff", scratch / "before.hg", scratch / "after.hg"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    verdict = next(line for line in done.stdout.splitlines() if line.startswith("  verdict "))
    assert re.search(expected, verdict), verdict


GROWING_CACHE = """
import time
cache = {}
def remember(i):
    cache[i] = ["a value", str(i), i * 1.5]
for i in range(250_000):
    remember(i)
    if i % 2500 == 0:
        time.sleep(0.035)
"""


@pytest.mark.parametrize("domains", [False, True])
def test_a_python_cache_that_grows_is_not_called_bounded(heapgauge, clean_env, scratch, domains):
    """A dictionary doubles in few steps, what is in it is in arenas, and the interpreter frees all of it at the end."""
    (scratch / "grows.py").write_text(GROWING_CACHE)
    options = ["--python", "domains"] if domains else []
    argv = [heapgauge, "record", *options, "-o", scratch / "grows.hg", "--", pathlib.Path(sys.base_prefix) / "bin/python3", scratch / "grows.py"]
    done = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    verdict = next(line for line in done.stderr.splitlines() if line.startswith("  verdict"))
    assert "nothing suggests" not in verdict and "nothing grows" not in verdict, verdict
    assert "in remember (grows.py:5)" in verdict, verdict
    if domains:
        assert "Then python.object held" in verdict and "  in pools " in done.stderr, done.stderr
    else:
        assert "record --python domains shows their lines" in verdict, verdict
    assert "RSS rose: at most " in verdict or "it grew by " in verdict, verdict

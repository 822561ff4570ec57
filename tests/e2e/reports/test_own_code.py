# SPDX-License-Identifier: Apache-2.0
"""Own code: who is named for a stack, by which rule, and that the rule is the recording's."""

import json
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

LIBRARY = r"""
#include <stdlib.h>
__attribute__((noinline)) void *library_make(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
"""
PROGRAM = r"""
#include <stdlib.h>
void *library_make(size_t n);
static void *volatile kept;
__attribute__((noinline)) static void mine(void) { kept = library_make(5000); __asm__ volatile(""); }
int main(void) { mine(); return 0; }
"""


@pytest.fixture
def run(heapgauge, clean_env):
    def call(*words, **options):
        done = subprocess.run(
            [heapgauge, *map(str, words)], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, **options
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture
def program(scratch):
    """A program in a repository, with a library from elsewhere."""
    elsewhere, project = scratch / "elsewhere", scratch / "project"
    elsewhere.mkdir()
    (project / ".git").mkdir(parents=True)
    library = compile_c(elsewhere, "libmake.so", LIBRARY, "-shared", "-fPIC")
    return compile_c(project, "program", PROGRAM, "-Wl,--no-as-needed", library, f"-Wl,-rpath,{elsewhere}")


def owners(run, path, *words):
    return [row["own"] for row in json.loads(run("report", path, "--by", "own", "--cost", "leaked", "--format", "json", *words))["owners"]]


def labels(run, path, *words):
    """The last column of the rows, which are those without a deeper indentation."""
    lines = run("report", path, "--view", "leaks", *words).splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith(" FROM"))
    return [re.split(r" {2,}", line)[-1] for line in lines[start + 1 :] if re.match(r" +\d", line) and "%" in line]


def test_the_project_is_the_repository_of_the_program(run, program, scratch):
    path = scratch / "run.hg"
    run("record", "-q", "-o", path, "--", program)
    assert labels(run, path)[0] == "mine (program.c:5) via library_make"
    assert "mine (program.c:5)" in owners(run, path)
    health = json.loads(run("report", path, "--view", "health", "--format", "json"))
    assert health["own_code"] == f"source files below {program.parent}/"
    frames = {f["function"]: f["own"] for f in json.loads(run("report", path, "--view", "leaks", "--format", "json"))["frames"]}
    assert frames["mine"] and frames["main"] and not frames["library_make"]


def test_the_rule_is_the_recordings(run, program, scratch):
    """It does not depend on what the reader finds: the repository may be gone."""
    path = scratch / "run.hg"
    run("record", "-q", "-o", path, "--", program)
    (program.parent / ".git").rmdir()
    assert labels(run, path)[0].startswith("mine ")


def test_a_regex_is_stored_and_another_can_be_given(run, program, scratch):
    path = scratch / "run.hg"
    run("record", "-q", "--own", "libmake", "-o", path, "--", program)
    assert labels(run, path)[0] == "library_make (libmake.so.c:3)"
    assert labels(run, path, "--own", "^mine$")[0].startswith("mine ")
    assert json.loads(run("report", path, "--view", "health", "--format", "json"))["own_code"] == "frames that match libmake"


def test_no_own_shows_who_allocates(run, program, scratch):
    path = scratch / "run.hg"
    run("record", "-q", "-o", path, "--", program)
    assert labels(run, path, "--no-own")[0].startswith("library_make (")


def test_filters_by_module_are_about_who_allocates(run, program, scratch):
    """--module asks which library allocates, not whose fault it is."""
    path = scratch / "run.hg"
    run("record", "-q", "-o", path, "--", program)
    assert labels(run, path, "--module", "libmake")[0].startswith("mine ")


def test_a_comparison_uses_the_baselines_rule(run, program, scratch):
    old, new = scratch / "old.hg", scratch / "new.hg"
    run("record", "-q", "--own", "^mine$", "-o", old, "--", program)
    run("record", "-q", "--own", "libmake", "-o", new, "--", program)
    rows = json.loads(run("diff", old, new, "--by", "own", "--cost", "total", "--format", "json"))
    assert "library_make" not in json.dumps(rows["owners"])


@pytest.mark.parametrize("regex, message", [("(", "not a regular expression"), ("a{3}", "without {}"), ("a" * 300, "256")])
def test_a_wrong_rule_is_refused_before_the_program_runs(heapgauge, clean_env, program, scratch, regex, message):
    done = subprocess.run(
        [heapgauge, "record", "--own", regex, "-o", scratch / "run.hg", "--", program], env=clean_env, capture_output=True, text=True
    )
    assert done.returncode == 2 and message in done.stderr and not (scratch / "run.hg").exists()


def test_python_names_the_script(run, scratch):
    script = scratch / "app.py"
    script.write_text("import json\nkept = []\ndef handle():\n    kept.append(json.dumps(list(range(20000))))\nfor i in range(50): handle()\n")
    run("record", "-q", "-o", scratch / "run.hg", "--", "/usr/bin/python3", script)
    rows = json.loads(run("report", scratch / "run.hg", "--by", "own", "--cost", "peak", "--format", "json"))["owners"]
    assert rows[0]["own"] == "handle (app.py:4)"
    script.write_text("import json\nkept = [json.dumps(list(range(20000))) for _ in range(50)]\n")
    run("record", "-q", "-o", scratch / "top.hg", "--", "/usr/bin/python3", script)
    rows = json.loads(run("report", scratch / "top.hg", "--by", "own", "--cost", "peak", "--format", "json"))["owners"]
    assert rows[0]["own"] in ("<listcomp> (app.py:2)", "<module> (app.py:2)")


DEEP_LIBRARY = r"""
#include <stdlib.h>
#define STEP __attribute__((noinline))
STEP void *deep_4(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
STEP void *deep_3(size_t n) { void *p = deep_4(n); __asm__ volatile("" : "+r"(p)); return p; }
STEP void *deep_2(size_t n) { void *p = deep_3(n); __asm__ volatile("" : "+r"(p)); return p; }
STEP void *deep_make(size_t n) { void *p = deep_2(n); __asm__ volatile("" : "+r"(p)); return p; }
STEP void each_2(void (*f)(void)) { f(); __asm__ volatile(""); }
STEP void each(void (*f)(void)) { each_2(f); __asm__ volatile(""); }
STEP void each_allocates(void (*f)(void)) { void *volatile p = malloc(1000); (void)p; f(); __asm__ volatile(""); }
"""
DEEP_PROGRAM = r"""
#include <stdlib.h>
void *deep_make(size_t n);
void each(void (*f)(void));
void each_allocates(void (*f)(void));
static void *volatile kept;
__attribute__((noinline)) static void mine(void) { kept = deep_make(5000); __asm__ volatile(""); }
static void called(void) { kept = malloc(3000); __asm__ volatile(""); }
static void called_too(void) { kept = malloc(2000); __asm__ volatile(""); }
int main(void) { mine(); each(called); each_allocates(called_too); return 0; }
"""


@pytest.fixture
def deep(run, scratch):
    """The recording of a program that calls and is called by a library."""
    elsewhere, project = scratch / "elsewhere", scratch / "project"
    elsewhere.mkdir()
    (project / ".git").mkdir(parents=True)
    library = compile_c(elsewhere, "libdeep.so", DEEP_LIBRARY, "-shared", "-fPIC")
    program = compile_c(project, "program", DEEP_PROGRAM, "-Wl,--no-as-needed", library, f"-Wl,-rpath,{elsewhere}")
    run("record", "-q", "-o", scratch / "run.hg", "--", program)
    return scratch / "run.hg"


def tree(run, path, *words):
    report = json.loads(run("report", path, "--view", "tree", "--format", "json", "--threshold", "0", *words))
    return [(row["depth"], row["function"], row["live_bytes"], row["self"]) for row in report["tree"]]


def test_the_tree_leads_with_own_code(run, deep):
    """The function that own code calls stays; what it does inside, and what leads to own code, is left out. All numbers add up."""
    assert tree(run, deep) == [
        (1, "main", 11000, 0),
        (2, "mine", 5000, 0),
        (3, "deep_make", 5000, 5000),
        (2, "called", 3000, 3000),
        (2, "called_too", 2000, 2000),
        (2, "each_allocates", 1000, 1000),
    ]
    text = run("report", deep, "--view", "tree")
    assert "frames of libraries around own code are left out (--no-own shows them)" in text


def test_the_tree_of_callees_leads_with_own_code(run, deep):
    assert tree(run, deep, "--callees") == [
        (1, "mine", 5000, 0),
        (2, "main", 5000, 5000),
        (1, "called", 3000, 0),
        (2, "main", 3000, 3000),
        (1, "called_too", 2000, 0),
        (2, "main", 2000, 2000),
        (1, "main", 1000, 1000),
    ]


def test_a_tree_shows_two_costs(run, deep):
    """Each is the one that a tree of its own shows, whichever leads."""
    def rows(cost):
        report = json.loads(run("report", deep, "--format", "json", "--threshold", "0", "--cost", cost, "--view", "tree"))
        return {(row["depth"], row["function"]): row for row in report["tree"]}

    for both, second, key in ("calls,total", "total", "total_bytes"), ("peak,calls", "calls", "calls"), ("total,calls", "calls", "calls"):
        shown, alone = rows(both), rows(second)
        assert {name: row[key] for name, row in shown.items()} == {name: row[key] for name, row in alone.items()}, both
    assert run("report", deep, "--cost", "calls,total") == run("report", deep, "--cost", "calls,total", "--view", "tree")


FREED = """
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline, noipa)) static void keeps(void) { kept = malloc(100); }
__attribute__((noinline, noipa)) static void frees(void) { for (int i = 0; i < 1000; i++) { kept = malloc(50); free(kept); } }
__attribute__((noinline, noipa)) static void both(int which) { if (which) keeps(); else frees(); }
int main(void) { both(0); both(1); return 0; }
"""


@pytest.mark.parametrize("options", [[], ["--no-own"], ["--callees"]])
def test_a_tree_counts_the_calls_of_what_was_freed(options, heapgauge, scratch, clean_env, run):
    """What left nothing is no row, but the functions above it have its calls."""
    program = compile_c(scratch, "freed", FREED)
    subprocess.run([heapgauge, "record", "-q", "-o", scratch / "freed.hg", "--", program], env=clean_env, check=True)
    report = json.loads(run("report", scratch / "freed.hg", "--view", "tree", "--cost", "leaked,calls", "--format", "json", *options))
    rows = {row["function"]: (row["live_bytes"], row["calls"]) for row in report["tree"]}
    callers = {} if options == ["--callees"] else {"main": (100, 1001), "both": (100, 1001)}
    assert {name: rows.get(name) for name in callers} == callers and rows["keeps"] == (100, 1)
    assert None not in rows and "frees" not in rows


@pytest.mark.parametrize(
    "cost, why",
    [("peak,leaked", "of two moments"), ("total,peak", "name it first, peak,total"), ("calls,calls", "the same cost twice"), ("calls,", "does not take ''"),
     ("a,calls", "does not take 'a'"), ("calls,total,waste", "does not take 'total,waste'")],
)
def test_two_costs_that_make_no_sense(heapgauge, deep, clean_env, cost, why):
    done = subprocess.run([heapgauge, "report", deep, "--cost", cost], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 2 and why in done.stderr, done.stderr


def flame(run, path, *words):
    report = json.loads(run("report", path, "--view", "flame", "--format", "json", *words))
    nodes = report["nodes"]
    return [(report["names"][name]["function"] if name >= 0 else "", value) for name, value in zip(nodes["name"], nodes["value"], strict=True)]


def test_a_flame_graph_leads_with_own_code_if_asked(run, deep):
    assert flame(run, deep, "--fold-libraries") == [(function, live) for _, function, live, _ in tree(run, deep)]
    assert flame(run, deep) == [(function, live) for _, function, live, _ in tree(run, deep, "--no-own")]


def test_no_own_shows_the_whole_tree(run, deep):
    functions = [row[1] for row in tree(run, deep, "--no-own")]
    assert {"deep_4", "each_2", "__libc_start_call_main"} <= set(functions)
    assert "left out" not in run("report", deep, "--view", "tree", "--no-own")


def test_a_tree_without_own_code_is_whole(run, deep):
    assert [row[1] for row in tree(run, deep)] != [row[1] for row in tree(run, deep, "--own", "nothing_has_this_name")]
    assert "deep_4" in [row[1] for row in tree(run, deep, "--own", "nothing_has_this_name")]


def test_stacks_lead_with_own_code(run, deep):
    lines = run("report", deep, "--view", "leaks").splitlines()
    first = next(i for i, line in enumerate(lines) if line.endswith(" FROM")) + 2
    assert [line.strip() for line in lines[first : first + 4]] == [
        "... 3 library frames (--no-own shows them)",
        "deep_make  libdeep.so.c:7",
        "mine  program.c:7",
        "main  program.c:10",
    ]
    assert re.fullmatch(r" +\.\.\. [23] library frames", lines[first + 4]), lines
    whole = run("report", deep, "--view", "leaks", "--no-own")
    assert "deep_4" in whole and "library frames" not in whole

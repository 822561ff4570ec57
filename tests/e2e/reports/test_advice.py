# SPDX-License-Identifier: Apache-2.0
"""Every rule of the view advice fires where it should (N15), with the saving that the program counted itself, and is silent
where the same work is done well. A target says what it expects: "ADVICE rule=reserve site=grow saving_calls=50"."""

import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import compile_c

TARGETS = sorted(path.stem for path in (pathlib.Path(__file__).parents[2] / "targets" / "advice").glob("advice_*.c*"))


def expectations(stdout):
    for line in stdout.splitlines():
        if line.startswith("ADVICE "):
            yield [re.match(r"(\w+)(>?=)(\w+)", word).groups() for word in line.split()[1:]]


def owner(row, program):
    """The innermost function of the program itself."""
    own = (f["function"] for f in row["stack"] if f["module"] == str(program))
    return next(name.partition("(")[0] for name in own if "std::" not in name)


@pytest.mark.parametrize("name", TARGETS)
def test_a_rule_fires_with_the_saving_that_was_counted(record, report_json, target, name):
    run = record([target(name), "bad"])
    assert run.returncode == 0
    wanted = list(expectations(run.stdout))
    assert wanted, "the target says what it expects"
    found = report_json(run.path, "advice")["findings"]
    assert [row["rule"] for row in found] == [want[0][2] for want in wanted]
    for row, want in zip(found, wanted):
        assert owner(row, target(name)) == want[1][2]
        for key, compared, value in want[2:]:
            assert row[key] == int(value) if compared == "=" else row[key] >= int(value), key
        assert row["todo"] and row["title"] and row["evidence"]["calls"] > 0


@pytest.mark.parametrize("name", TARGETS)
def test_a_rule_is_silent_where_it_should_be(record, report_json, heapgauge, target, name):
    run = record([target(name), "good"])
    assert run.returncode == 0
    assert report_json(run.path, "advice")["findings"] == []
    text = subprocess.run(
        [heapgauge, "report", run.path, "--view", "advice"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "no findings" in text.splitlines()[0]


def test_a_sampled_run_calls_no_memory_unused_that_was_written(record, heapgauge, target):
    """Its live bytes are an estimate, which may be above what is resident."""
    run = record([target("advice_untouched"), "good"], "--mode", "sample", "--interval", "64KiB")
    assert run.returncode == 0
    for view in "summary", "advice":
        text = subprocess.run([heapgauge, "report", run.path, "--view", view], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert not re.search(r"not resident|(?<!_)untouched|never (used|written)", text), text


def test_every_rule_has_a_target(heapgauge):
    """By the source: a rule without a target is not tested."""
    rules = (pathlib.Path(__file__).parents[3] / "src/analysis/advice/rules.c").read_text()
    named = {line.split('"')[1] for line in rules.splitlines() if ".name =" in line}
    assert named and named <= {name.removeprefix("advice_") for name in TARGETS}


LOG = """
#include <stdlib.h>
#include <unistd.h>
static char *volatile text;
int main(void)
{
    for (int i = 1; i <= 600; i++) {
        text = realloc(text, i * 4000);
        usleep(1000);
    }
    return 0;
}
"""


def test_a_block_that_grows_is_not_called_short_lived(record, report_json, scratch):
    """Each realloc ends the block before, which lived for a moment."""
    found = report_json(record([compile_c(scratch, "log", LOG)]).path, "advice")["findings"]
    assert "burst" not in [row["rule"] for row in found]


LISTS = """
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
struct node { struct node *next; char *name; };
static struct node *make(int n)
{
    struct node *head = 0;
    for (int i = 0; i < n; i++) {
        struct node *node = malloc(sizeof *node);
        node->name = strdup("a name of a node, long");
        node->next = head;
        head = node;
    }
    usleep(atoi(getenv("PACE_US"))); /* on a busy machine too they come evenly */
    return head;
}
static struct node *volatile kept;
int main(int argc, char **argv)
{
    int children = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < children; i++) {
        if (fork())
            continue;
        for (int j = 0; j < 100; j++)
            kept = make(1000);
        _exit(0);
    }
    while (wait(0) > 0)
        ;
    for (int j = 0; !children && j < 100; j++)
        kept = make(1000);
    free(malloc(1000000));
    return 0;
}
"""


@pytest.fixture
def lists(scratch):
    """A program that drops lists of small blocks, itself or in as many children as its argument says."""
    return compile_c(scratch, "lists", LISTS)


@pytest.fixture
def evenly(record, report_json, lists):
    """Records it so slowly that it never seems to have stopped: what did not grow for a while is bounded, and no leak."""

    def run(*options, words=()):
        for pace_us in (2000, 10000, 50000):
            done = record([lists, *words], *options, env={"PACE_US": str(pace_us)})
            if report_json(done.path, "growth")["bounded_sites"] == 0:
                break
        return done

    return run


def test_n15_what_is_not_freed_is_not_told_to_use_a_pool(evenly, report_json):
    """N15: two lines of one function, and blocks so small that a pool would help, if they should be there at all."""
    found = report_json(evenly().path, "advice")["findings"]
    assert [(row["rule"], row["sites"], row["processes"]) for row in found] == [("kept", 2, 1)]
    assert found[0]["saving_not_freed_bytes"] == 100 * 1000 * (16 + 23)


def test_c13_one_finding_for_all_processes(evenly, report_json, heapgauge):
    """C13: advice repeats per process."""
    run = evenly(words=["4"])
    found = report_json(run.path, "advice")["findings"]
    assert [(row["rule"], row["processes"]) for row in found] == [("kept", 4)]
    assert found[0]["saving_not_freed_bytes"] == 4 * 100 * 1000 * (16 + 23)
    text = subprocess.run(
        [heapgauge, "report", run.path, "--view", "advice"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert text.count("\n  kept  ") == 1 and "in 4 processes" in text


def test_n15_no_advice_from_a_few_samples(evenly, report_json):
    """N15: 3.7 MiB with a sample every MiB are about four of them; with one every 16 KiB there are enough."""
    few = evenly("--mode", "sample", "--interval", "1MiB")
    assert report_json(few.path, "advice")["findings"] == []
    many = evenly("--mode", "sample", "--interval", "16KiB")
    assert [row["rule"] for row in report_json(many.path, "advice")["findings"]] == ["kept"]


def test_n15_findings_are_ranked_by_bytes(record, report_json, scratch):
    """N15: memory before copying, more before less."""
    program = compile_c(
        scratch,
        "ranked",
        """
        #include <stdlib.h>
        void *volatile kept;
        __attribute__((noinline)) void less(void) { kept = malloc(300); }
        __attribute__((noinline)) void more(void) { kept = malloc(700); }
        __attribute__((noinline)) void *grows(void *p, size_t n) { return kept = realloc(p, n); }
        int main(void)
        {
            for (int i = 0; i < 3000; i++) {
                less();
                more();
                void *p = 0;
                for (int j = 1; j < 10; j++)
                    p = grows(p, j * 4000);
                free(p);
            }
            return 0;
        }
        """,
    )
    found = report_json(record([program]).path, "advice")["findings"]
    assert [(row["rule"], owner(row, program)) for row in found] == [
        ("kept", "more"),
        ("kept", "less"),
        ("reserve", "grows"),
    ]


HEALTHY = {
    "ls": ["-la", "/usr/bin"],
    "cat": ["INPUT"],
    "sort": ["-R", "INPUT"],
    "gzip": ["-c", "INPUT"],
    "tar": ["cf", "/dev/null", "/usr/include"],
    "sed": ["s/1/2/g", "INPUT"],
    "awk": ["{ n[$1 % 1000] += $1 } END { for (k in n) print k, n[k] }", "INPUT"],
    "grep": ["-E", "1.*9$", "INPUT"],
    "xz": ["-c", "INPUT"],
    "find": ["/usr/include", "-name", "*.h"],
    "diff": ["INPUT", "INPUT"],
    "wc": ["INPUT"],
    "jq": ["-n", "[range(10000)] | add"],
    "bash": ["-c", "for i in $(seq 300); do x=$i; done"],
}


def test_n15_healthy_programs_get_no_advice(record, report_json, scratch):
    """N15: at least ten of those that are installed."""
    text = scratch / "input.txt"
    text.write_text("".join(f"{i}\n" for i in range(50000)))
    said, looked_at = {}, 0
    for name, arguments in HEALTHY.items():
        if not shutil.which(name):
            continue
        looked_at += 1
        run = record([name, *(str(text) if a == "INPUT" else a for a in arguments)])
        said[name] = [(row["rule"], row["site"]) for row in report_json(run.path, "advice")["findings"]]
    assert looked_at >= 10
    assert {name: rows for name, rows in said.items() if rows} == {}

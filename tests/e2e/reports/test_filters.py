# SPDX-License-Identifier: Apache-2.0
"""Every view takes a filter or refuses it with a sentence; none ignores it. A filter that matches nothing is an error."""

import json
import pathlib
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heapgauge/heapgauge.h>

static __attribute__((noinline)) void *alpha(size_t n) { void *volatile p = malloc(n); return p; }
static __attribute__((noinline)) void *beta(size_t n) { void *volatile p = malloc(n); return p; }

static void *work(void *unused)
{
	pthread_setname_np(pthread_self(), "worker");
	for (int i = 0; i < 50; i++)
		free(beta(3000));
	beta(3000);
	return unused;
}

int main(int argc, char **argv)
{
	static char pooled[10][64];
	pthread_t thread;
	char *grown = NULL;

	{
		HG_SCOPE("outer");
		for (int i = 0; i < 100; i++)
			alpha(100 + i);
	}
	hg_pool pool = hg_pool_new("things");
	for (int i = 0; i < 10; i++)
		hg_pool_alloc(pool, pooled[i], 64);
	hg_snapshot("middle");
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	alpha(100000);
	for (int i = 0; i < (argc > 1 ? 1000 : 100); i++) {
		grown = realloc(grown, 50 * (i + 1));
		free(alpha(300));
	}
	usleep(300000); /* it is looked at meanwhile */
	if (argc < 2 && fork() == 0)
		execl(argv[0], argv[0], "child", (char *)0);
	wait(NULL);
}
"""

VIEWS = [
    "summary", "peak", "leaks", "temporary", "lifetimes", "sizes", "reallocs", "threads", "sites", "advice", "memory", "globals", "processes",
    "health", "modules", "functions", "types", "tree", "flame", "tags", "pools", "freed-by", "snapshots", "timeline", "history", "growth",
]  # fmt: skip
FILTERS = {
    "process": ["--process", "child"],
    "thread": ["--thread", "worker"],
    "focus": ["--focus", "alpha"],
    "ignore": ["--ignore", "alpha"],
    "module": ["--module", "libc"],
    "not-module": ["--not-module", "rich"],
    "tag": ["--tag", "outer"],
    "pool": ["--pool", "things"],
    "min-size": ["--min-size", "2KiB"],
    "max-size": ["--max-size", "2KiB"],
    "kind": ["--kind", "mmap"],
    "cost": ["--cost", "temporary"],
    "at": ["--at", "snap:middle"],
    "by": ["--by", "thread"],
    "freed-in": ["--freed-in", "alpha"],
    "callees": ["--callees"],
    "depth": ["--depth", "1"],
    "threshold": ["--threshold", "99.99"],
}


# The same answer may be the right one: it is what they are about in any case, or all that they are about is in one place.
# A process that was looked at once has one sheet, whatever moment is asked for. Tags of all depths are in JSON.
SAME = {("leaks", "cost"), ("temporary", "cost"), ("memory", "at"), ("tags", "depth")} | {(view, name) for view in ("reallocs", "advice") for name in FILTERS}
ADDING_UP = ["sites", "tree", "functions", "flame", "types", "tags"]
COSTS = {"total": "total_bytes", "calls": "calls", "peak": "live_bytes", "leaked": "live_bytes", "temporary": "temporary_calls"}


@pytest.fixture(scope="module", params=["exact", "sample"])
def rich(request, heapgauge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rich")
    program = compile_c(folder, "rich", PROGRAM, "-pthread", f"-I{pathlib.Path(__file__).parents[3] / 'include'}")
    argv = [heapgauge, "record", "-q", "--free-sites", "--mode", request.param, "-o", folder / "rich.hg", "--", program]
    if request.param == "sample":
        argv[6:6] = ["--interval", "1KiB"]
    subprocess.run(argv, check=True, timeout=WAIT_SECONDS)
    return folder / "rich.hg"


@pytest.fixture(scope="module")
def report(heapgauge, rich):
    """report(view, option...): its JSON, or None and what was said."""

    def run(view, *options):
        argv = [heapgauge, "report", rich, "--view", view, "--format", "json", *options]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert (done.returncode == 0) == (done.stderr == ""), done.stderr
        return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stderr)

    return run


def has_rows(answer):
    return any(isinstance(value, list) and value for value in answer.values())


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_ignores_a_filter(view, report):
    """N11: the summary ignored all of them, and others some."""
    plain, _ = report(view)
    for name, options in FILTERS.items():
        answer, said = report(view, *options)
        if answer is None:
            assert re.search(f"--{name}|filters|only|nothing|of sizes", said), said
        elif (view, name) not in SAME and has_rows(plain):
            assert answer != plain, (view, options)


@pytest.mark.parametrize("view", VIEWS)
def test_a_filter_that_matches_nothing_is_an_error(view, report):
    """N11."""
    for option in ("process", "thread", "focus", "module", "tag", "pool"):
        answer, said = report(view, f"--{option}", "nosuch")
        assert answer is None and said.startswith("heapgauge: "), (view, option)


@pytest.mark.parametrize("cost", COSTS)
def test_totals_are_those_of_the_sites(cost, report):
    """What every view says that it shows is what the rows of the view sites add up to."""
    for name in ["plain", "process", "focus", "ignore", "min-size", "max-size", "thread"]:
        options = ["--cost", cost, "--kind", "heap", *FILTERS.get(name, [])]
        sites, _ = report("sites", *options)
        recount = sum(site[COSTS[cost]] for site in sites["sites"] if site["kind"] == "heap")
        for view in ADDING_UP:
            answer, said = report(view, *options)
            assert answer is not None, said
            assert answer["shown"] == recount, (view, options)


@pytest.mark.parametrize(
    "argv, said",
    [
        (["diff", "FILE", "FILE", "--view", "sites", "--freed-in", "alpha"], "omit --freed-in, or use 'heapgauge report --view freed-by'"),
        (["export", "FILE", "--format", "csv", "-o", "-", "--freed-in", "alpha"], "omit --freed-in, or use 'heapgauge report --view freed-by'"),
        (["diff", "FILE", "FILE", "--view", "sites", "--threshold", "5"], "the view sites takes no --threshold: omit it, or use the view tree"),
        (["diff", "FILE", "FILE", "--callees"], "the view summary takes no --callees: omit it, or use the view tree"),
    ],
)
def test_other_commands_ignore_none(argv, said, heapgauge, rich):
    done = subprocess.run([heapgauge, *(rich if word == "FILE" else word for word in argv)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and done.stdout == "" and said in done.stderr


def test_settings_for_trees_do_not_refuse_other_views(heapgauge, rich, tmp_path):
    """They are of all reports; an option that is typed is of this one."""
    (tmp_path / ".heapgauge.ini").write_text("[report]\ndepth = 1\ncallees = yes\nthreshold = 5\n")
    for view in "tree", "summary", "functions":
        subprocess.run([heapgauge, "report", rich, "--view", view], cwd=tmp_path, check=True, capture_output=True)

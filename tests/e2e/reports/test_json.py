# SPDX-License-Identifier: Apache-2.0
"""docs/json.md against what is printed: every key of every output is documented with its type, and every documented key is in the source."""

import json
import pathlib
import re
import subprocess

import pytest

from compiled import compile_c
from serving import Server, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS = 60
EVERY, QUESTION, FRAMES, SITES, GROUPS = "every view", "take a cost", "Frames", "Sites", "Groups"
COSTS = "live_bytes|live_blocks|total_bytes|calls|temporary_calls|max_bytes|internal_fragmentation_bytes|lifetime_ns|copied_bytes|calls_per_second"
VIEWS = [
    "summary", "peak", "leaks", "temporary", "lifetimes", "sizes", "reallocs", "threads", "sites", "advice", "memory", "globals", "pages", "pins", "map", "processes",
    "health", "modules", "functions", "types", "tree", "flame", "tags", "pools", "freed-by", "snapshots", "timeline", "history", "growth",
]  # fmt: skip
OF_PAGES = {"pages", "pins", "map"}  # of exact recordings that were asked for them
COMPARED = ["summary", "sites", "leaks", "functions", "types", "tree", "flame"]
AXES = ["function", "line", "file", "module", "thread", "size", "type", "process", "label", "tag", "pool", "language", "entry", "site"]

# Something of everything: scopes, labels, pools, snapshots, marks, threads that free for others, mappings, growth, reallocs, a child.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heapgauge/heapgauge.h>

static void *volatile passed[64], *volatile sink;

static void *worker(void *unused)
{
	(void)unused;
	for (int i = 0; i < 64; i++)
		free(passed[i]);
	return malloc(5000);
}

static void __attribute__((noinline)) grow(void)
{
	char *p = NULL;
	for (size_t size = 64; size < 200000; size += 4096)
		sink = p = realloc(p, size);
	free(p);
}

static void __attribute__((noinline)) leak(void)
{
	for (int i = 0; i < 200; i++) {
		sink = malloc(1000 + (size_t)i);
		usleep(2000);
	}
}

int main(void)
{
	pthread_t thread;

	{
		HG_SCOPE("server");
		for (int i = 0; i < 64; i++)
			passed[i] = malloc(333);
		hg_label("tenant", "acme");
		sink = malloc(70000);
	}
	pthread_create(&thread, NULL, worker, NULL);
	pthread_join(thread, NULL);
	hg_pool pool = hg_pool_new("arena");
	char *slab = malloc(65536);
	hg_pool_alloc(pool, slab, 100);
	hg_snapshot("first");
	for (int i = 0; i < 1000; i++)
		free((sink = malloc(50)));
	grow();
	sink = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(sink, 1, 1 << 19);
	hg_mark("half");
	leak();
	hg_snapshot("second");
	if (fork() == 0) {
		sink = malloc(12345);
		_exit(0);
	}
	wait(NULL);
	return 0;
}
"""


def pattern(key):
    """A documented key as a regular expression: words in capitals stand for others."""
    words = {"COST": f"({COSTS})", "ROWS": r"\w+", "AXIS": r"\w+"}
    return re.sub(r"[A-Z]{3,}", lambda word: words.get(word.group(), r"[^.\[\]]+"), re.escape(key))


def sections():
    """{title: (names in backticks of the title and the line below it, [(key, regular expression, type)])}"""
    found = {}
    for part in re.split(r"^## ", (ROOT / "docs" / "json.md").read_text(), flags=re.M)[1:]:
        title, body = part.split("\n", 1)
        first = body.strip().split("\n", 1)[0]
        names = set(re.findall(r"`([\w-]+)[^`]*`", title + ("" if first.startswith("|") else first)))
        rows = re.findall(r"^\| (`.*?) \| (.*?) \|", body, re.M)
        found[title] = names, [(key, pattern(key), kind) for keys, kind in rows for key in re.findall(r"`([^`]+)`", keys)]
    return found


DOCUMENTED = sections()


def of(*titles):
    return [row for title, (_, rows) in DOCUMENTED.items() for row in rows if any(part in title for part in titles)]


def of_view(view):
    shared = [part for part in (QUESTION, FRAMES, SITES, GROUPS) if any(part in title and view in names for title, (names, _) in DOCUMENTED.items())]
    return of(EVERY, *shared, f"`{view}`")


def printed(value, path=""):
    """(path, value) of everything that is no object or list with something in it."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from printed(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from printed(inner, f"{path}[]")
    else:
        yield path, value


NAMES = {bool: "boolean", int: "integer", str: "string", type(None): "null"}


def wrong(answer, documented, types=True):
    """What an answer has that is not documented, or not so."""
    keys = {}
    for path, value in printed(answer):
        keys.setdefault(path, []).append(value)
    assert answer["schema"] == 1 and next(iter(answer)) == "schema"
    for path, values in keys.items():
        plain = re.sub(r"_error(?=$|\[\])", "", path)
        exact = [kind for _, expression, kind in documented if re.fullmatch(expression, plain)]
        if not exact and all(value in ({}, []) for value in values):
            prefixes = (key[: end.start()] for key, _, _ in documented for end in re.finditer(r"[.\[]", key))
            if not any(re.fullmatch(pattern(prefix), path) for prefix in prefixes):
                yield f"{path} is not documented"
        elif not exact:
            yield f"{path} is not documented"
        elif types and plain == path:
            said = " ".join(exact)
            yield from (f"{path} is {value!r}, documented as {said}" for value in values if value not in ({}, []) and NAMES.get(type(value), "") not in said)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


@pytest.fixture(scope="module")
def command(heapgauge, folder):
    def run(*arguments, status=0):
        done = subprocess.run([heapgauge, *map(str, arguments)], env=page_env(folder), cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == status, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def rich(command, folder):
    compile_c(folder, "rich", PROGRAM, f"-I{ROOT / 'include'}", "-pthread")
    command("record", "-q", "--free-sites", "--pages-on", "end", "-o", "exact.hg", "--every", "20ms", "--", "./rich")
    command("record", "-q", "-o", "sampled.hg", "--mode", "sample", "--interval", "1KiB", "--every", "20ms", "--", "./rich")
    return folder


@pytest.mark.parametrize("file", ["exact.hg", "sampled.hg"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_key_of_a_view_is_documented(rich, command, view, file):
    if file == "sampled.hg" and view in OF_PAGES:
        command("report", file, "--view", view, status=1)
        return
    answer = json.loads(command("report", file, "--view", view, "--format", "json"))
    assert list(wrong(answer, of_view(view))) == []


def test_there_is_no_other_view():
    listed = re.search(r"analyses\[\] = \{(.*?)\n\};", (ROOT / "src/analysis/analyses.c").read_text(), re.S)[1]
    assert re.findall(r'^\t\{ "([\w-]+)"', listed, re.M) == VIEWS


@pytest.mark.parametrize("axis", AXES)
def test_every_key_of_a_group_is_documented(rich, command, axis):
    answer = json.loads(command("report", "exact.hg", "--by", axis, "--cost", "calls", "--format", "json"))
    assert list(wrong(answer, of(EVERY, QUESTION, GROUPS) + (of(SITES, FRAMES) if axis == "site" else []))) == []


@pytest.mark.parametrize("cost", ["peak", "leaked", "blocks", "total", "temporary", "max", "waste", "lifetime", "realloc", "rate"])
@pytest.mark.parametrize("view", ["functions", "tree", "sites", "flame"])
def test_every_cost_has_a_documented_key(rich, command, view, cost):
    answer = json.loads(command("report", "exact.hg", "--view", view, "--cost", cost, "--format", "json"))
    assert list(wrong(answer, of_view(view))) == []


@pytest.mark.parametrize("view", COMPARED)
def test_every_key_of_a_comparison_is_documented(rich, command, view):
    cost = [] if view == "summary" else ["--cost", "total"]
    answer = json.loads(command("diff", "exact.hg", "sampled.hg", "--view", view, *cost, "--format", "json"))
    assert list(wrong(answer, of(EVERY, QUESTION, FRAMES, GROUPS, "`tree`", "`flame`", "`diff`"))) == []


def test_what_is_known_of_threads_only_is_documented(rich, command):
    answer = json.loads(command("report", "exact.hg", "--view", "sites", "--thread", "rich", "--format", "json"))
    assert list(wrong(answer, of_view("sites"), types=False)) == []
    answer = json.loads(command("report", "exact.hg", "--by", "thread", "--format", "json"))
    assert answer["end_for_peak"] and list(wrong(answer, of(EVERY, QUESTION, GROUPS))) == []


def test_every_key_of_other_commands_is_documented(rich, command, folder):
    doctor = json.loads(command("doctor", "./rich", "--format", "json"))
    assert list(wrong(doctor, of("`doctor`"))) == []
    for file, extra in ("exact.hg", []), ("sampled.hg", []), ("exact.hg", ["--baseline", "sampled.hg"]):
        check = json.loads(command("check", file, "--max-leaked", "1", *extra, "--format", "json", status=1))
        assert check["broken"] and list(wrong(check, of("`check`"))) == []
    assert list(wrong(json.loads(command("list", "--format", "json")), of("`list`"))) == []
    (folder / "none").mkdir()
    assert list(wrong(json.loads(command("post-mortem", "none", "--format", "json")), of("`post-mortem`"))) == []
    for file in ("exact.hg", "sampled.hg"):
        lines = command("export", file, "--format", "jsonl", "-o", "-").splitlines()
        assert lines and [problem for line in lines for problem in wrong(json.loads(line), of("jsonl"))] == []


def test_every_answer_of_the_server_is_documented(rich, heapgauge, folder):
    server = Server(heapgauge, "exact.hg", "--no-open", env=page_env(folder), cwd=folder)
    try:
        for path in ("/api/about", f"/api/source?file={folder / 'rich.c'}", "/api/nothing"):
            answer = server.get(path).json()
            answer.pop("error", None)
            assert list(wrong(answer, of("The server"))) == [], path
        nothing = server.get("/api/result?view=sites&focus=no_such_function").json()
        assert nothing["unmatched"] and list(wrong(nothing, of_view("sites"))) == []
    finally:
        server.end()


def test_every_documented_key_is_in_the_source():
    sources = [*(ROOT / "src").rglob("*.c"), *(ROOT / "src").rglob("*.h")]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in sources)))
    keys = {word for _, rows in DOCUMENTED.values() for key, _, _ in rows for word in re.findall(r"\w+", key) if not word.isupper()}
    assert len(keys) > 250 and keys - words == set()

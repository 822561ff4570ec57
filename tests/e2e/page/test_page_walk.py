# SPDX-License-Identifier: Apache-2.0
"""A random walk through the page (P1, P2, P3, P5): tabs, filters, sorts, comparisons, back.

tests/web/walk.mjs walks and says what it saw at every step; here each step is held against `heapgauge report --format json` for the
question in its address. Whatever was clicked, there is no exception, no percentage above 100, and no number of another question.
HEAPGAUGE_WALK_SEED=N takes a seed again.
"""

import functools
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import urllib.parse

import pytest

from serving import SECONDS, Server, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
STEPS = 2000 if LONG else 120
SECONDS_EACH = 5  # of a step, at most
HEADINGS = {
    "start": "Start here", "flame": "Flame", "sites": "Sites", "tree": "Tree", "source": "Source", "time": "Time", "sizes": "Sizes",
    "threads": "Threads", "tags": "Tags", "compare": "Compare", "run": "Run",
}  # fmt: skip
FILTERS = ["focus", "ignore", "module", "not-module", "pool", "tag", "label", "language", "thread", "process", "min-size", "max-size", "kind"]
LABELS = {
    "focus": "function or file", "ignore": "not function or file", "not-module": "not module", "min-size": "at least", "max-size": "at most",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("walk")


@pytest.fixture(scope="module")
def run(heapgauge, folder):
    """run("report", ...): (exit status, what it printed, what it said); asked once."""
    env = page_env(folder)

    @functools.cache
    def command(*arguments):
        done = subprocess.run([heapgauge, *arguments], env=env, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        return done.returncode, done.stdout, done.stderr.strip().removeprefix("heapgauge: ")

    command.env = env
    return command


@pytest.fixture(scope="module")
def recordings(run, target):
    for name, times in (("old.hg", "1"), ("new.hg", "2")):
        status, _, said = run("record", "-q", "-o", name, "--", str(target("shown_family")), times)
        assert status == 0, said


@pytest.fixture(scope="module")
def ask(run, recordings):
    """The answer to a line of the command, or the sentence it is refused with."""

    @functools.cache
    def answer(line):
        status, out, said = run(*shlex.split(line)[1:], "--format", "json")
        return json.loads(out) if status == 0 else said

    return answer


def processes_of(ask):
    return ask("heapgauge report new.hg --view processes")["processes"]


def filters_of(ask):
    """What is typed into the box: of every kind, and some that match nothing."""
    threads = ask("heapgauge report new.hg --view threads")["threads"]
    return [
        "answer", "heavy", "-parse", "nobody", "module:shown_family", "-module:shown_family", "pool:arena", "tag:parse", "label:tenant=acme",
        "size>100", "size<5000", "kind:mmap", "kind:all", "kind:pool", f"thread:{threads[-1]['tid']}", f"thread:{threads[0]['tid']}",
        *(f"process:{one['pid']}" for one in processes_of(ask)),
    ]  # fmt: skip


def walk(heapgauge, run, folder, ask, seed):
    server = Server(heapgauge, "new.hg", "--against", "old.hg", "--no-open", env=run.env, cwd=folder)
    plan = folder / f"plan{seed}.json"
    plan.write_text(json.dumps({"url": server.url, "seed": seed, "steps": STEPS, "filters": filters_of(ask)}))
    try:
        done = subprocess.run(
            ["node", ROOT / "tests" / "web" / "walk.mjs", plan], capture_output=True, text=True, timeout=STEPS * SECONDS_EACH, check=False
        )
    finally:
        server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- the question of an address ----


class Question:
    """What an address asks, in the words of the command line."""

    def __init__(self, hash_, started):
        path, _, query = hash_.removeprefix("#/").partition("?")
        self.view = path or "start"
        self.values = urllib.parse.parse_qs(query)
        self.compares = self.first("compare") == "1" and self.view != "start"
        self.started = started if self.view == "start" and not self.first("process") else None

    def settle(self, ask):
        """The end where the peak of the threads that it is about is not known: asked without a moment, the report has what is."""
        each = self.view == "sites" and self.first("by") == "thread"
        if self.first("cost", "peak") == "peak" and (each or self.first("thread")):
            compares = self.compares or self.view == "compare"
            head = ["heapgauge", "diff", "old.hg", "new.hg"] if compares else ["heapgauge", "report", "new.hg"]
            kinds = [] if each or self.first("kind") or self.first("pool") else ["--kind", "heap"]
            line = [*head, "--view", *(["functions", "--by", "thread"] if each else ["sites"]), *self.filters(), *kinds]
            answer = ask(shlex.join(line))
            if isinstance(answer, dict) and answer.get("end_for_peak"):
                self.values["cost"] = ["leaked"]
        return self

    def first(self, name, fallback=None):
        return self.values.get(name, [fallback])[0]

    def cost(self):
        name, blocks = self.first("cost", "peak"), self.first("unit") == "blocks"
        if name in ("peak", "leaked"):
            return ["--cost", "blocks", "--at", {"peak": "peak", "leaked": "end"}[name]] if blocks else ["--cost", name]
        if name not in ("live", "grown"):
            return ["--cost", name]
        moment = ["--cost", "blocks" if blocks else "live", "--at", self.first("at", "end")]
        return moment + (["--minus", self.first("minus", "peak")] if name == "grown" else [])

    def filters(self):
        given = [word for name in FILTERS for value in self.values.get(name, []) for word in (f"--{name}", value)]
        return given + (["--process", str(self.started)] if self.started else [])

    def owners(self, cost):
        """The owners of the most, as on Start, which does not compare."""
        return shlex.join(["heapgauge", "report", "new.hg", "--view", "functions", "--by", "own", "--cost", cost, *self.filters()])

    def sites(self, cost=None, kind="heap"):
        """The sites that answer it."""
        head = ["heapgauge", "diff", "old.hg", "new.hg"] if self.compares else ["heapgauge", "report", "new.hg"]
        kinds = [] if self.first("kind") or self.first("pool") else ["--kind", kind]
        return shlex.join([*head, "--view", "sites", *(["--cost", cost] if cost else self.cost()), *self.filters(), *kinds])


def digits(cell):
    """"12,411,096 B" of a tooltip, with its sign; None if there is no number."""
    found = re.match(r"[−\d,]+", cell["title"])
    return int(found.group().replace(",", "").replace("−", "-")) if found else None


# ---- what must hold at every step ----


def check_percents(step):
    for text in step["percents"]:
        number = text.removesuffix(" %").replace(",", "")
        assert text.startswith("±") or 0 <= float(number.replace("−", "-")) <= 100, text


def check_place(step, question):
    heading = HEADINGS[question.view]
    assert step["heading"] == heading and step["current"] == [heading]


def is_empty(answer):
    """A filter that matches nothing: the page has an empty answer where the command has an error."""
    return isinstance(answer, str) and re.match("nothing (of that kind|in the heap|there) matches", answer)


def check_sum(step, question, ask):
    answer = ask(question.sites())
    if is_empty(answer):
        assert digits(step["sum"]) == 0
        if question.view in ("flame", "tree") or (question.view == "sites" and not question.compares):
            assert any(state.startswith("Nothing matches") and "matches --" in state for state in step["states"]), step["states"]
    elif isinstance(answer, str):
        assert step["sum"] is None and step["words"]["title"] == answer
    else:
        assert digits(step["sum"]) == answer["shown"]


def check_command(step, question):
    """Every filter of the address is in the command of what is on screen, or said to be left out."""
    words = shlex.split(step["command"])
    for name in FILTERS:
        for value in question.values.get(name, []):
            given = any(words[i : i + 2] == [f"--{name}", value] for i in range(len(words)))
            said = LABELS.get(name, name) in step["note"].split(":")[0].split(", ")
            assert given or said or question.view == "start", (name, value, step["command"], step["note"])


# ---- tables: every row in sight is a row of the report ----

CHANGES = {"Change": "change", "Before": "before", "After": "after", "Calls": "calls_change"}
COSTS = {"total": "total_bytes", "temporary": "temporary_calls", "max": "max_bytes", "waste": "internal_fragmentation_bytes", "lifetime": "lifetime_ns", "realloc": "copied_bytes", "rate": "calls_per_second"}  # fmt: skip
TABLES = {
    "Stacks that changed": CHANGES,
    "Threads": {"Calls": "calls", "Total": "total_bytes", "Frees": "frees", "TID": "tid"},
    "Processes": {"Peak": "peak_bytes", "At end": "not_freed_bytes", "Calls": "calls", "RSS": "peak_rss_bytes", "PID": "pid"},
    "Sizes": {"Calls": "calls", "Total": "total_bytes"},
    "Sites by short lives": {"Within 1 ms": "short_lived_frees", "Freed": "frees", "Left": "not_freed_blocks"},
    "Sites by copied bytes": {"Copied": "copied_bytes", "Own max": "max_bytes"},
    "Tags": {"Self": "self", "Calls": "calls"},
    "Pools": {"Live at the end": "live_bytes", "Calls": "calls"},
}


def keys_of(grid, question):
    """The number that was asked for is in the first column of numbers, whatever its title."""
    label, heads = grid["label"], grid["heads"]
    cost, unit = question.first("cost", "peak"), question.first("unit", "bytes")
    moment = {"peak": f"peak_{unit}", "leaked": f"not_freed_{unit}", "live": f"live_{unit}", "grown": f"live_{unit}"}
    grouped = f"live_{unit}" if cost in moment else COSTS.get(cost, cost)
    if label == "Call tree":
        return {heads[0]: grouped, "Self": "self"}
    if label == "Functions with source":
        return {"With callees": grouped, "Self": "self"}
    if label == "Labels" or (label == "Sites" and question.first("by")):
        return {"Self": "self", "With callees": grouped} if "Self" in heads else {heads[0]: grouped, "Calls": "calls"}
    if label == "Sites":
        asked = moment.get(cost, COSTS.get(cost, cost))
        return CHANGES if question.compares else {"Total": "total_bytes", "Calls": "calls", "Temporary": "temporary_calls", heads[0]: asked}
    return TABLES[label]


def rows_of(answer):
    """The one list of the answer that is its table."""
    return next(rows for key, rows in answer.items() if isinstance(rows, list) and key not in ("frames", "lifetimes", "snapshot_at_ns"))


def shown_rows(grid, keys):
    for cells in grid["rows"]:
        named = list(zip(grid["heads"], cells))
        yield {keys[head]: digits(cell) for head, cell in reversed(named) if head in keys and digits(cell) is not None}


def check_tables(step, question, ask):
    for grid in step["grids"]:
        if grid["label"].startswith("Source of"):
            continue
        line = step["command"] + (" --threshold 0" if grid["label"] == "Call tree" else "")
        if grid["label"] == "Functions with source":
            line = re.sub(r"--by line", f"--by {question.first('list', 'function')}", line)
        answer = ask(line)
        assert is_empty(answer) or not isinstance(answer, str), (grid["label"], answer)
        known = [] if is_empty(answer) else rows_of(answer)
        for row in shown_rows(grid, keys_of(grid, question)):
            # What did not change is in no tree of changes, and of nothing there are still the names of tags.
            nothing = (question.compares or not known) and not any(row.values())
            assert nothing or any(all(one.get(key) == value for key, value in row.items()) for one in known), (grid["label"], row, line)


def check_flame(step, question, ask):
    if step["flame"] is None or question.first("pivot"):
        return
    answer = ask(step["command"].replace("--view tree", "--view flame"))
    assert not isinstance(answer, str) and float(step["flame"]) == answer["shown"]


def check_time(step, ask):
    if step["reading"]:
        shown = tuple(digits(cell) for cell in step["reading"][:3])
        assert shown in {(one["at_ns"], one["live_bytes"], one["live_blocks"]) for one in ask(step["command"])["timeline"]}


def check_changes(step, question, ask):
    if step["changes"]:
        line = ["heapgauge", "diff", "old.hg", "new.hg", "--view", "summary"]
        process = question.first("process")
        known = ask(shlex.join(line + (["--process", process] if process else [])))["changes"]
        shown = [(row[0]["text"], *(digits(cell) for cell in row[1:4])) for row in step["changes"]]
        assert shown == [(one["measure"].replace("leaked blocks", "blocks not freed").replace("leaked", "not freed"), one["before"], one["after"], one["change"]) for one in known]


LISTS = {"Most at the peak": ("peak", "live_bytes"), "Most allocations": ("calls", "calls"), "Most not freed at exit": ("leaked", "live_bytes")}
CARDS = {"Peak": "peak_bytes", "Not freed at exit": "not_freed_bytes", "RSS": "peak_rss_bytes", "Mapped": "mmap_peak_bytes"}


def check_start(step, question, ask):
    """Cards and lists are of the same processes (P3)."""
    if question.view != "start" or not step["figures"]:
        return
    filters = question.filters()
    process = [word for i, word in enumerate(filters) if "--process" in filters[max(0, i - 1) : i + 1]]
    chosen = ask(shlex.join(["heapgauge", "report", "new.hg", "--view", "summary", *process]))["processes"]
    if process == filters:
        for title, key in CARDS.items():
            if title in step["figures"]:
                assert digits(step["figures"][title]) == sum(one[key] or 0 for one in chosen), title
    for title, (cost, key) in LISTS.items():
        answer = ask(question.owners(cost))
        answer = {"shown": 0, "owners": []} if is_empty(answer) else answer
        if isinstance(answer, str):  # refused: the page says why instead of a number
            continue
        if cost == "peak":
            assert digits(step["figures"]["Peak"]) == answer["shown"]
        rows = [row[key] for row in answer["owners"] if row[key] > 0]
        assert [digits(row) for row in step["tops"][title]] == rows[: len(step["tops"][title])]


def check(step, ask, started):
    question = Question(step["hash"], started).settle(ask)
    assert step["errors"] == [] and step["broken"] == []
    assert step["loading"] == [], "nothing is being asked, and something still waits"
    check_percents(step)
    check_place(step, question)
    check_sum(step, question, ask)
    check_command(step, question)
    check_tables(step, question, ask)
    check_flame(step, question, ask)
    check_time(step, ask)
    check_changes(step, question, ask)
    check_start(step, question, ask)


def seeds():
    given = os.environ.get("HEAPGAUGE_WALK_SEED")
    return [int(given) if given else random.SystemRandom().randrange(1 << 31) if LONG else 1]


def test_a_random_walk_sees_only_answers_to_its_questions(heapgauge, run, folder, ask):
    """P1, P2, P3, P5."""
    started = processes_of(ask)[0]["pid"]
    for seed in seeds():
        print(f"HEAPGAUGE_WALK_SEED={seed}, {STEPS} steps")
        walked = walk(heapgauge, run, folder, ask, seed)
        assert len(walked) == STEPS
        assert len({Question(step["hash"], started).view for step in walked}) > 8, "the walk got stuck"
        for step in walked:
            try:
                check(step, ask, started)
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}, step {step['step']} {step['done']} at {step['hash']}: {wrong}") from wrong

# SPDX-License-Identifier: Apache-2.0
"""Verdicts about programs whose behavior is known: expected.json was written before any of them was recorded.

No verdict may be false, however short or busy the run was. CI runs every sixth one; HEAPGAUGE_LONG=1 runs all of them and counts how many
name the right line, which needs an idle machine. HEAPGAUGE_VERDICTS=FILE keeps the sentences."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, wait_for

HERE = pathlib.Path(__file__).resolve().parent
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
EXPECTED = json.loads((HERE / "expected.json").read_text())
CHOSEN = EXPECTED if LONG else EXPECTED[::6]
AT_ONCE = 4
SECONDS = 5
COMPILERS = {
    ".c": ["gcc", "-std=gnu11", "-g", "-O1", "-pthread"],
    ".cc": ["g++", "-std=c++17", "-g", "-O1", "-pthread"],
    ".cpp": ["g++", "-std=c++17", "-g", "-O1", "-pthread"],
    ".rs": ["rustc", "-g", "-O"],
}


class Runner:
    def __init__(self, heapgauge, build, env, folder):
        self.heapgauge, self.build, self.env, self.folder = heapgauge, build, env, folder
        self.argv = {}

    def compile(self, name):
        (source,) = HERE.glob(f"*/{name}")
        if source.suffix == ".py":
            self.argv[name] = [sys.executable, source]
            return
        program = self.folder / name.replace(".", "-")
        subprocess.run([*COMPILERS[source.suffix], source, "-o", program], check=True, timeout=WAIT_SECONDS)
        self.argv[name] = [program]

    def words(self, row, seconds):
        return [*self.argv[row["program"]], str(seconds), *([row["case"]] if row["case"] else [])]

    def record(self, path, *words):
        subprocess.run([self.heapgauge, "record", "-q", "-o", path, *words], env=self.env, check=True, timeout=WAIT_SECONDS, stdin=subprocess.DEVNULL)

    def report(self, *words):
        done = subprocess.run([self.heapgauge, "report", *words], env=self.env, stdout=subprocess.PIPE, text=True, check=True, timeout=WAIT_SECONDS)
        return done.stdout

    def verdict(self, *where):
        """Of the process with the largest peak, as a user would ask."""
        shown = json.loads(self.report(*where, "--format", "json"))
        process = max(shown["processes"], key=lambda one: one["peak_bytes"])
        if len(shown["processes"]) > 1:
            where = [*where, "--process", str(process["pid"])]
        shown = json.loads(self.report(*where, "--format", "json"))
        text = self.report(*where)
        return shown.get("verdict", {}) | {"text": text}

    def exact(self, row, path):
        domains = ["--python", "domains"] if row["program"].endswith(".py") and not row["case"] else []
        self.record(path, *domains, *self.words(row, SECONDS))
        return self.verdict(path)

    def sampled(self, row, path):
        self.record(path, "--mode", "sample", "--interval", "16KiB", *self.words(row, SECONDS))
        return self.verdict(path)

    def several(self, row, path):
        if row["case"] is None:
            return self.exact(row, path)
        self.record(path, "sh", "-c", '"$@" & "$@" & wait', "sh", *self.words(row, SECONDS))
        return self.verdict(path)

    def late(self, row, path):
        env = preloaded(self.build, self.env)
        with subprocess.Popen(self.words(row, 10 * SECONDS), env=env, stdin=subprocess.DEVNULL) as program:
            try:
                time.sleep(2)
                self.record(path, "--pid", str(program.pid), "--duration", f"{SECONDS}s")
            finally:
                program.send_signal(signal.SIGKILL)
        return self.verdict(path)

    def self(self, row, path):
        with folder_on_tmpfs() as profiles:
            env = preloaded(self.build, self.env, profiles, HEAPGAUGE_KEEP="1", HEAPGAUGE_EVERY="100ms")
            subprocess.run(self.words(row, SECONDS), env=env, check=True, timeout=WAIT_SECONDS, stdin=subprocess.DEVNULL)
            (kept,) = profiles.iterdir()
            return self.verdict(kept)

    def live(self, row, path):
        argv = [self.heapgauge, "record", "-q", "-o", path, *self.words(row, SECONDS)]
        with subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL) as recorder:
            program = wait_for(lambda: pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split(), "the program")[0]
            time.sleep(SECONDS * 0.7)
            try:
                return self.verdict("--pid", program)
            finally:
                recorder.wait(WAIT_SECONDS)

    def run(self, number, row):
        return getattr(self, row["mode"])(row, self.folder / f"run{number}.hg")


@pytest.fixture(scope="module")
def verdicts(heapgauge, build, tmp_path_factory):
    """[(row, its verdict)]"""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HEAPGAUGE_", "LD_"))}
    folder = tmp_path_factory.mktemp("verdicts")
    runner = Runner(heapgauge, build, own | {"XDG_CACHE_HOME": str(folder / "cache")}, folder)
    for name in sorted({row["program"] for row in CHOSEN}):
        if name.endswith(".rs") and not shutil.which("rustc"):
            continue
        runner.compile(name)
    rows = [row for row in CHOSEN if row["program"] in runner.argv]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(zip(rows, pool.map(runner.run, range(len(rows)), rows)))
    if "HEAPGAUGE_VERDICTS" in os.environ:
        with open(os.environ["HEAPGAUGE_VERDICTS"], "w") as out:
            for row, verdict in found:
                out.write(f"---- {json.dumps(row)}\n{describe(row, verdict)}\n{verdict['text']}\n")
    return found


def names(row, verdict):
    """Whether the verdict names the function at fault."""
    owners = [verdict.get(key) or "" for key in ("growing_owner", "not_freed_owner", "peak_owner")]
    return any(row["function"] in owner.replace("<", "").replace(">", "") or row["function"] in owner for owner in owners)


def is_false(row, verdict):
    growth = verdict.get("growth")
    if row["kind"] == "healthy":
        return growth == "growing"
    # The function that allocates on behalf of the one at fault does grow.
    owners = [row["function"], row.get("wrapper", row["function"])]
    wrong_owner = growth == "growing" and verdict["growing_owner"] and not any(owner in verdict["growing_owner"] for owner in owners)
    return growth == "bounded" or wrong_owner


def is_stable(verdict):
    return verdict.get("growth") == "bounded" or (verdict.get("growth") == "unknown" and verdict.get("kind") == "freed")


def describe(row, verdict):
    facts = {key: value for key, value in verdict.items() if key not in ("text",)}
    marks = [("FALSE", is_false(row, verdict)), ("named", row["kind"] == "faulty" and names(row, verdict)), ("stable", is_stable(verdict))]
    return " ".join(mark for mark, holds in marks if holds) + f" {json.dumps(facts)}"


def test_no_verdict_is_false(verdicts):
    assert len(verdicts) >= len(CHOSEN) * 0.8
    wrong = [(row, describe(row, verdict)) for row, verdict in verdicts if is_false(row, verdict)]
    assert wrong == []


@pytest.mark.skipif(not LONG, reason="needs an idle machine: HEAPGAUGE_LONG=1")
def test_most_verdicts_are_known_and_right(verdicts):
    healthy = [verdict for row, verdict in verdicts if row["kind"] == "healthy"]
    named = sum(names(row, verdict) for row, verdict in verdicts if row["kind"] == "faulty")
    stable = sum(is_stable(verdict) for verdict in healthy)
    unknown = sum(verdict.get("growth", "unknown") == "unknown" and verdict.get("kind") != "freed" for _, verdict in verdicts)
    print(f"{named} of 60 faulty lines named, {stable} of 60 healthy programs called stable, {unknown} of {len(verdicts)} unknown")
    assert named >= 48 and stable >= 40 and unknown <= 30

# SPDX-License-Identifier: Apache-2.0
"""Recordings to export, what `heapgauge report` says of them, and where the tools are that read exports.

A scene is made once for all tests. What a tool says of an export is compared with what the report says of the same
recording and the same question: equal, not nearly equal.
"""

import collections
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from reading import with_frames

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"

# Whatever a symbol may be called: separators and quotes of every format, a comment, a tag, and bytes that are no text.
ODD_NAMES = {
    "odd_a": b"semi;colon, comma 12",
    "odd_b": b"quote\"d 'name' \\back",
    "odd_c": b"<tag> & #hash $(x) {y}",
    "odd_d": b"bytes \xff\xfe end",
    "odd_e": "wörter 名前".encode(),
    "odd_f": b"two\nlines",
}

ODD_PROGRAM = """
#include <stdlib.h>
static void *volatile kept;
#define LINK(name, next, bytes) \\
	__attribute__((noinline, noipa)) void name(void) { kept = malloc(bytes); next(); __asm__ volatile(""); }
static void last(void) {}
LINK(odd_f, last, 106) LINK(odd_e, odd_f, 105) LINK(odd_d, odd_e, 104)
LINK(odd_c, odd_d, 103) LINK(odd_b, odd_c, 102) LINK(odd_a, odd_b, 101)
int main(void) { odd_a(); return 0; }
"""

BARE_PROGRAM = """
#include <stdlib.h>
static void *volatile kept[3];
static __attribute__((noinline, noipa)) void inner(int i) { kept[i] = malloc(100 + i); __asm__ volatile(""); }
static __attribute__((noinline, noipa)) void outer(int i) { inner(i); __asm__ volatile(""); }
int main(void) { for (int i = 0; i < 3; i++) outer(i); free(kept[1]); return 0; }
"""

RUST_PROGRAM = """
use std::hint::black_box;
#[inline(never)]
fn keep<T: Clone>(value: T, count: usize) -> Vec<T> { black_box(vec![value; count]) }
mod shop {
    #[inline(never)]
    pub fn stock() -> Vec<Vec<u8>> { (1..=10).map(|i| super::keep(7u8, i * 100)).collect() }
}
fn main() {
    let kept = (keep(3u64, 1000), shop::stock());
    drop(keep(1u8, 5000));
    std::mem::forget(kept);
}
"""

PYTHON_PROGRAM = """
class Shelf:
    def fill(self, count):
        self.rows = [bytearray(7000 + i) for i in range(count)]
def stock():
    shelf = Shelf()
    shelf.fill(20)
    return shelf
kept = stock()
bytearray(123456)
"""


def make_rust(folder):
    source, program = folder / "rusty.rs", folder / "rusty"
    source.write_text(RUST_PROGRAM)
    subprocess.run([tool("rustc", "apt install rustc-web"), "-g", "-O", source, "-o", program], check=True)
    return program


def make_python(folder):
    source = folder / "shelves.py"
    source.write_text(PYTHON_PROGRAM)
    return source


def tool(name, source):
    """The path of a program that .ci/run installs."""
    places = [pathlib.Path.home() / "go/bin", pathlib.Path.home() / ".cargo/bin", *os.environ["PATH"].split(":")]
    found = shutil.which(name, path=":".join(map(str, places)))
    if not found:
        pytest.fail(f"{name} is not installed: {source}")
    return found


def safe(text):
    """A name as text formats have it: whatever would move a cursor is a question mark."""
    return "".join("?" if c < " " or c == "\x7f" else c for c in text)


def output_of(*argv, **options):
    """What the command prints; it must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_SECONDS, **options)
    assert done.returncode == 0, f"{argv} failed: {done.stderr}"
    return done.stdout


def browser(script, *files):
    """What tests/web/SCRIPT.mjs reads of each file in a browser."""
    web = ROOT / "tests" / "web"
    if not (web / "node_modules").is_dir():
        pytest.fail(f"the pages are not installed: npm ci --prefix {web}")
    tool("chromium", "apt install chromium")
    return json.loads(output_of(tool("node", "apt install npm"), web / f"{script}.mjs", *files))


@dataclasses.dataclass
class Scene:
    """A recording and the command that reads it."""

    heapgauge: pathlib.Path
    path: pathlib.Path

    def run(self, *argv):
        return output_of(self.heapgauge, *argv)

    def report(self, view, *options):
        text = self.run("report", self.path, "--view", view, "--format", "json", *options)
        return with_frames(json.loads(text))

    def sites(self, *options):
        """All sites of the heap, unless the options say otherwise."""
        return self.report("sites", *(options if "--kind" in options else ("--kind", "heap", *options)))["sites"]

    def functions(self, *options):
        """By name: [self, total] of the cost that the options ask for."""
        said = self.report("functions", *options)
        sums = collections.defaultdict(lambda: [0, 0])
        for row in said["functions"]:
            both = sums[row["function"]]
            both[0] += row["self"]
            both[1] += row[COST_KEYS.get(said["cost"], said["cost"])]
        return dict(sums)

    def safe_functions(self, *options):
        """The same, without those that have nothing, and with names as text formats have them."""
        return {safe(name): both for name, both in self.functions(*options).items() if both != [0, 0]}

    def whole(self, *options):
        """The sum of the cost over all that the options leave."""
        return self.report("functions", *options)["shown"]

    def export(self, form, *options):
        """The path of the exported file."""
        self.path.with_suffix(".out").mkdir(exist_ok=True)
        number = len(list(self.path.with_suffix(".out").iterdir()))
        path = self.path.with_suffix(".out") / f"{number}.{form}"
        self.run("export", self.path, "--format", form, "-o", path, *options)
        return path


COST_KEYS = {
    "live": "live_bytes",
    "blocks": "live_blocks",
    "total": "total_bytes",
    "temporary": "temporary_calls",
    "waste": "internal_fragmentation_bytes",
    "realloc": "copied_bytes",
}


def make_odd(folder):
    text, plain, renamed, program = (folder / name for name in ("odd.c", "plain.o", "odd.o", "odd"))
    text.write_text(ODD_PROGRAM)
    subprocess.run(["gcc", "-g0", "-O1", "-c", text, "-o", plain], check=True)
    names = [b"--redefine-sym=%s=%s" % (old.encode(), new) for old, new in ODD_NAMES.items()]
    subprocess.run(["objcopy", *names, plain, renamed], check=True)
    subprocess.run(["gcc", renamed, "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def scene(heapgauge, build, tmp_path_factory):
    """scene("plain") and so on."""
    folder = tmp_path_factory.mktemp("scenes")
    target = build / "targets" / "exported"
    makers = {
        "plain": lambda: [target],
        "tree": lambda: [target, "child"],
        "odd": lambda: [make_odd(folder)],
        "bare": lambda: [compile_c(folder, "bare", BARE_PROGRAM, "-g0", "-s")],
        "rust": lambda: [make_rust(folder)],
        "python": lambda: ["/usr/bin/python3", make_python(folder)],
        "empty": lambda: [compile_c(folder, "empty", "int main(void) { return 0; }")],
    }
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}

    @functools.cache
    def make(name):
        path = folder / f"{name}.hg"
        if name.startswith("made "):
            subprocess.run([build / "made" / "make_recording", path, name.split()[1], "10", target], check=True)
        else:
            argv = [heapgauge, "record", "-q", "-o", path, "--", *makers[name]()]
            subprocess.run(argv, check=True, env=env, timeout=WAIT_SECONDS)
        return Scene(heapgauge, path)

    return make

# SPDX-License-Identifier: Apache-2.0
"""Every frame of our own builds is named as llvm-symbolizer names it: functions, files, lines, what was inlined.

The short form: heapgauge itself and a Rust program. HEAPGAUGE_LONG=1 adds sqlite, built here."""

import collections
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).resolve().parent / "names"
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}: {done.stderr}"
    return done.stdout


def frames_of(rows, modules):
    """(module, offset, exact) -> ((function, file, line), ...), innermost first."""
    found = {}
    for site in rows["sites"]:
        chain = []
        for frame in site["stack"]:
            chain.append((frame["function"], frame["file"], frame["line"]))
            if frame["inlined"]:
                continue
            if frame["module"] in modules:
                found[frame["module"], frame["offset"], frame["address_exact"]] = tuple(chain)
            chain = []
    return found


def asked_of_llvm(frames):
    """The same by llvm-symbolizer, demangled by the same library as ours."""
    keys = list(frames)
    lines = "".join(f"{module} {offset if exact else offset - 1:#x}\n" for module, offset, exact in keys)
    answers = run("llvm-symbolizer", "--inlines", "--no-demangle", "--output-style=JSON", input=lines).splitlines()
    assert len(answers) == len(keys)
    chains = [json.loads(line)["Symbol"] for line in answers]
    plain = demangled({symbol["FunctionName"] for chain in chains for symbol in chain})
    return {
        key: tuple((plain[s["FunctionName"]], s["FileName"] or None, s["Line"]) for s in chain)
        for key, chain in zip(keys, chains)
    }


def demangled(names):
    names = sorted(names)
    return dict(zip(names, run("c++filt", "--no-verbose", input="".join(name + "\n" for name in names)).splitlines()))


def aliases_of(modules):
    """name -> addresses of its symbols: functions that the linker folded have one in common."""
    found = collections.defaultdict(set)
    for module in modules:
        rows = [line.split() for line in run("nm", "--defined-only", "--format=posix", module).splitlines()]
        rows = [row for row in rows if len(row) > 2]  # the others have no name
        plain = demangled({row[0] for row in rows})
        for row in rows:
            found[plain[row[0]]].add((module, row[2]))
    return found


def same_name(ours, theirs, aliases):
    # llvm takes a clone's name from the symbol table: f.isra.0
    theirs = re.sub(r"\.(isra|part|constprop|cold)\b.*", "", theirs)
    # A function without a linkage name is qualified by us, and not by llvm.
    return ours == theirs or ours.endswith(f"::{theirs}") or aliases[ours] & aliases[theirs]


def same_frame(ours, theirs, aliases):
    if not same_name(ours[0], theirs[0], aliases) or ours[2] != theirs[2]:
        return False
    # Where there is no line, llvm may call the unit a file.
    return ours[2] == 0 or os.path.normpath(ours[1]) == os.path.normpath(theirs[1])


def compare(rows, modules, at_least):
    modules = {str(m) for m in modules}
    ours = frames_of(rows, modules)
    theirs = asked_of_llvm(ours)
    aliases = aliases_of(modules)
    wrong = []
    for key, chain in ours.items():
        pairs = itertools.zip_longest(chain, theirs[key], fillvalue=("nothing", None, -1))
        first = next((pair for pair in pairs if not same_frame(*pair, aliases)), None)
        if first:
            wrong.append(f"{key[0]} {key[1]:#x}:\n  ours   {first[0]}\n  theirs {first[1]}")
    assert not wrong, f"{len(wrong)} of {len(ours)}:\n" + "\n".join(wrong[:5])
    assert len(ours) >= at_least, len(ours)
    return sum(len(chain) > 1 for chain in ours.values())


def test_heapgauge_itself(heapgauge, target, scratch, record, report_json):
    """A copy, because the collector does not record its own file."""
    copy = scratch / "copy"
    shutil.copy(heapgauge, copy)
    first = record([target("t_stack_scenes")])
    second = record([copy, "report", first.path, "--view", "sites", "--format", "json"])
    assert second.returncode == 0, second.stderr
    inlined = compare(report_json(second.path, "sites"), [copy], at_least=60)
    assert inlined >= 20


RUST = [pytest.param(["-O"], 50, id="optimized"), pytest.param(["-Copt-level=0"], 0, id="unoptimized")]
if LONG:
    RUST += [
        pytest.param(["-Copt-level=3", "-Csymbol-mangling-version=v0"], 50, id="v0"),
        pytest.param(["-O", "-Clto=fat"], 50, id="lto"),
    ]


@pytest.mark.parametrize("flags, inlined", RUST)
def test_rust(flags, inlined, scratch, record, report_json):
    program = scratch / "collections"
    run("rustc", "-g", *flags, SOURCES / "collections.rs", "-o", program, cwd=scratch)
    done = record([program])
    assert done.returncode == 0, done.stderr
    assert compare(report_json(done.path, "sites"), [program], at_least=100) >= inlined


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    """The folder of sqlite's source, which the crate libsqlite3-sys brings along."""
    folder = tmp_path_factory.mktemp("crate")
    run("cargo", "init", "-q", "--name", "fetches", cwd=folder)
    run("cargo", "add", "-q", "libsqlite3-sys", cwd=folder)
    run("cargo", "vendor", "-q", "vendored", cwd=folder)
    return next(folder.glob("vendored/libsqlite3-sys*/sqlite3"))


@pytest.mark.skipif(not LONG, reason="compiles sqlite: HEAPGAUGE_LONG=1")
@pytest.mark.parametrize("compiler, level", [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")])
def test_sqlite(compiler, level, sqlite, scratch, record, report_json):
    program = scratch / "queries"
    run(compiler, "-g", "-w", level, "-DSQLITE_OMIT_LOAD_EXTENSION", f"-I{sqlite}", SOURCES / "queries.c",
        sqlite / "sqlite3.c", "-o", program, "-lm", "-lpthread")
    done = record([program])
    assert done.returncode == 0, done.stderr
    inlined = compare(report_json(done.path, "sites"), [program], at_least=400)
    assert inlined >= (0 if level == "-O0" else 100)

# SPDX-License-Identifier: Apache-2.0
"""docs/internals names files and functions: all exist, each function in a file that its page names. The index lists every page."""

import functools
import re

import pytest
from conftest import ROOT

PAGES = sorted((ROOT / "docs/internals").glob("*.md"))
NAMING = [*PAGES, ROOT / "CONTRIBUTING.md"]
PATH = re.compile(r"\b(?:src|tests|tools|include|web|bindings|cmake)/[\w./*-]*\w")
FUNCTION = re.compile(r"`(\w+)\(\)`")
CONSTANT = re.compile(r"`((?!HEAPGAUGE_)[A-Z]+(?:_[A-Z]+)+)`")
# Definitions begin in the first column, in C as in Python.
DEFINED = re.compile(r"^(?:#define |def |[A-Za-z_][^;=/#\n]*?[ *])(\w+)\(", re.MULTILINE)


@functools.cache
def defined_in(file):
    return set(DEFINED.findall(file.read_text())) if file.suffix in {".c", ".h", ".py"} else set()


def files_named(text):
    """The files that a page names; of a folder, all that lie in it."""
    for path in PATH.findall(text):
        for found in ROOT.glob(path):
            yield from (file for file in ([found] if found.is_file() else found.iterdir()) if file.is_file())


@functools.cache
def constants():
    files = [p for folder in ("src", "include", "tests/e2e", "web/src") for p in (ROOT / folder).rglob("*") if p.suffix in {".c", ".h", ".py", ".ts"}]
    return {name for file in files for name in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", file.read_text())}


def missing(text):
    """What a page names and is not there; <name> stands for one that is yet to be."""
    text = re.sub(r"[^\s`]*<\w+>[^\s`]*", "", text)
    paths = [path for path in PATH.findall(text) if not (list(ROOT.glob(path)) if "*" in path else (ROOT / path).exists())]
    defined = set().union(*map(defined_in, files_named(text)))
    functions = [f"{name}()" for name in FUNCTION.findall(text) if name not in defined]
    return paths + functions + [name for name in CONSTANT.findall(text) if name not in constants()]


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    assert missing(page.read_text()) == []


def test_what_does_not_exist_is_found():
    text = "`walk_stack()` in `src/recorder/unwind/walk.c`; `no_such_function()` in `src/recorder/no_such.c`, `NO_SUCH_NAME`, `RULE_STOP`"
    assert missing(text) == ["src/recorder/no_such.c", "no_such_function()", "NO_SUCH_NAME"]


def test_a_function_of_a_file_that_the_page_does_not_name_is_found():
    assert missing("`walk_stack()` in `src/recorder/counters/account.c`") == ["walk_stack()"]


def test_there_are_pages_that_name_something():
    assert len(PAGES) >= 7
    assert sum(len(FUNCTION.findall(page.read_text())) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not link.startswith("http") and not (page.parent / link).exists()] == []


def test_the_index_lists_every_page():
    index = (ROOT / "docs/internals/README.md").read_text()
    assert [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in index] == []

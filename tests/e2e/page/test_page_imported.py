# SPDX-License-Identifier: Apache-2.0
"""The page of heap profiles of other tools, which have live memory and maybe totals: its numbers are those of the report, and what is not
known is absent or called so, never 0. tests/web/imported.mjs looks at it in Chromium."""

import json
import os
import pathlib
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from serving import Server, commander, digits, page_env

ROOT = pathlib.Path(__file__).resolve().parents[3]

PROGRAM = """
#include <stdlib.h>
#include <string.h>
static void *kept[20000];
static int count;
#define APART __attribute__((noinline, noipa))
APART void *leaf(size_t bytes) { void *block = malloc(bytes); memset(block, 1, bytes); return block; }
APART void small_blocks(void) { for (int i = 0; i < 5000; i++) kept[count++] = leaf(48); }
APART void mixed_blocks(void) { for (int i = 0; i < 3000 * MORE; i++) kept[count++] = leaf(100 + i); }
APART void freed_blocks(void) { for (int i = 0; i < 20000; i++) { void *block = leaf(1000); free(block); } }
int main(void) { small_blocks(); mixed_blocks(); freed_blocks(); return 0; }
"""
OF_RUN = ["time", "sizes", "threads", "run"]
ADDRESSES = ["start", "flame", "tree", "source", "sites", "sites?unit=blocks", "sites?cost=peak", "sites?by=function", *OF_RUN]
COMPARED = "compare?compare=1&cost=leaked"
#: Of what happened during the run: terms of cards, columns and details.
UNKNOWN = ["At peak", "Peak", "Growth", "RSS", "Temporary", "Mean life", "Own max", "Copied", "Waste", "First seen"]
TOTALS = ["Total", "Calls", "Mean size"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("imported")


@pytest.fixture(scope="module")
def command(heapgauge, folder):
    return commander(heapgauge, page_env(folder), folder)


def dump(folder, name, options, more=1):
    """The heap profile that jemalloc wrote at the end of a program."""
    library = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if not library:
        pytest.skip("libjemalloc2 is not installed")
    built = folder / f"built{more}"
    built.mkdir(exist_ok=True)
    program = compile_c(built, "program", f"#define MORE {more}" + PROGRAM)
    conf = f"prof:true,prof_final:true,prof_prefix:{folder}/{name},{options}"
    subprocess.run([program], env=page_env(folder) | {"MALLOC_CONF": conf, "LD_PRELOAD": str(library)}, check=True, timeout=WAIT_SECONDS)
    next(folder.glob(f"{name}.*.heap")).rename(folder / f"{name}.heap")


@pytest.fixture(scope="module")
def seen(heapgauge, command, folder):
    dump(folder, "old", "lg_prof_sample:0")
    dump(folder, "live", "lg_prof_sample:0", more=2)
    dump(folder, "totals", "lg_prof_sample:12,prof_accum:true")
    command("report", "totals.heap", "--format", "html", "-o", "totals.html")
    words = {"live": ["live.heap", "--against", "old.heap"], "totals": ["totals.heap"]}
    servers = {name: Server(heapgauge, *of, "--no-open", env=page_env(folder), cwd=folder) for name, of in words.items()}
    pages = {name: {"url": server.url, "addresses": ADDRESSES} for name, server in servers.items()}
    pages["live"]["addresses"] = [*ADDRESSES, "start?focus=small_blocks", COMPARED]
    pages["saved"] = {"url": (folder / "totals.html").as_uri(), "addresses": ADDRESSES}
    (folder / "plan.json").write_text(json.dumps({"pages": pages, "shots": os.environ.get("HEAPGAUGE_SHOTS", "")}))
    try:
        script = ROOT / "tests" / "web" / "imported.mjs"
        done = subprocess.run(["node", script, folder / "plan.json"], capture_output=True, text=True, timeout=900, check=False)
    finally:
        for server in servers.values():
            server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lines(page, address):
    return [line.strip() for line in page["seen"][address]["words"].splitlines()]


@pytest.mark.parametrize("name", ["live", "totals", "saved"])
def test_the_page_asks_for_nothing_that_is_not_known(seen, name):
    page = seen[name]
    assert page["errors"] == [] and page["refused"] == []
    for address, shown in page["seen"].items():
        assert "No answer" not in shown["words"] and "Not in this file" not in shown["words"], address


@pytest.mark.parametrize("name", ["live", "totals", "saved"])
def test_what_is_not_known_is_absent_or_called_so(seen, name):
    page = seen[name]
    for address in OF_RUN:
        assert "Not known" in lines(page, address)
    absent = UNKNOWN + ([] if name != "live" else TOTALS)
    for address in ("start", "sites", "sites?by=function"):
        assert not set(absent) & set(lines(page, address)), address
    assert "The peak, times, sizes, lifetimes and threads are not known." in page["seen"]["start"]["words"]
    assert not set(absent) & set(page["facts"])
    assert set(TOTALS) <= set(page["facts"]) or name == "live"
    assert page["choices"]["question"] == (["Live"] if name == "live" else ["Live", "Total requested", "Allocations"])
    assert not {"Thread", "Requested size"} & set(page["choices"]["axis"])


@pytest.mark.parametrize("name", ["live", "totals", "saved"])
def test_numbers_are_those_of_the_report(seen, command, name):
    file = "live.heap" if name == "live" else "totals.heap"
    report = json.loads(command("report", file, "--view", "sites", "--format", "json"))
    page = seen[name]["seen"]
    for address in ("start", "sites", "sites?cost=peak"):
        assert digits(page[address]["sum"]) == report["shown"]
    assert [digits(row["Live"]) for row in page["sites"]["rows"]] == [row["live_bytes"] for row in report["sites"]]
    assert [digits(row["Live blocks"]) for row in page["sites"]["rows"]] == [row["live_blocks"] for row in report["sites"]]
    blocks = json.loads(command("report", file, "--view", "sites", "--cost", "blocks", "--format", "json"))
    assert digits(page["sites?unit=blocks"]["sum"]) == blocks["shown"]
    groups = json.loads(command("report", file, "--view", "functions", "--format", "json"))["functions"]
    assert sorted(digits(row["With callees"]) for row in page["sites?by=function"]["rows"]) == sorted(row["live_bytes"] for row in groups)


def test_filters_and_comparison(seen, command):
    page = seen["live"]["seen"]
    assert digits(page["start?focus=small_blocks"]["sum"]) == 5000 * 48
    changes = json.loads(command("diff", "old.heap", "live.heap", "--format", "json"))["changes"]
    assert digits(page[COMPARED]["sum"]) == next(row["change"] for row in changes if row["measure"] == "leaked") > 0
    assert "in leaf (program.c:" in page[COMPARED]["words"] and "which is new" not in page[COMPARED]["words"]

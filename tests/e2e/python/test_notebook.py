# SPDX-License-Identifier: Apache-2.0
"""Tables and the page in a notebook: a real kernel runs it, nbconvert writes it as HTML, and Chromium shows that."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from bindings import with_package
from compiled import WAIT_SECONDS, compile_c
from serving import page_env
from test_json import command, folder, rich  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: An interpreter that has nbconvert and ipykernel, if it is another one.
PYTHON = os.environ.get("HEAPGAUGE_NOTEBOOK_PYTHON", sys.executable)
# The name of a tag is the program's own, and any text.
HOSTILE = "<img src=x onerror=hacked=1>'\"&amp;"
PROGRAM = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
int main(void) { HG_SCOPE(%s); return malloc(1234) == 0; }
"""
CELLS = ["import heapgauge", "heapgauge.open('exact.hg').view('sites')", "heapgauge.open('hostile.hg').view('tags')", "heapgauge.open('exact.hg').page()"]


@pytest.fixture(scope="module")
def shown(rich, build, command, tmp_path_factory):  # noqa: F811
    """What Chromium saw of the notebook."""
    if subprocess.run([PYTHON, "-c", "import nbconvert, ipykernel"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("nbconvert and ipykernel are not installed: python3 -m pip install nbconvert ipykernel")
    program = compile_c(tmp_path_factory.mktemp("hostile"), "hostile", PROGRAM % json.dumps(HOSTILE), f"-I{ROOT / 'include'}")
    command("record", "-q", "-o", "hostile.hg", "--", program)
    cells = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None} for text in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (rich / "notebook.ipynb").write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}))
    env = with_package(page_env(rich), build) | {"JUPYTER_PLATFORM_DIRS": "1", "HOME": str(rich)}
    argv = [PYTHON, "-m", "nbconvert", "--to", "html", "--execute", "notebook.ipynb"]
    done = subprocess.run(argv, env=env, cwd=rich, capture_output=True, text=True, timeout=4 * WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    script = ROOT / "tests" / "web" / "notebook.mjs"
    done = subprocess.run(["node", script, rich / "notebook.html"], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


def report(command, file, view):  # noqa: F811
    return json.loads(command("report", file, "--view", view, "--format", "json"))


def test_a_table_shows_its_rows_and_where_they_are_from(shown, command):  # noqa: F811
    result = report(command, "exact.hg", "sites")
    sites, table = result["sites"], shown["tables"][0]
    assert table["heads"][0] == "stack" and "peak_bytes" in table["heads"] and len(table["heads"]) == 12
    at = table["heads"].index("total_bytes")
    assert [row[at]["title"] for row in table["rows"]] == [f"{site['total_bytes']:,}" for site in sites[:20]]
    frames = [result["frames"][site["stack"][0]]["function"] for site in sites[:20]]
    assert all(row[0]["text"].startswith(name) for row, name in zip(table["rows"], frames))
    assert f"{len(sites)} sites of exact.hg" in table["caption"]


def test_names_are_text(shown):
    table = shown["tables"][1]
    assert any(HOSTILE in cell["text"] for row in table["rows"] for cell in row)
    assert shown["images"] == 0 and not shown["hacked"]


def test_the_page_is_in_a_frame_of_its_own(shown, command):  # noqa: F811
    (process, *_) = report(command, "exact.hg", "summary")["processes"]
    assert "Peak" in shown["page"]["start"] and str(process["pid"]) in shown["page"]["start"]
    assert "Requested by" in shown["page"]["sites"]  # it was clicked, and moved there
    assert shown["page"]["origin"] == "null"

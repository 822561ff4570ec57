# SPDX-License-Identifier: Apache-2.0
"""Which functions of a Python program a report shows: in views, exports, comparisons and on the page, with the same numbers."""

import re
import subprocess

import pytest

from compiled import WAIT_SECONDS
from serving import Server
from test_python_stacks import interpreters

FILES = {
    "app.py": "import first\n",
    "first.py": "import second\n",
    "second.py": 'import importlib\n\nlate = importlib.import_module("third")\n',
    "third.py": "def hold():\n    return bytearray(777_777)\n\n\nKEPT = hold()\n",
}
CHAIN = ["app.py", "first.py", "second.py", "third.py", "third.py"]
IMPORTLIB = re.compile(r"^<frozen importlib\._bootstrap|/importlib/__init__\.py$")
INTERPRETER = re.compile(r"/(lib)?python3?[\d.]*(\.so[\d.]*)?$")
WAYS = [[], ["--fold-imports"], ["--frames", "all"], ["--frames", "python"], ["--frames", "python", "--fold-imports"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("frames")
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


@pytest.fixture
def command(heapgauge, clean_env, folder):
    def run(*arguments, status=0):
        argv = [heapgauge, *map(str, arguments)]
        done = subprocess.run(argv, env=clean_env, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout

    return run


@pytest.fixture
def recording(command, folder):
    if not (folder / "run.hg").exists():
        command("record", "-q", "-o", "run.hg", "--", next(iter(interpreters().values())), "app.py")
    return folder / "run.hg"


@pytest.fixture
def stack(recording, report_json):
    """stack(*options): that of the one block of its size, outermost frame first."""

    def find(*options):
        sites = report_json(recording, "sites", "--limit", "100000", "--min-size", "777777", "--max-size", "777779", *options)["sites"]
        (site,) = [site for site in sites if site["calls"] == 1]
        return site["stack"][::-1]

    return find


def imports_in(frames):
    return [frame for frame in frames if IMPORTLIB.search(frame["file"] or "")]


def interpreter_in(frames):
    return [frame for frame in frames if INTERPRETER.search(frame["module"])]


def bases(frames):
    return [frame["file"].rpartition("/")[2] for frame in frames]


def test_an_import_reads_as_a_module_that_calls_another(stack):
    usual, folded = stack(), stack("--fold-imports")
    assert len(imports_in(usual)) > 10 and {"import_module"} < {frame["function"] for frame in usual}
    assert imports_in(folded) == [] and [frame for frame in usual if frame not in imports_in(usual)] == folded
    assert bases(folded)[-len(CHAIN) :] == CHAIN


def test_the_interpreter_is_shown_on_request(stack):
    everything = stack("--frames", "all")
    assert interpreter_in(stack()) == [] and len(interpreter_in(everything)) > 20
    kept = stack()
    assert [frame for frame in everything if frame in kept] == kept


def test_python_alone(stack):
    assert bases(stack("--frames", "python", "--fold-imports")) == CHAIN
    alone = stack("--frames", "python")
    assert all(frame["module"] == frame["file"] for frame in alone) and imports_in(alone)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_numbers_stay(way, recording, report_json):
    """Sites are added up that are the same then; none is lost, and each has a stack."""
    for kind in "heap", "mmap":
        usual = report_json(recording, "sites", "--limit", "1000000", "--kind", kind)["sites"]
        shown = report_json(recording, "sites", "--limit", "1000000", "--kind", kind, *way)["sites"]
        for key in "calls", "total_bytes", "not_freed_bytes", "peak_bytes", "frees":
            assert sum(site[key] for site in usual) == sum(site[key] for site in shown), key
        assert all(site["stack"] for site in shown)
    heap = [len(report_json(recording, "sites", "--limit", "1000000", "--kind", "heap", *one)["sites"]) for one in ([], way)]
    assert heap[1] > heap[0] if "all" in way else heap[1] < heap[0] if way else heap[1] == heap[0]


def test_views_comparisons_and_exports_obey(command, recording):
    command("record", "-q", "-o", "old.hg", "--", next(iter(interpreters().values())), "-c", "pass")
    whole = ["--threshold", "0", "--limit", "100000"]
    tree = ["--view", "tree", "--no-own", *whole]
    asked = [["report", recording, *tree], ["report", recording, "--by", "function", "--limit", "100000"]]
    asked += [["diff", "old.hg", recording, *tree]]
    asked += [["export", recording, "-o", "-", "--cost", "total", "--format", name] for name in ("folded", "speedscope", "callgrind")]
    asked += [["export", recording, "-o", "-", "--format", "jsonl"]]
    for options in asked:
        usual, folded, everything = (command(*options, "--focus", "third.py", *way) for way in ([], ["--fold-imports"], ["--frames", "all"]))
        assert ["_find_and_load" in text for text in (usual, folded, everything)] == [True, False, True], options
        assert ["_PyEval_EvalFrameDefault" in text for text in (usual, folded, everything)] == [False, False, True], options


def test_a_page_answers_as_the_command_does(heapgauge, clean_env, folder, recording, command):
    server = Server(heapgauge, "run.hg", "--against", "run.hg", "--no-open", env=clean_env, cwd=folder)
    try:
        for way in [*WAYS, *WAYS]:
            query = {"view": "sites", "kind": "heap"}
            query |= {"fold-imports": "yes"} if "--fold-imports" in way else {}
            query |= {"frames": way[1]} if "--frames" in way else {}
            assert server.result(**query).body.decode() == command("report", "run.hg", "--view", "sites", "--kind", "heap", "--format", "json", *way)
            query |= {"view": "functions", "compare": 1}
            printed = command("diff", "run.hg", "run.hg", "--view", "functions", "--kind", "heap", "--format", "json", *way)
            assert server.result(**query).body.decode() == printed
    finally:
        server.end()


def test_what_cannot_obey_says_so(command, recording):
    assert "omit --fold-imports" in command("report", recording, "--format", "html", "-o", "page.html", "--fold-imports", status=2)
    assert "did you mean 'python'?" in command("report", recording, "--frames", "pythn", status=2)

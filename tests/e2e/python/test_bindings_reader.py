# SPDX-License-Identifier: Apache-2.0
"""heapgauge.open: the rows of every view are those of `report --format json`, in every Python; tables outlive profiles, and errors are sentences."""

import json
import subprocess
import sys

import pytest

from bindings import every_python, with_package
from compiled import WAIT_SECONDS
from reading import differences, head_and_rows
from serving import page_env
from test_json import OF_PAGES, VIEWS, command, folder, rich  # noqa: F401

# {view: [name, head, rows]} of a file.
READ = """
import json, sys
import heapgauge
profile = heapgauge.open(sys.argv[1])
views = {}
for view in sys.argv[2:]:
    table = profile.view(view)
    views[view] = table.name, table.head, list(table)
json.dump(views, sys.stdout)
"""

# A pandas that is enough to see what it was given.
PANDAS = """
class DataFrame:
    def __init__(self, rows, columns):
        self.rows, self.columns, self.attrs = rows, columns, {}
"""


@pytest.fixture
def python(build, folder):  # noqa: F811
    """python(program, *arguments): what it prints; the program has the package."""

    def run(program, *arguments, path=sys.executable, env=None):
        argv = [path, "-c", program, *map(str, arguments)]
        own = with_package(page_env(folder), build) | (env or {})
        done = subprocess.run(argv, env=own, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("file", ["exact.hg", "sampled.hg"])
@pytest.mark.parametrize("version, path", every_python())
def test_rows_are_those_of_the_report(version, path, file, rich, command, python):  # noqa: F811
    views = [view for view in VIEWS if file == "exact.hg" or view not in OF_PAGES]
    answers = json.loads(python(READ, file, *views, path=path))
    assert list(answers) == views
    for view, (name, head, rows) in answers.items():
        there = head_and_rows(json.loads(command("report", file, "--view", view, "--format", "json")), name)
        assert [view, *differences([head, rows], list(there))] == [view]


def test_options_are_words_of_python(rich, command, python):  # noqa: F811
    asked = "import heapgauge, json; t = heapgauge.open('exact.hg').view(cost='total', limit=2, min_size=100, no_symbols=True, callees=False)"
    rows = json.loads(python(f"{asked}; print(json.dumps(list(t)))"))
    argv = ["--cost", "total", "--limit", "2", "--min-size", "100", "--no-symbols", "--format", "json"]
    assert rows == head_and_rows(json.loads(command("report", "exact.hg", *argv)), "sites")[1] and len(rows) == 2
    twice = "import heapgauge; print(len(heapgauge.open('exact.hg').view('sites', focus=['main', 'leak'])))"
    argv = ["--view", "sites", "--focus", "main", "--focus", "leak", "--format", "json"]
    assert int(python(twice)) == len(json.loads(command("report", "exact.hg", *argv))["sites"]) > 0


def test_a_table_is_a_sequence_that_outlives_its_profile(rich, python):  # noqa: F811
    python("""
import gc, heapgauge, threading
with heapgauge.open("exact.hg") as profile:
    table = profile.view("sites")
try:
    profile.view("sites")
    raise SystemExit("it is closed")
except heapgauge.Error as error:
    assert str(error) == "the profile is closed; open it again"
del profile
gc.collect()
rows = list(table)
assert len(rows) == len(table) > 3 and table[0] == rows[0] and table[-1] == rows[-1] and table[1:3] == rows[1:3]
assert {c.name: c.unit for c in table.columns}["live_bytes"] == "bytes" and [c.name for c in table.columns] == list(rows[0])
try:
    table[len(table)]
    raise SystemExit("there is no such row")
except IndexError:
    pass
seen = []
threads = [threading.Thread(target=lambda: seen.append(list(table) == rows)) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert seen == [True] * 4, seen
""")


def test_a_data_frame_where_pandas_is(rich, python, scratch):  # noqa: F811
    made = "import heapgauge; t = heapgauge.open('exact.hg').view('sites'); "
    try_it = "\ntry:\n t.to_dataframe()\nexcept ImportError as error:\n print(error)"
    assert "needs pandas" in python(made + "import sys; sys.modules['pandas'] = None" + try_it)
    (scratch / "pandas.py").write_text(PANDAS)
    at = f"import sys; sys.path.insert(0, {str(scratch)!r}); "
    python(at + made + "f = t.to_dataframe(); assert f.rows == list(t) and f.columns == list(t[0]) and f.attrs == t.head")


def test_a_real_data_frame(rich, build, monkeypatch):  # noqa: F811
    pandas = pytest.importorskip("pandas")
    program = "import heapgauge; print(heapgauge.open('exact.hg').view('sites').to_dataframe()['total_bytes'].sum())"
    done = subprocess.run([sys.executable, "-c", program], env=with_package(page_env(rich), build), cwd=rich, capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 0, (pandas.__version__, done.stderr)


def test_errors_are_sentences(rich, python):  # noqa: F811
    failing = "import heapgauge\ntry:\n heapgauge.{}\nexcept (heapgauge.Error, OSError) as error:\n print(error)"
    assert python(failing.format("open('no.hg')")).startswith("cannot read the recording (")
    assert "did you mean --cost?" in python(failing.format("open('exact.hg').view('sites', cots='peak')"))
    assert "did you mean 'leaks'?" in python(failing.format("open('exact.hg').view('leeks')"))
    assert "process" in python(failing.format("open_process(1 << 22)"))
    nowhere = {"PATH": "/nowhere"}
    assert "libheapgauge-profile.so.0 cannot be loaded" in python(failing.format("open('exact.hg')"), env=nowhere)
    assert "is not on PATH" in python(failing.format("record(['true'], 'x.hg')"), env=nowhere)


def test_record_gives_a_recording_to_open(python, scratch):
    said = python(f"""
import heapgauge
run = heapgauge.record(["sh", "-c", "exit 3"], {str(scratch / 'run.hg')!r}, quiet=True)
print(run.returncode, heapgauge.open(run.path).view()[0]["command"])
""")
    assert said == "3 sh -c exit 3\n"


FOLDED = """
import heapgauge, sys
profile = heapgauge.open(sys.argv[1])
table = profile.view("sites")
same = profile.view("sites", frames="program")
try:
    profile.view("sites", frames="all")
except heapgauge.Error as error:
    print(error)
del table, same
print(len(profile.view("sites", frames="all")) > 0, len(profile.view("sites", fold_imports=True)) > 0)
"""


def test_stacks_with_other_functions_need_a_profile_of_their_own(rich, python):  # noqa: F811
    """They are built anew, and tables point into them."""
    error, answered = python(FOLDED, "exact.hg").splitlines()
    assert "still in use; free them first, or open the recording once more" in error and answered == "True True"

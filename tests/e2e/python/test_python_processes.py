# SPDX-License-Identifier: Apache-2.0
"""Worker processes of Python: each has its own Python stacks, however it began."""

import collections
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from test_python_stacks import interpreters, python_part

SIZE = 54321
PROGRAM = f"""
import multiprocessing, sys

def fill(count):
    return [bytearray({SIZE - 1}) for _ in range(count)]  # and a byte for the end

def work(count):
    global kept
    kept = fill(count)
    return len(kept)

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(sum(pool.map(work, [10, 20, 30, 40], chunksize=1)))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_have_their_stacks(method, record, report_json, scratch):
    program = scratch / "workers.py"
    program.write_text(PROGRAM)
    run = record([next(iter(interpreters().values())), program, method], timeout=WAIT_SECONDS)
    assert run.returncode == 0 and run.stdout == "100\n", run.stderr
    calls = collections.Counter()
    for site in report_json(run.path, "sites", "--limit", "1000000", "--min-size", str(SIZE), "--max-size", str(SIZE))["sites"]:
        names = [function for function, file, _ in python_part(site) if file == str(program)]
        if names:
            assert names[names.index("work") - 1] == "fill", names  # a forked worker goes on below the parent's functions
            calls[site["pid"]] += site["calls"]
    assert calls.total() == 100 and len(calls) <= 2, calls


@pytest.mark.parametrize("version, path", interpreters().items())
def test_a_module_of_a_virtual_environment(version, path, record, report_json, scratch):
    """python -m NAME, with the interpreter that is a link to another."""
    subprocess.run([path, "-m", "venv", "--without-pip", "--symlinks", scratch / "venv"], check=True)
    package = scratch / "venv" / "lib" / f"python{'.'.join(version.split('.')[:2])}" / "site-packages" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(f"def fill():\n    return bytearray({SIZE - 1})\nkept = fill()\n")
    run = record([scratch / "venv" / "bin" / "python", "-m", "shop"])
    assert run.returncode == 0, run.stderr
    (site,) = report_json(run.path, "sites", "--min-size", str(SIZE), "--max-size", str(SIZE))["sites"]
    assert python_part(site)[:2] == (("fill", str(package / "__main__.py"), 2), ("<module>", str(package / "__main__.py"), 3))


EMBEDDING = r"""
#include <Python.h>
int main(void)
{
	Py_Initialize();
	int status = PyRun_SimpleString("def fill():\n    return bytearray(54320)\nkept = fill()\n");
	fflush(stdout);
	_exit(status != 0);
}
"""


def test_an_interpreter_inside_of_another_program(record, report_json, scratch):
    """Linked to libpython: its functions stand between main and malloc."""
    words = subprocess.run(["/usr/bin/python3-config", "--embed", "--cflags", "--ldflags"], capture_output=True, text=True)
    if words.returncode != 0:
        pytest.skip("no python3-config --embed")
    program = compile_c(scratch, "embedding", EMBEDDING, "-Wl,--no-as-needed", *(word for word in words.stdout.split() if not word.startswith("-flto")))
    run = record([program])
    assert run.returncode == 0, run.stderr
    (site,) = report_json(run.path, "sites", "--min-size", str(SIZE), "--max-size", str(SIZE))["sites"]
    assert [function for function, _, _ in python_part(site)] == ["fill", "<module>"]
    assert "main" in [frame["function"] for frame in site["stack"]]

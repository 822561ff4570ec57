# SPDX-License-Identifier: Apache-2.0
"""Extension modules and servers as people install them. Only with HEAPGAUGE_LONG=1: they come from the package registry."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from compiled import wait_for
from test_python_stacks import python_part

pytestmark = pytest.mark.skipif(os.environ.get("HEAPGAUGE_LONG") != "1", reason="takes minutes; HEAPGAUGE_LONG=1")

PACKAGES = ["numpy", "pandas", "lxml", "polars", "cython", "pybind11", "setuptools", "gunicorn", "uvicorn"]
REQUESTS = 2_001
SIZE = 50_000

# module: (what allocates, a part of the native module's path)
MODULES = {
    "numpy": ("import numpy\ndef mine():\n    return numpy.ones(2_000_000).copy()\nkept = mine()\n", "numpy"),
    "pandas": ("import pandas\ndef mine():\n    return pandas.DataFrame({'a': range(500_000)}).sort_values('a', ascending=False)\nkept = mine()\n", "numpy"),
    "lxml": ("from lxml import etree\ndef mine():\n    return etree.fromstring('<a>' + '<b>text</b>' * 50_000 + '</a>')\nkept = mine()\n", "lxml"),
    "sqlite3": ("import sqlite3\ndef mine():\n    c = sqlite3.connect(':memory:')\n    c.execute('create table t(x)')\n    c.executemany('insert into t values (?)', (('x' * 100,) for _ in range(20_000)))\n    return c\nkept = mine()\n", "sqlite"),
    "polars": ("import polars\ndef mine():\n    return polars.DataFrame({'a': list(range(500_000))}).sort('a', descending=True)\nkept = mine()\n", "polars"),
}

CYTHON = """
cdef extern from *:
    '''
    #include <stdlib.h>
    static void *volatile kept; /* or gcc leaves the call out */
    static void keep(size_t n) { kept = malloc(n); }
    '''
    void keep(size_t n)
def hold(int n):
    for _ in range(n):
        keep(4321)
"""
PYBIND = r"""
#include <pybind11/pybind11.h>
#include <cstdlib>
static void *volatile kept;
__attribute__((noinline)) static void *keep(size_t n) { return malloc(n); }
static void hold(int n) { for (int i = 0; i < n; i++) kept = keep(5432); }
PYBIND11_MODULE(pbmod, m) { m.def("hold", hold); }
"""
SETUP = """
from setuptools import setup, Extension
import pybind11
from Cython.Build import cythonize
setup(name="mods", ext_modules=cythonize("cymod.pyx") + [Extension("pbmod", ["pbmod.cpp"], include_dirs=[pybind11.get_include()], extra_compile_args=["-g"])])
"""

WSGI = f"""
kept = []
def remember():
    kept.append(bytearray({SIZE}))
def app(environ, start_response):
    remember()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
async def asgi(scope, receive, send):
    if scope["type"] == "http":
        remember()
        await send({{"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}})
        await send({{"type": "http.response.body", "body": b"ok"}})
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter with the packages."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", *PACKAGES], check=True)
    return folder / "bin" / "python"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_both_stacks(name, python, record, report_json, scratch):
    """Python functions down to the line, and native ones below them, for the most memory of its own line. Of polars, whose allocator is
    linked in, the mappings are seen."""
    source, native = MODULES[name]
    program = scratch / "program.py"
    program.write_text(source)
    run = record([python, program])
    assert run.returncode == 0, run.stderr
    sites = report_json(run.path, "sites", "--kind", "all", "--cost", "max")["sites"]
    mine = [site for site in sites if "mine" in [function for function, _, _ in python_part(site)]]
    modules = {pathlib.Path(f["module"]).as_posix() for site in mine for f in site["stack"] if f["module"] != f["file"]}
    assert mine and any(native in module for module in modules), modules
    print(name, len(mine), "sites below mine(), through", sorted(pathlib.Path(module).name for module in modules if native in module))


def test_own_extension_modules(python, record, report_json, scratch):
    (scratch / "cymod.pyx").write_text(CYTHON)
    (scratch / "pbmod.cpp").write_text(PYBIND)
    (scratch / "setup.py").write_text(SETUP)
    subprocess.run([python, "setup.py", "-q", "build_ext", "--inplace"], cwd=scratch, check=True, capture_output=True)
    (scratch / "program.py").write_text("import cymod, pbmod\ndef mine():\n    cymod.hold(100)\n    pbmod.hold(200)\nmine()\n")
    run = record([python, "program.py"], cwd=scratch)
    assert run.returncode == 0, run.stderr
    for size, calls, line in (4321, 100, 3), (5432, 200, 4):
        sites = report_json(run.path, "sites", "--min-size", str(size), "--max-size", str(size))["sites"]
        assert sum(site["calls"] for site in sites) == calls
        assert all(("mine", str(scratch / "program.py"), line) in [(f, pathlib.Path(scratch, p).as_posix(), n) for f, p, n in python_part(site)] for site in sites)
        assert any("hold" in frame["function"] for frame in sites[0]["stack"] if frame["module"] != frame["file"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/").status == 200
    except OSError:
        return False


SERVERS = {
    "gunicorn": ["-m", "gunicorn", "-w", "2", "app:app", "-b", "127.0.0.1:{port}"],
    "uvicorn": ["-m", "uvicorn", "app:asgi", "--port", "{port}", "--log-level", "warning"],
}


@pytest.mark.parametrize("server", SERVERS)
def test_servers_under_load(server, python, heapgauge, clean_env, report_json, scratch):
    """Every request keeps a block; each is attributed to the line that keeps it."""
    (scratch / "app.py").write_text(WSGI)
    port, path = free_port(), scratch / "run.hg"
    words = [word.format(port=port) for word in SERVERS[server]]
    running = subprocess.Popen([heapgauge, "record", "-q", "-o", path, "--", python, *words], cwd=scratch, env=clean_env)
    try:
        wait_for(lambda: answers(port), "an answer of the server")
        work = lambda: [urllib.request.urlopen(f"http://127.0.0.1:{port}/").read() for _ in range((REQUESTS - 1) // 4)]
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()
    sites = report_json(path, "sites", "--limit", "100000", "--min-size", str(SIZE), "--max-size", str(SIZE + 1))["sites"]
    calls = sum(site["calls"] for site in sites if "remember" in [function for function, _, _ in python_part(site)])
    assert calls >= REQUESTS and calls == sum(site["calls"] for site in sites)

# SPDX-License-Identifier: Apache-2.0
"""Python programs at the moments when the frames of the interpreter are not what they should be: nothing happens to the program."""

import os
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from test_python_stacks import interpreters

TIMES = 20 if os.environ.get("HEAPGAUGE_LONG") == "1" else 2

HANDLER = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile long handled;
static void *volatile block;
static void handle(int number) { (void)number; block = malloc(4321); free(block); handled++; }
long count(void) { return handled; }
void begin(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 211 }, { 0, 211 } };

	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
}
void end(void) { struct itimerval never = { { 0, 0 }, { 0, 0 } }; setitimer(ITIMER_PROF, &never, NULL); }
"""
HANDLED = r"""
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
def f(n): return n if n == 0 else g(n - 1)
def g(n): return sum(h(n)) + f(n)
def h(n): yield from (i for i in range(n % 3))
library.begin()
for i in range(3000): f(20)
library.end()
print(library.count() > 0)
"""

ALLOCATING = r"""
#include <stdlib.h>
void allocate(void) { for (;;) free(malloc(333)); }
"""
DAEMONS = r"""
import ctypes, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
def deep(n): return library.allocate() if n == 0 else deep(n - 1)
for i in range(4): threading.Thread(target=deep, args=(30 * i,), daemon=True).start()
time.sleep(0.05)
print("ends")
"""

OPENER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	(void)argc;
	for (int i = 0; i < 3; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
		void (*begin)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
		int (*run)(const char *) = (int (*)(const char *))dlsym(library, "PyRun_SimpleString");
		int (*end)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");

		begin();
		run("def f():\n  return [bytearray(2000) for _ in range(50)]\nf()");
		end();
		dlclose(library);
		free(malloc(12));
	}
	puts("done");
}
"""

each = pytest.mark.parametrize("version, path", interpreters().items())


def library(folder, name, source):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", folder / f"{name}.so", folder / f"{name}.c"], check=True)
    return folder / f"{name}.so"


@each
@pytest.mark.parametrize("mode", ["exact", "sample"])
def test_a_signal_handler_allocates_at_any_instruction(version, path, mode, record, scratch, report_json):
    run = record([path, "-c", HANDLED, library(scratch, "handler", HANDLER)], "--mode", mode)
    assert (run.returncode, run.stdout) == (0, "True\n"), run.stderr
    assert report_json(run.path)["processes"][0]["calls"] > 0


@each
def test_threads_allocate_while_the_interpreter_ends(version, path, record, scratch):
    allocating = library(scratch, "allocating", ALLOCATING)
    for _ in range(TIMES):
        run = record([path, "-c", DAEMONS, allocating])
        assert (run.returncode, run.stdout) == (0, "ends\n"), run.stderr


@each
def test_an_interpreter_that_is_opened_and_closed(version, path, record, scratch, report_json):
    where = subprocess.run([path, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"], capture_output=True, text=True).stdout.strip()
    shared = f"{where}/libpython{version.rsplit('.', 1)[0]}.so.1.0"
    if not os.path.exists(shared):
        pytest.skip("this interpreter is no library")
    opener = compile_c(scratch, "opener", OPENER, "-ldl")
    home = subprocess.run([path, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout.strip()
    bare = subprocess.run([opener, shared], env=os.environ | {"PYTHONHOME": home}, capture_output=True, text=True, timeout=WAIT_SECONDS)
    run = record([opener, shared], env={"PYTHONHOME": home})
    assert (run.returncode, run.stdout) == (bare.returncode, bare.stdout), run.stderr
    assert "python_unknown" in report_json(run.path)["processes"][0]["health"]


def test_a_version_that_is_not_known_is_recorded_without(record, report_json):
    old = os.path.expanduser("~/.pyenv/versions/3.10.13/bin/python3")
    if not os.path.exists(old):
        pytest.skip("no old interpreter here")
    run = record([old, "-c", "x = [bytearray(1000) for _ in range(1000)]"])
    assert run.returncode == 0
    sites = report_json(run.path, "sites")["sites"]
    assert "python_unknown" in report_json(run.path)["processes"][0]["health"]
    assert not any(frame["module"].endswith(".py") for site in sites for frame in site["stack"])

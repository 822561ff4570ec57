# SPDX-License-Identifier: Apache-2.0
"""The package of bindings/python as tests use it: from the sources, with the command of the build."""

import os
import pathlib

from test_python_stacks import interpreters

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "bindings" / "python" / "src"


def with_package(env, build):
    """The environment in which the package is found, and finds the command."""
    return env | {"PYTHONPATH": str(PACKAGE), "PATH": f"{build}{os.pathsep}{env['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


def every_python():
    """(version, path) of those that are recorded with their functions, and the oldest that the package is for, if it is here."""
    oldest = sorted(pathlib.Path.home().glob(".pyenv/versions/3.9*/bin/python3"))
    return [*interpreters().items(), *(("3.9", path) for path in oldest[:1])]

# SPDX-License-Identifier: Apache-2.0
"""A small tree of its own for each test, and a way to run a check over it."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Tree:
    """A source tree in which violations are planted."""

    def __init__(self, path):
        self.path = path

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self, *command):
        subprocess.run(command, cwd=self.path, check=True)

    def check(self, name, *options):
        """(exit status, lines of output) of tools/NAME over this tree."""
        done = subprocess.run(
            [ROOT / "tools" / name, "--root", self.path, *options], capture_output=True, text=True, cwd=self.path
        )
        return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def root():
    return ROOT

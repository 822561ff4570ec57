# SPDX-License-Identifier: Apache-2.0
"""Building with the page and without it: what the configuration says of node."""

import os
import re
import subprocess

import pytest

# Programs are then found in PATH only.
NOWHERE_ELSE = "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"


@pytest.fixture
def configure(root, tmp_path):
    """configure(node, options...): (status, output) where `node --version` prints that; None: there is no node."""

    def run(version, *options):
        tools = tmp_path / "bin"
        tools.mkdir()
        for name in "cmake", "ninja", "gcc", "g++", "cc", "as", "ld", "ar", "ranlib", "nm", "sh", "pkg-config", "python3":
            found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True).stdout.strip()
            if found:
                (tools / name).symlink_to(found)
        if version:
            for name, says in ("node", version), ("npm", "9.0.0"):
                (tools / name).write_text(f"#!/bin/sh\necho {says}\n")
                (tools / name).chmod(0o755)
        done = subprocess.run(
            ["cmake", "-S", root, "-B", tmp_path / "build", "-G", "Ninja", "-DBUILD_TESTING=OFF", *options],
            env={k: v for k, v in os.environ.items() if k != "PATH"} | {"PATH": str(tools)},
            capture_output=True,
            text=True,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def test_without_node_it_says_how_to_build_without_the_page(configure):
    status, said = configure(None, NOWHERE_ELSE)
    assert status != 0
    assert re.search("needs node 18 or later and npm, and there is none. -DHEAPGAUGE_WEB=OFF builds heapgauge without the page", said), said


def test_an_old_node_is_named(configure):
    status, said = configure("v16.20.2", NOWHERE_ELSE)
    assert status != 0
    assert re.search(r"needs node 18 or later, and \S+ is v16.20.2. -DHEAPGAUGE_WEB=OFF builds", said), said


def test_without_the_page_no_node_is_needed(configure):
    status, said = configure(None, "-DHEAPGAUGE_WEB=OFF")
    assert status == 0, said

# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` puts where, and that it works from there."""

import os
import subprocess

import pytest


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An installation of the build under test, and the build's folder."""
    from conftest import ROOT

    build = os.environ.get("HEAPGAUGE_BUILD", ROOT / "build" / "release")
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    return prefix


def test_command_recorder_and_documents_are_installed(installed):
    files = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    assert {"bin/heapgauge", "share/doc/heapgauge/README.md", "share/doc/heapgauge/LICENSE"} <= files
    assert {
        "share/man/man1/heapgauge.1",
        "share/man/man1/heapgauge-record.1",
        "share/bash-completion/completions/heapgauge",
        "share/zsh/site-functions/_heapgauge",
        "share/fish/vendor_completions.d/heapgauge.fish",
    } <= files
    assert [f for f in files if f.endswith("/libheapgauge.so")] == ["lib/heapgauge/libheapgauge.so"]
    # Our other static libraries are nobody else's affair.
    assert [f for f in files if f.endswith(".a")] == ["lib/heapgauge/libheapgauge.a"]


def test_installed_command_finds_its_recorder(installed, tmp_path):
    recording = tmp_path / "run.hg"
    record = [installed / "bin" / "heapgauge", "record", "-q", "-o", recording, "--", "/bin/sh", "-c", "exit 3"]
    done = subprocess.run(record, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    report = [installed / "bin" / "heapgauge", "report", recording]
    done = subprocess.run(report, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "peak" in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built, with no link that leads nowhere, and readable without a network."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEAPGAUGE_BUILD", ROOT / "build/release"))


def test_the_site_is_built_and_needs_no_network():
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    done = subprocess.run([sys.executable, ROOT / "tools/build-site", BUILD], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = ROOT / "build/site"
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"?(https?://[^\" >]+)", page.read_text())
        assert not loaded, (page, loaded)
    assert "max-peak" in (site / "docs/reference/commands.html").read_text()

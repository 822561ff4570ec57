# SPDX-License-Identifier: Apache-2.0
"""Every check over the real tree. The builds to look at come from the environment:

HEAPGAUGE_BUILD=build/release HEAPGAUGE_CLANG_BUILD=build/release-clang pytest tests/checks
"""

import os
import subprocess

import pytest


def run(root, name, *options):
    done = subprocess.run([root / "tools" / name, *options], capture_output=True, text=True, cwd=root)
    output = done.stdout + done.stderr
    if done.returncode == 0 and "SKIPPED" in output:
        pytest.skip(output.strip())
    if done.returncode != 0:
        pytest.fail("\n" + output, pytrace=False)


def build(root, variable, preset):
    folder = os.environ.get(variable, root / "build" / preset)
    return ["--build", str(folder)]


def test_layers(root):
    run(root, "check-layers", *build(root, "HEAPGAUGE_BUILD", "release"))


def test_seam(root):
    run(root, "check-seam")


def test_sizes(root):
    run(root, "check-sizes")


def test_words(root):
    run(root, "check-words", *build(root, "HEAPGAUGE_BUILD", "release"))


def test_commits(root):
    run(root, "check-commits")


def test_banned(root):
    run(root, "check-banned")


def test_headers(root):
    run(root, "check-headers")


def test_style(root):
    run(root, "check-style")


def test_format_doc(root):
    run(root, "check-format-doc")


@pytest.mark.parametrize("variable, preset", [("HEAPGAUGE_BUILD", "release"), ("HEAPGAUGE_CLANG_BUILD", "release-clang")])
def test_fence(root, variable, preset):
    run(root, "check-fence", *build(root, variable, preset))


def test_web(root):
    run(root, "check-web", *build(root, "HEAPGAUGE_BUILD", "release"))


def test_tidy(root):
    since = ["--since", os.environ["HEAPGAUGE_SINCE"]] if os.environ.get("HEAPGAUGE_SINCE") else []
    run(root, "check-tidy", *build(root, "HEAPGAUGE_CLANG_BUILD", "release-clang"), *since)

# SPDX-License-Identifier: Apache-2.0
"""The page's own tests: its types, and its logic without a browser.

They run in a copy, with what the build installed for the page and what is installed for the tests side by side.
"""

import pathlib
import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[3]


def link_packages(source, target):
    for entry in source.iterdir():
        if entry.name.startswith("@"):
            (target / entry.name).mkdir(exist_ok=True)
            link_packages(entry, target / entry.name)
        elif not entry.name.startswith(".") and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)


@pytest.fixture(scope="module")
def copy(build, tmp_path_factory):
    installed = build / "web" / "node_modules"
    if not installed.is_dir():
        pytest.skip("this build has no page (-DHEAPGAUGE_WEB=OFF)")
    folder = tmp_path_factory.mktemp("web")
    for name in ("src", "test"):
        shutil.copytree(ROOT / "web" / name, folder / name)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(ROOT / "web" / name, folder)
    (folder / "node_modules").mkdir()
    link_packages(installed, folder / "node_modules")
    link_packages(ROOT / "tests" / "web" / "node_modules", folder / "node_modules")
    return folder


def run(folder, script, *arguments):
    return subprocess.run(
        ["node", folder / "node_modules" / script, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, env={"PATH": "/usr/local/bin:/usr/bin:/bin", "NO_COLOR": "1"},
    )


def test_types_are_strict(copy):
    done = run(copy, "typescript/bin/tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


def test_logic(copy):
    done = run(copy, "vitest/vitest.mjs", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"Tests\s+(\d+) passed", done.stdout).group(1)) > 80

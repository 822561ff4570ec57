# SPDX-License-Identifier: Apache-2.0
"""What the command links to and what its page is made of: NOTICE, the page and the SBOM say all of it, and no more."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTICE = (ROOT / "NOTICE").read_text()


@pytest.fixture
def packages(build):
    return json.loads((build / "page-packages.json").read_text())


def listed(title):
    """The first words of the rows of a table of NOTICE."""
    rows = NOTICE[NOTICE.index(f"    {title} ") :].split("\n\n")[0].splitlines()[1:]
    return {name for row in rows if not row.startswith("      ") for name in re.match(r"    ([^\s,]+(?:, [^\s,]+)*)", row)[1].split(", ")}


def test_every_library_is_listed(heapgauge):
    done = subprocess.run(["readelf", "-d", heapgauge], capture_output=True, text=True, check=True)
    needed = {name.split(".")[0] for name in re.findall(r"NEEDED.*\[(.*)\]", done.stdout)}
    loaded = {name.split(".")[0] for name in re.findall(r"lib\w+\.so\.\d+", heapgauge.read_bytes().decode("latin-1"))} & {"libmicrohttpd", "libdebuginfod", "libcurl"}
    assert loaded == {"libmicrohttpd", "libdebuginfod", "libcurl"}
    assert (needed | loaded | {"libiberty"}) - {"ld-linux-x86-64"} == listed("library"), "the dynamic linker is libc's"


def test_every_package_of_the_page_is_listed_and_comes_with_its_licence(build, packages):
    page = (build / "page.html").read_text()
    assert {one["name"] for one in packages} == listed("package")
    for one in packages:
        assert re.search(rf"^    {re.escape(one['name'])} +{one['license']}$", NOTICE, re.MULTILINE)
        assert f"{one['name']} {one['version']} ({one['license']})\n\n{one['text']}" in page
        assert "Copyright" in one["text"]


def test_the_sbom_is_valid_and_complete(build, packages):
    path = build / "heapgauge.spdx.json"
    sbom = json.loads(path.read_text())
    names = {one["name"]: one for one in sbom["packages"]}
    for one in packages:
        assert (names[one["name"]]["versionInfo"], names[one["name"]]["licenseDeclared"]) == (one["version"], one["license"])
    assert {"heapgauge", "libiberty", "libmicrohttpd", "libdw", "zstd"} <= set(names)
    if not shutil.which("pyspdxtools"):
        pytest.skip("pyspdxtools is not installed: it judges the format")
    done = subprocess.run(["pyspdxtools", "--infile", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

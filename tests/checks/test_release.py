# SPDX-License-Identifier: Apache-2.0
"""What a release needs to hold at any time: one version, and a changelog that can be cut."""

import re

SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_version_is_the_same_everywhere(root):
    (version,) = re.findall(r"^project\(heapgauge VERSION (\S+)", (root / "CMakeLists.txt").read_text(), re.M)
    (crate,) = re.findall(r'^version = "(.*)"', (root / "bindings/rust/Cargo.toml").read_text(), re.M)
    (package,) = re.findall(r'^version = "(.*)"', (root / "bindings/python/pyproject.toml").read_text(), re.M)
    (module,) = re.findall(r'^__version__ = "(.*)"', (root / "bindings/python/src/heapgauge/__init__.py").read_text(), re.M)
    (alpine,) = re.findall(r"^pkgver=(.*)", (root / "cmake/package/APKBUILD").read_text(), re.M)
    assert {crate, package, module, alpine} == {version}


def test_the_changelog_is_in_the_form_of_keep_a_changelog(root):
    headings = re.findall(r"^(#+) (.*)", (root / "CHANGELOG.md").read_text(), re.M)
    versions = [title for level, title in headings if level == "##"]
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in versions[1:]), versions
    inside = []
    for level, title in headings[1:]:
        if level == "##":
            inside = []
        elif level == "###":
            assert title in SECTIONS and title not in inside, title
            inside.append(title)

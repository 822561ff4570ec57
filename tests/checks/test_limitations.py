# SPDX-License-Identifier: Apache-2.0
"""Every limitation that docs/limitations.md names has a test, and that is where the page says."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (?!what |---)(.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def test_every_limitation_names_a_test_that_exists():
    rows = ROW.findall((ROOT / "docs" / "limitations.md").read_text())
    assert len(rows) > 20
    for row in rows:
        named = NAMED.findall(row)
        assert named, f"no test: {row}"
        for file, name in named:
            assert f"\ndef {name}(" in next((ROOT / "tests" / "e2e").glob(f"*/{file}")).read_text(), f"{file} has no {name}"


def test_the_readme_leads_there():
    assert "(docs/limitations.md)" in (ROOT / "README.md").read_text()

# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks: listing files, blanking comments, and reporting findings."""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Comments and literals in one pattern, so that a quote in a comment or a slash in a string starts neither.
_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def arguments(description, build=False, more=None):
    """The command line of every check: --root, --build for checks of built files, and what more(parser) adds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the source tree (default: this one)")
    if build:
        parser.add_argument("--build", type=pathlib.Path, help="a build folder, e.g. build/release")
    if more:
        more(parser)
    return parser.parse_args()


def files(root, folders, suffixes):
    """All files below the folders with one of the suffixes, sorted."""
    found = []
    for folder in folders:
        base = root / folder
        if base.is_dir():
            found += [p for p in base.rglob("*") if p.suffix in suffixes and p.is_file()]
    return sorted(found)


def code_only(text):
    """The text with comments and literals blanked; line numbers are unchanged."""
    return _NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def finish(name, findings, looked_at):
    """Prints one line per finding and ends the program: 0 if there are none."""
    for finding in findings:
        print(finding)
    if not looked_at:
        print(f"{name}: looked at nothing")
        sys.exit(1)
    print(f"{name}: {len(findings)} findings in {looked_at} files")
    sys.exit(1 if findings else 0)

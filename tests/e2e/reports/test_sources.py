# SPDX-License-Identifier: Apache-2.0
"""Source lines beside their numbers in the terminal, and sources that are elsewhere than where they were compiled."""

import json
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS
from serving import Server

SOURCE = """#include <stdlib.h>
void *volatile kept[10];
int main(void)
{
	for (int i = 0; i < 10; i++)
		kept[i] = malloc(1000); /* the line of interest */
	return 0;
}
"""
TEXT = "kept[i] = malloc(1000); /* the line of interest */"


@pytest.fixture
def moved(scratch, record):
    """A recording of a program whose source was moved away: (recording, folder then, folder now)."""
    then, now = scratch / "then", scratch / "now"
    (then / "src").mkdir(parents=True)
    (then / "src" / "main.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O0", then / "src" / "main.c", "-o", scratch / "main"], check=True)
    run = record([scratch / "main"])
    shutil.move(then, now)
    return run.path, then, now


@pytest.fixture
def command(heapgauge, clean_env, scratch):
    def command(*argv):
        return subprocess.run(
            [heapgauge, *argv], env=clean_env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS
        )

    return command


def text_of(command, *argv):
    done = command("report", "--by", "line", "--source", "--format", "json", *argv)
    assert done.returncode == 0, done.stderr
    (line,) = [row for row in json.loads(done.stdout)["lines"] if row["source_line"] == 6]
    return line["source_text"]


def test_the_text_of_a_line_is_beside_its_numbers(moved, command, scratch):
    path, then, now = moved
    assert text_of(command, path) is None
    assert text_of(command, path, "--source-map", f"{then}={now}") == TEXT
    assert text_of(command, path, "--source-map", f"{then}/={now}") == TEXT
    assert now.parent == scratch and text_of(command, path, "--source-map", f"{then}=now") == TEXT
    # The first that fits; a part of a folder's name does not.
    assert text_of(command, path, "--source-map", f"{str(then)[:-1]}={now}", "--source-map", f"{then}={now}") == TEXT
    shutil.copytree(now, then)
    assert text_of(command, path) == TEXT
    printed = command("report", path, "--by", "line", "--source").stdout
    assert "SOURCE" in printed and TEXT in printed
    assert TEXT not in command("report", path, "--by", "line").stdout


def test_a_bundle_and_the_page_read_sources_where_they_are_now(moved, command, heapgauge, clean_env, scratch):
    path, then, now = moved
    options = ("--sources", "1", "--source-folder", now, "-o", scratch / "all.hg")
    assert "lines of source" not in command("bundle", path, *options).stderr
    assert "lines of source" in command("bundle", path, *options, "--source-map", f"{then}={now}").stderr
    assert text_of(command, scratch / "all.hg") == TEXT
    server = Server(heapgauge, path, "--no-open", "--source-map", f"{then}={now}", env=clean_env, cwd=scratch)
    got = server.get(f"/api/source?file={then}/src/main.c").json()
    assert server.end()[0] == 0
    assert got["from"] == "disk" and got["lines"] == SOURCE.splitlines()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--source"], "--source needs --by line"),
        (["--by", "function", "--source"], "--source needs --by line"),
        (["--by", "line", "--source-map", "/a=/b"], "--source-map needs --source"),
        (["--by", "line", "--source", "--source-map", "/a"], "--source-map takes FROM=TO"),
        (["--by", "line", "--source", "--source-map", "=/a"], "--source-map takes FROM=TO"),
    ],
)
def test_mistakes_in_the_command(options, message, moved, command):
    done = command("report", moved[0], *options)
    assert done.returncode == 2 and message in done.stderr

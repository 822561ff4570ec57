# SPDX-License-Identifier: Apache-2.0
"""record --only-exe: of a tree of processes only those whose executable matches are recorded; the others are followed."""

import shutil

import pytest

from compiled import compile_c

# Takes 100 blocks, and runs what its arguments say: itself under another name, and so on.
LINK = r"""
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
static void *volatile blocks[100];
__attribute__((noinline)) void take(void) { for (int i = 0; i < 100; i++) blocks[i] = malloc(64); __asm__(""); }
int main(int argc, char **argv)
{
	take();
	if (argc > 1) {
		if (fork() == 0) { execv(argv[1], argv + 1); _exit(1); }
		wait(NULL);
	}
	return 4;
}
"""


@pytest.fixture
def chain(scratch):
    """driver starts one, which starts two, which starts one again."""
    driver = compile_c(scratch, "driver", LINK)
    for name in ("one", "two"):
        shutil.copy(driver, scratch / name)
    return [driver, scratch / "one", scratch / "two", scratch / "one"]


@pytest.mark.parametrize("regex, names", [("/two$", ["two"]), ("/(one|two)$", ["one", "one", "two"]), ("/driver$", ["driver"])])
def test_only_what_matches_is_in_the_recording(regex, names, chain, record, report_json):
    done = record(chain, "--only-exe", regex)
    assert done.returncode == 4
    report = report_json(done.path)
    # A fork before its exec has the executable of its parent, and is recorded with it.
    programs = [p for p in report["processes"] if p["end"] != "exec"]
    assert sorted(p["command"].split()[0].rsplit("/", 1)[1] for p in programs) == names
    assert all(p["calls"] >= 100 for p in programs)
    assert report["warnings"] == {}


def test_nothing_that_matches_is_said(chain, record):
    done = record(chain, "--only-exe", "/three$")
    assert done.returncode == 125
    assert "matches --only-exe" in done.stderr and not done.path.exists()


@pytest.mark.parametrize("options, message", [(("--only-exe", "("), "a regular expression, not '('"), (("--only-exe", "x", "--pid", "1"), "--pid")])
def test_mistakes_in_the_command(options, message, record):
    done = record(["/bin/true"], *options)
    assert done.returncode == 2 and message in done.stderr

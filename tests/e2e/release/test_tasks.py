# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/comparison.md, "Fourteen questions", answer them."""

import json
import pathlib
import re
import shlex
import subprocess

import pytest

from compiled import WAIT_SECONDS
from running import stood_still
from serving import page_env

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "comparison.md").read_text()
COMMANDS = {}
for line, numbers in re.findall(r"^    (heapgauge .*?) {2,}([\d, ]+)", PAGE, re.M):
    COMMANDS.update({int(number): line for number in numbers.split(",") if number.strip()})

SHOP = r"""
#include <map>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct Item { char data[200]; };
static std::map<int, Item> *catalog;
static char *volatile sink;

__attribute__((noinline)) static void load_catalog(int count) { catalog = new std::map<int, Item>; for (int i = 0; i < count; i++) (*catalog)[i]; }
__attribute__((noinline)) static void open_session() { sink = new char[3000]; }
__attribute__((noinline)) static void format_price() { std::string text(100, 'x'); sink = text.data(); }
__attribute__((noinline)) static void build_index() { sink = new char[700000]; }

static void indexer() { pthread_setname_np(pthread_self(), "indexer"); build_index(); }

int main(int argc, char **argv)
{
	std::thread thread(indexer);
	thread.join();
	load_catalog(argc > 1 ? 80000 : 60000);
	delete catalog;
	for (int i = 0; i < 2000; i++) {
		open_session();
		for (int k = 0; k < 20; k++)
			format_price();
		if (i % 10 == 0)
			usleep(10000);
	}
	if (argc > 2)
		kill(getpid(), 9);
	_exit(0);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A repository with the program."""
    path = tmp_path_factory.mktemp("shop")
    (path / ".git").mkdir()
    (path / "shop.cc").write_text("#include <signal.h>\n" + SHOP)
    subprocess.run(["g++", "-g", "-O1", "-std=c++17", "-pthread", "shop.cc", "-o", "shop"], cwd=path, check=True)
    return path


@pytest.fixture(scope="module")
def run(heapgauge, folder):
    def call(command, status=0):
        words = shlex.split(command)
        assert words[0] == "heapgauge"
        done = subprocess.run([heapgauge, *words[1:]], cwd=folder, env=page_env(folder), capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode == status, done.stderr
        return done

    return call


@pytest.fixture(scope="module")
def summary(run, folder):
    """What recording prints; the recording is the newest of the folder."""
    for _ in range(8):
        printed = run(COMMANDS[1]).stderr
        if not stood_still(json.loads(run("heapgauge report --view timeline --format json").stdout)["timeline"]):
            break
    return printed


def test_every_question_has_its_command():
    assert sorted(COMMANDS) == list(range(1, 15))


def test_leak_peak_and_growth_are_in_the_summary(summary):
    """1, 2, 3"""
    verdict = next(line for line in summary.splitlines() if line.lstrip().startswith("verdict"))
    assert "from open_session (shop.cc:" in verdict and "in load_catalog (shop.cc:" in verdict
    assert "it grew by" in verdict


@pytest.mark.parametrize(
    "question, answer",
    [
        (4, r"format_price \(shop\.cc:\d+\)"),
        (5, r"open_session \(shop\.cc:\d+\)"),
        (7, r"build_index \(shop\.cc:\d+\)"),
        (8, r"std::map<int, Item"),
        (9, r"3,000|2\.9 KiB"),
        (10, r"RSS"),
        (12, r"peak"),
    ],
)
def test_a_question_is_answered_first(run, summary, question, answer):
    """The answer is in the first rows."""
    printed = run(COMMANDS[question]).stdout
    assert re.search(answer, "\n".join(printed.splitlines()[:15])), printed


def test_two_runs_are_compared(run, summary):
    """6"""
    run("heapgauge record -q -o before.hg -- ./shop")
    run("heapgauge record -q -o after.hg -- ./shop larger")
    assert "load_catalog" in run(COMMANDS[6]).stdout


@pytest.mark.parametrize("question, option", [(13, "--pages-on=end"), (14, "--image")])
def test_blocks_that_keep_pages_or_are_unreachable_are_named(run, summary, question, option):
    run(f"heapgauge record -q {option} -- ./shop")
    assert re.search(r"open_session \(shop\.cc:\d+\)", "\n".join(run(COMMANDS[question]).stdout.splitlines()[:12]))


def test_a_killed_program_is_reported(run, summary):
    """11"""
    printed = run(COMMANDS[11].replace("./shop", "./shop larger killed"), status=-9).stderr
    assert "open_session (shop.cc:" in printed and "killed" in printed

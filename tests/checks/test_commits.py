# SPDX-License-Identifier: Apache-2.0
"""tools/check-commits over repositories with planted messages."""

import os
import subprocess

import pytest
from conftest import ROOT

WHY = "A reader of the log wants to know why this was needed."
GOOD = "recorder: count the blocks of a forked child"
ENV = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


class Repository:
    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("Whatever was before the rule.", "")

    def git(self, *words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=self.path, env=ENV, check=True, capture_output=True)

    def commit(self, subject, body=WHY):
        self.git("commit", "-q", "--allow-empty", "-m", subject, *(["-m", body] if body else []))

    def add_tool(self):
        (self.path / "tools").mkdir()
        (self.path / "tools/check-commits").write_text("the rule\n")
        self.git("add", "tools")
        self.commit("tools: add the rule")

    def check(self, *options):
        argv = [ROOT / "tools/check-commits", "--root", self.path, *options]
        done = subprocess.run(argv, env=ENV, capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "repository")
    made.add_tool()
    return made


def only_finding(result):
    status, lines = result
    assert status == 1 and len(lines) == 2, lines
    return lines[0]


@pytest.mark.parametrize(
    "subject",
    [
        GOOD,
        "analysis, cli: embed the help of each view",
        "recorder/unwind: pass registers by value",
        ".ci: process results in parallel",
        "cmake: address a warning",
        'Revert "recorder: count the blocks of a forked child"',
    ],
)
def test_good_messages_pass(repository, subject):
    repository.commit(subject)
    assert repository.check() == (0, ["check-commits: 0 findings in 1 commits"])


@pytest.mark.parametrize(
    "subject, finding",
    [
        ("count the blocks of a forked child", 'is not "area: verb'),
        ("Recorder: ", 'is not "area: verb'),
        ("fixup! recorder: count the blocks", 'is not "area: verb'),
        ("recorder: " + "count " * 11, "characters, more than 72"),
        (GOOD + ".", "ends with a period"),
        ("recorder: counted the blocks of a child", '"counted" is past tense'),
        ("recorder: counts the blocks of a child", '"counts" is third person'),
        ("recorder: counting the blocks of a child", '"counting" is a gerund'),
        ("recorder: what a child holds", '"what" is no verb'),
    ],
)
def test_bad_subjects_are_found(repository, subject, finding):
    repository.commit(subject)
    assert finding in only_finding(repository.check())


@pytest.mark.parametrize("body", ["", "Fix it.", "Signed-off-by: A Person With A Long Name <a@example.org>"])
def test_a_body_that_says_nothing_is_found(repository, body):
    repository.commit(GOOD, body)
    assert "the body does not say why" in only_finding(repository.check())


def test_commits_before_the_rule_and_beside_it_are_not_checked(repository):
    repository.git("checkout", "-q", "-b", "older", "HEAD~1")
    repository.commit("An older habit.", "")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge branch 'older'", "older")
    assert repository.check() == (0, ["check-commits: 0 findings in 0 commits"])


def test_released_commits_are_not_checked_again(repository):
    repository.commit("A mistake.", "")
    repository.git("tag", "v1")
    repository.commit(GOOD)
    assert repository.check() == (0, ["check-commits: 0 findings in 1 commits"])


def test_a_range_is_checked_as_given(repository):
    assert "is not \"area" in repository.check("HEAD~1")[1][1]
    assert repository.check("HEAD~1..") == (0, ["check-commits: 0 findings in 1 commits"])
    assert repository.check("nowhere..")[0] == 1


def test_a_shallow_clone_says_so_and_passes(repository, tmp_path):
    repository.commit("A mistake.", "")
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.path}", tmp_path / "shallow")
    repository.path = tmp_path / "shallow"
    status, lines = repository.check()
    assert status == 0 and "SKIPPED: the clone is shallow" in lines[0]


def test_without_history_it_says_so_and_passes(tmp_path):
    done = subprocess.run([ROOT / "tools/check-commits", "--root", tmp_path], env=ENV, capture_output=True, text=True)
    assert done.returncode == 0 and "SKIPPED: no git history" in done.stdout

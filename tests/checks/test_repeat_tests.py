# SPDX-License-Identifier: Apache-2.0
"""tools/repeat-tests over tests that are known to fail now and then."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAKY = """
import pathlib
def test_good():
    pass
def test_fails_in_every_second_run():
    runs = pathlib.Path(__file__).parent / "runs"
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert len(runs.read_text()) % 2
"""


def repeat_tests(*options):
    done = subprocess.run([ROOT / "tools/repeat-tests", *map(str, options)], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_test_that_fails_now_and_then_is_counted(tmp_path):
    (tmp_path / "test_flaky.py").write_text(FLAKY)
    status, out = repeat_tests(4, "--", tmp_path / "test_flaky.py")
    assert status == 1
    assert out.splitlines()[-2:] == [
        "failed in 2 of 4: chosen test_flaky::test_fails_in_every_second_run",
        "4 runs, 1 tests failed in at least one of them",
    ]


def test_runs_without_failures(tmp_path):
    (tmp_path / "test_good.py").write_text("def test_good():\n    pass\n")
    status, out = repeat_tests(2, "--", tmp_path / "test_good.py")
    assert (status, out.splitlines()[-1]) == (0, "2 runs, 0 tests failed in at least one of them")


def test_a_run_without_tests_is_not_a_good_one(tmp_path):
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    assert repeat_tests(1, "--", tmp_path / "test_broken.py")[0] in (1, 2)
    (tmp_path / "test_broken.py").write_text("")
    assert repeat_tests(1, "--", tmp_path / "test_broken.py")[0] == 2


def test_usage():
    assert repeat_tests("0")[0] == repeat_tests()[0] == repeat_tests("1", "--")[0] == 2

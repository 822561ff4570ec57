# SPDX-License-Identifier: Apache-2.0
"""Programs that a program starts get the arguments and the environment that they would get without us.

R7: posix_spawn with no environment at all passed on the whole one; so did execv after clearenv. Where only our own
variables make the arguments too long for the kernel, the program starts without them.
"""

import pathlib
import subprocess

import pytest

import recorder
from compiled import WAIT_SECONDS, compile_c

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "targets" / "show_environment.c"


def bare(argv, env, folder):
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(params=["dynamic", "static"])
def shown(request, target, scratch):
    """A program that shows its environment: one that the recorder can live in, and one that it cannot."""
    if request.param == "dynamic":
        return target("show_environment")
    return compile_c(scratch, "show_environment", SOURCE.read_text(), "-static")


def test_every_way_to_start_a_program_passes_what_it_is_given(shown, target, record, build, clean_env, scratch):
    """R7"""
    argv = [target("starts_others"), shown, target("does_nothing")]
    expected = bare(argv, clean_env, scratch)
    assert "posix_spawn, no environment:\n  2 arguments word, environment, in its place\n" in expected
    assert "execl, a cleared environment:\n  2 arguments word, environment, in its place\n" in expected
    done = record(argv)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert bare(argv, clean_env | {"LD_PRELOAD": str(recorder.library(build))}, scratch) == expected


SPAWNS = r"""
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
	char *words[] = { "shown", NULL };
	pid_t pid;
	if (posix_spawn(&pid, argv[1], NULL, NULL, words, NULL) != 0) return 1;
	waitpid(pid, NULL, 0);
	clearenv();
	return system(argv[1]);
}
"""


def test_a_program_that_is_given_no_environment_is_recorded(target, record, scratch, report_json):
    """R7: the child, and the shell and what it runs."""
    run = record([compile_c(scratch, "spawns", SPAWNS), target("show_environment")])
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("  1 arguments, environment, in its place\n")
    commands = [process["command"] for process in report_json(run.path)["processes"]]
    assert sum("shown" in command for command in commands) == 1, commands
    assert any(command.startswith("sh -c") for command in commands), commands

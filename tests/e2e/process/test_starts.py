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


TRUNCATES = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static const char *path;
static off_t whole;
static void *shrink_and_grow(void *unused)
{
	for (;;)
		if (truncate(path, 4096) || truncate(path, whole)) return unused;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	struct stat status;
	path = argv[1];
	if (argc < 2 || stat(path, &status)) return 1;
	whole = status.st_size;
	free(malloc(1));
	pthread_create(&thread, NULL, shrink_and_grow, NULL);
	for (int i = 0; i < 5000; i++) execv(path, argv);
	return 5;
}
"""


def test_truncating_a_file_while_it_is_started_is_no_signal(record, scratch):
    """It cannot be executed by anyone: each start fails, after the recorder has read the file."""
    file = scratch / "changing"
    file.write_bytes(pathlib.Path("/bin/true").read_bytes())
    run = record([compile_c(scratch, "truncates", TRUNCATES, "-pthread"), file])
    assert (run.returncode, run.stderr) == (5, "")


# Starts its arguments by execvp in a forked child, or by posix_spawnp.
SEARCHES = r"""
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
	static char twice[] = "PATH=/nowhere";
	int n = 0, status = 0;
	pid_t pid;
	if (!getenv("PATH") && argc > 3) return 2;
	while (environ[n]) n++;
	char **more = calloc(n + 2, sizeof *more);
	memcpy(more, environ, n * sizeof *more);
	more[n] = twice; /* getenv finds the first one */
	environ = more;
	if (!strcmp(argv[1], "posix_spawnp")) {
		if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ)) return 3;
	} else if ((pid = fork()) == 0) {
		execvp(argv[2], argv + 2);
		_exit(4);
	}
	return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 5;
}
"""


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("searches"), "searches", SEARCHES)


@pytest.mark.parametrize("how", ["execvp", "posix_spawnp"])
@pytest.mark.parametrize("path", ["{0}/directory:{0}/right", "{0}/text:{0}/right", "{0}/broken:{0}/right", "{0}/nowhere:", ":{0}/nowhere", "", "{0}/nowhere::/x"])
def test_the_search_in_path_is_that_of_libc(path, how, searches, target, record, report_json, scratch):
    """A directory and a file that cannot be executed are passed over, and an empty entry is the working directory."""
    for folder in "directory", "text", "broken", "right":
        (scratch / folder).mkdir()
    (scratch / "directory/shown").mkdir()
    (scratch / "text/shown").write_text("text")
    (scratch / "broken/shown").write_text("#!/no/such/interpreter\n")
    (scratch / "broken/shown").chmod(0o755)
    for place in scratch, scratch / "right":
        (place / "shown").symlink_to(target("does_nothing"))
    run = record([searches, how, "shown"], env={"PATH": path.format(scratch)}, cwd=scratch)
    assert (run.returncode, run.stderr) == (0, "")
    processes = report_json(run.path)["processes"]
    assert [p["command"] for p in processes if p["calls"] is not None and p["command"].startswith("shown")], processes


@pytest.mark.parametrize("name", ["script", "./script"])
@pytest.mark.parametrize("text", ["{0}\n", "#!\n{0}\n"])
def test_a_script_without_an_interpreter_is_followed(name, text, searches, target, record, report_json, scratch):
    """execvp starts /bin/sh for it; posix_spawnp fails."""
    (scratch / "script").write_text(text.format(target("does_nothing")))
    (scratch / "script").chmod(0o755)
    run = record([searches, "execvp", name], env={"PATH": str(scratch)}, cwd=scratch)
    assert (run.returncode, run.stderr) == (0, "")
    commands = [p["command"] for p in report_json(run.path)["processes"]]
    assert any("sh" in c and c.endswith("script") for c in commands) and str(target("does_nothing")) in commands, commands
    run = record([searches, "posix_spawnp", name], env={"PATH": str(scratch)}, cwd=scratch)
    assert (run.returncode, run.stderr) == (3, "")


def test_an_empty_script_is_followed(searches, record, report_json, scratch):
    (scratch / "script").touch(0o755)
    run = record([searches, "execvp", "script"], env={"PATH": str(scratch)}, cwd=scratch)
    assert (run.returncode, run.stderr) == (0, "")
    assert any(p["command"].endswith("/script") for p in report_json(run.path)["processes"])

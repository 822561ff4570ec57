# SPDX-License-Identifier: Apache-2.0
"""The agent runs as root, and other users of the machine prepare what it reads."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest

from agents import ROOT, children, running_agent, write_settings
from alone import folder_on_tmpfs, preloaded
from compiled import compile_c, is_alive, wait_for
from running import compile_keeper, keeping

pytestmark = pytest.mark.skipif(not ROOT, reason="needs root: processes of other users")
NOBODY = 65534
DAEMON_USER = 61234
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        path.chmod(0o1777)
        yield path


@pytest.fixture
def open_scratch(scratch):
    """A folder that other users may enter: programs for them, and the agent's state."""
    for above in (scratch, *scratch.parents):
        if above == pathlib.Path("/tmp"):
            break
        above.chmod(above.stat().st_mode | 0o011)
    return scratch


# ---- whose privileges a reading has ----

# Gives up root when it is told to.
DAEMON = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
int main(void)
{
	kept = malloc(1000);
	printf("%d\n", getpid());
	fflush(stdout);
	getchar();
	if (setregid(61234, 61234) || setreuid(61234, 61234)) return 99;
	getchar();
	return 0;
}
"""


def owners(state):
    """{folder of names: who wrote there}"""
    return {path.name: (path / "heapgauge").stat().st_uid for path in (state / "names").iterdir() if (path / "heapgauge").exists()}


def test_a_daemon_that_was_root_is_read_as_its_user(heapgauge, build, clean_env, folder, open_scratch):
    program = compile_c(open_scratch, "daemon", DAEMON)
    state = open_scratch / "state"
    settings = write_settings(open_scratch, agent={"state": state}, files={"folder": open_scratch / "profiles"})
    with keeping([program], preloaded(build, clean_env, folder)) as run, running_agent(heapgauge, settings, clean_env) as agent:
        agent.sees(run.target)
        assert str(DAEMON_USER) not in owners(state)
        run.stdin.write("\n")
        run.stdin.flush()
        wait_for(lambda: owners(state).get(str(DAEMON_USER)) == DAEMON_USER, "a reading as its user")


def test_users_cannot_prepare_the_names_of_others(heapgauge, clean_env, open_scratch):
    state = open_scratch / "state"
    with running_agent(heapgauge, write_settings(open_scratch, agent={"state": state}), clean_env):
        done = subprocess.run([*AS_NOBODY, "mkdir", state / "names" / "61000"], capture_output=True, text=True)
        assert done.returncode != 0 and "Permission denied" in done.stderr


# ---- what a process says of itself ----


@pytest.mark.parametrize("variables", [{"OTEL_SERVICE_NAME": ""}, {"OTEL_RESOURCE_ATTRIBUTES": "service.name="}])
def test_a_service_without_a_name(heapgauge, build, clean_env, folder, open_scratch, variables):
    keeper = compile_keeper(open_scratch)
    settings = write_settings(open_scratch, agent={"state": open_scratch / "state"}, files={"folder": open_scratch / "profiles"})
    with keeping([keeper], preloaded(build, clean_env, folder, **variables)) as run, running_agent(heapgauge, settings, clean_env) as agent:
        wait_for(lambda: agent.process.poll() is not None or [*open_scratch.glob(f"profiles/service=keeper/*/*/*-{run.target}-1.pb.gz")], "its profile")
        assert agent.process.poll() is None
        assert f"pid={run.target}\tkeeper\n" in agent.get("/")[1].decode()


# ---- readings that do not end ----


def reading_of(agent, user):
    """The pid of a reading that is done as this user."""
    for pid in children(agent.process.pid):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == user:
                return pid
    return None


def test_a_user_who_stops_a_reading(heapgauge, build, clean_env, folder, open_scratch):
    """It runs as that user, who may signal it: it costs others some time, but not their readings."""
    keeper = compile_keeper(open_scratch)
    env = preloaded(build, clean_env, folder)
    with running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent, keeping([*AS_NOBODY, keeper], env):

        def stop():
            pid = reading_of(agent, NOBODY)
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, signal.SIGSTOP)
                    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        wait_for(lambda: any(stop() for _ in range(100)), "a reading to be stopped")  # it is short
        with keeping([keeper], env) as other:
            agent.sees(other.target)


def test_it_ends_although_a_reading_does_not(heapgauge, build, clean_env, folder, open_scratch):
    keeper = compile_keeper(open_scratch)
    with running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent, keeping([keeper], preloaded(build, clean_env, folder)) as run:
        agent.sees(run.target)
        (reader,) = (pid for pid in children(agent.process.pid) if "heapgauge-read" in pathlib.Path(f"/proc/{pid}/comm").read_text())
        os.kill(reader, signal.SIGSTOP)
        time.sleep(2)  # the next reading has begun
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(10) == 0
        assert not is_alive(reader)


# ---- files in a folder to which everybody may write ----


def live_file(folder):
    (path,) = folder.glob("heapgauge.*.live")
    return path


def test_links_are_not_followed(heapgauge, build, clean_env, folder, open_scratch):
    """A killed process' file elsewhere, to which a user makes a link: it is neither read nor removed."""
    keeper = compile_keeper(open_scratch)
    with folder_on_tmpfs() as elsewhere:
        with keeping([keeper], preloaded(build, clean_env, elsewhere)) as run:
            run.send_signal(signal.SIGKILL)
        secret = live_file(elsewhere)
        subprocess.run([*AS_NOBODY, "ln", "-s", secret, folder / secret.name], check=True)
        with keeping([keeper], preloaded(build, clean_env, folder)) as run:
            run.send_signal(signal.SIGKILL)
        settings = write_settings(open_scratch, agent={"state": open_scratch / "state"}, ended={"folders": folder, "keep": open_scratch / "killed"})
        with running_agent(heapgauge, settings, clean_env) as agent:
            wait_for(lambda: len([path for path in folder.iterdir() if not path.is_symlink()]) == 0, "the file of the other one to be removed")
            wait_for(lambda: agent.numbers()["agent_ended_processes_total.killed"], "its end to be counted")
            assert agent.numbers()["agent_ended_processes_total.killed"] == 1
        assert secret.exists() and (folder / secret.name).is_symlink()


def test_what_is_mapped_is_read_not_what_is_at_its_path(heapgauge, build, clean_env, folder, open_scratch):
    keeper = compile_keeper(open_scratch)
    with keeping([*AS_NOBODY, keeper], preloaded(build, clean_env, folder)) as run:
        path = live_file(folder)
        path.unlink()
        subprocess.run([*AS_NOBODY, "ln", "-s", "/etc/passwd", f"{path} (deleted)"], check=True)  # as the kernel calls it now
        with running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent:
            assert agent.sees(run.target)["live_blocks"] == 900


# ---- a process that becomes another ----

EXECUTED_AGAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
int main(int argc, char **argv)
{
	for (int i = 0; i < (argc > 1 ? 10 : 1000); i++) kept = malloc(100);
	printf("%d\n", getpid());
	fflush(stdout);
	getchar();
	if (argc == 1) execl("/proc/self/exe", argv[0], "again", NULL);
	return 0;
}
"""


def test_a_program_executed_again_at_the_same_addresses(heapgauge, build, clean_env, folder, open_scratch):
    program = compile_c(open_scratch, "again", EXECUTED_AGAIN)
    with running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent:
        with keeping(["setarch", "-R", program], preloaded(build, clean_env, folder)) as run:
            assert agent.sees(run.target)["live_blocks"] >= 1000
            run.stdin.write("\n")
            run.stdin.flush()
            assert int(run.stdout.readline()) == run.target
            wait_for(lambda: 10 <= agent.numbers(run.target).get("live_blocks", 0) < 1000, "the numbers of the new program")

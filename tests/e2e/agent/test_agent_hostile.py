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
from exports import output_of, tool
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


@pytest.mark.parametrize(
    "before, mode, named", [([], 0o700, True), (["unshare", "--mount"], 0o755, True), (["unshare", "--mount"], 0o700, False)]
)
def test_root_of_a_container_is_not_read_as_root(heapgauge, build, clean_env, folder, open_scratch, before, mode, named):
    """A reading is done as nobody: of a program that only root may read there are names if it runs outside of containers, and none inside."""
    keeper = compile_keeper(open_scratch)
    keeper.chmod(mode)
    state = open_scratch / "state"
    with running_agent(heapgauge, write_settings(open_scratch, agent={"state": state}), clean_env) as agent:
        with keeping([*before, keeper], preloaded(build, clean_env, folder)) as run:
            (open_scratch / "served.pb.gz").write_bytes(agent.profile(run.target))
        shown = output_of(tool("pprof", "go install github.com/google/pprof@latest"), "-symbolize=none", "-top", open_scratch / "served.pb.gz")
        assert ("keep\n" in shown) == named, shown
        assert owners(state) == {f"root-{NOBODY}": NOBODY}


def test_the_file_of_a_killed_process_of_root_is_not_read_as_root(heapgauge, build, clean_env, folder, open_scratch):
    keeper = compile_keeper(open_scratch)
    with keeping([keeper], preloaded(build, clean_env, folder)) as run:
        run.send_signal(signal.SIGKILL)
    state = open_scratch / "state"
    settings = write_settings(open_scratch, agent={"state": state}, ended={"folders": folder}, files={"folder": open_scratch / "profiles"})
    with running_agent(heapgauge, settings, clean_env):
        wait_for(lambda: [*open_scratch.glob("profiles/service=keeper/*/*/*.pb.gz")], "its last profile")
    assert owners(state) == {f"root-{NOBODY}": NOBODY}


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
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if pid:
                    os.kill(pid, signal.SIGSTOP)
                    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        wait_for(lambda: any(stop() for _ in range(100)), "a reading to be stopped")  # it is short
        with keeping([keeper], env) as other:
            agent.sees(other.target)


@pytest.fixture
def freezer():
    """freezer(pid) freezes a process, freezer() thaws it."""
    for root, switch, frozen, thawed in (("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"), ("/sys/fs/cgroup", "cgroup.freeze", "1", "0")):
        group = pathlib.Path(root) / f"heapgauge-frozen-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / switch).exists():
                break
            group.rmdir()
    else:
        pytest.skip("cannot make a control group that freezes")
    try:

        def freeze(pid=None):
            if pid:
                (group / "cgroup.procs").write_text(str(pid))
            (group / switch).write_text(frozen if pid else thawed)

        yield freeze
    finally:
        freeze()
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the control group to be empty")
        group.rmdir()


def test_a_frozen_process(heapgauge, build, clean_env, folder, open_scratch, freezer):
    """It is read like any other, and keeps nobody waiting."""
    keeper = compile_keeper(open_scratch)
    env = preloaded(build, clean_env, folder)
    with subprocess.Popen([keeper], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as frozen:
        try:
            assert frozen.stdout.readline()
            freezer(frozen.pid)
            with running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent, keeping([keeper], env) as run:
                agent.sees(run.target)
                assert agent.sees(frozen.pid)["live_blocks"] == 900
                assert agent.get(f"/debug/pprof/heap?pid={frozen.pid}")[0] == 200
        finally:
            frozen.kill()
            freezer()  # before, it does not die


def read_together(pid):
    """How many processes this child of the reader reads: each has a file for its result."""
    with contextlib.suppress(OSError):
        return sum("heapgauge reading" in os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    return 0


def test_a_user_who_kills_a_reading_of_several(heapgauge, build, clean_env, folder, open_scratch):
    """What the child had not read yet is read again, one by one."""
    keeper = compile_keeper(open_scratch)
    env = preloaded(build, clean_env, folder)
    with contextlib.ExitStack() as stack, running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent:
        runs = [stack.enter_context(keeping([*AS_NOBODY, keeper], env)) for _ in range(12)]
        for run in runs:
            agent.sees(run.target)

        def kill():
            pid = reading_of(agent, NOBODY)
            with contextlib.suppress(ProcessLookupError):
                if not pid:
                    return False
                os.kill(pid, signal.SIGSTOP)
                is_batch = read_together(pid) > 1
                os.kill(pid, signal.SIGKILL if is_batch else signal.SIGCONT)
                return is_batch and wait_for(lambda: not is_alive(pid), "its end")

        wait_for(lambda: any(kill() for _ in range(100)), "a reading of several processes")
        before = agent.numbers()["agent_readings_total.ok"]
        wait_for(lambda: agent.numbers()["agent_readings_total.ok"] >= before + 3 * len(runs), "further readings")
        assert agent.numbers()["agent_readings_total.failed"] == 0
        assert agent.numbers()["agent_unreadable_processes"] == 0


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
            wait_for(lambda: agent.numbers(run.target).get("live_blocks", 0) >= 1000, "the program to be read")  # not setarch
            run.stdin.write("\n")
            run.stdin.flush()
            assert int(run.stdout.readline()) == run.target
            wait_for(lambda: 10 <= agent.numbers(run.target).get("live_blocks", 0) < 1000, "the numbers of the new program")


# ---- a file system that does not answer ----

# hanging FILE: mounts itself on the file and answers nothing. hanging FOLDER NAME: mounts itself on the folder, answers what it takes to open and
# map FOLDER/NAME, and nothing more. Says the pid of the process that has mapped it, or its own.
HANGING = r"""
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
static int device, opens;
static void answer(const struct fuse_in_header *in, int error, const void *body, size_t size)
{
	static char out[4096];
	struct fuse_out_header head = { sizeof head + size, error, in->unique };
	memcpy(out, &head, sizeof head);
	if (size) memcpy(out + sizeof head, body, size);
	(void)!write(device, out, sizeof head + size);
}
static void serve(int answers)
{
	static char in[1 << 17];
	const struct fuse_in_header *head = (void *)in;
	while (read(device, in, sizeof in) > 0) {
		struct fuse_attr file = { .ino = 2, .size = 1 << 20, .blocks = 2048, .mode = S_IFREG | 0666, .nlink = 1, .blksize = 4096 };
		struct fuse_attr folder = { .ino = 1, .mode = S_IFDIR | 0777, .nlink = 2, .blksize = 4096 };
		struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096 };
		struct fuse_entry_out entry = { .nodeid = 2, .entry_valid = 3600, .attr_valid = 3600, .attr = file };
		struct fuse_attr_out attr = { .attr_valid = 3600, .attr = head->nodeid == 1 ? folder : file };
		struct fuse_open_out opened = { .fh = 1 };
		if (head->opcode == FUSE_INIT) answer(head, 0, &init, sizeof init);
		if (!answers) continue;
		if (head->opcode == FUSE_LOOKUP) answer(head, 0, &entry, sizeof entry);
		if (head->opcode == FUSE_GETATTR) answer(head, 0, &attr, sizeof attr);
		if (head->opcode == FUSE_OPEN && opens++ == 0) answer(head, 0, &opened, sizeof opened);
		if (head->opcode == FUSE_FLUSH || head->opcode == FUSE_ACCESS) answer(head, -ENOSYS, NULL, 0);
	}
}
int main(int argc, char **argv)
{
	char options[200], path[500];
	device = open("/dev/fuse", O_RDWR);
	if (argc > 2 && (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))) return 99;
	snprintf(options, sizeof options, "fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other", device, argc > 2 ? 040000 : 0100000);
	if (device < 0 || mount("hanging", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) return 98;
	pid_t child = argc > 2 ? fork() : 0;
	if (child == 0 && argc > 2) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(1);
		return 0;
	}
	if (argc == 2) {
		printf("%d\n", getpid());
		fflush(stdout);
		serve(0);
		return 0;
	}
	snprintf(path, sizeof path, "%s/%s", argv[1], argv[2]);
	int fd = open(path, O_RDWR);
	if (fd < 0 || mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) return 97;
	printf("%d\n", getpid());
	fflush(stdout);
	getchar();
	kill(child, SIGKILL);
	return 0;
}
"""
needs_fuse = pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")


@contextlib.contextmanager
def hanging_on(program, *argv):
    """Killed at the end: those who wait for it get an error."""
    with subprocess.Popen([program, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout.readline(), f"the file system could not be mounted: {run.wait()}"
            yield run
        finally:
            run.kill()
            if len(argv) == 1:
                subprocess.run(["umount", "-l", argv[0]], check=False)


@needs_fuse
@pytest.mark.parametrize("where, name, refused", [(None, "heapgauge.1.4711.1.live", 1), ("/dev", "zero", 0)])
def test_a_mapped_file_that_does_not_answer(heapgauge, build, clean_env, folder, open_scratch, where, name, refused):
    """A process maps what looks like a profile, on a file system of its own that never answers: the others are read."""
    program, keeper = compile_c(open_scratch, "hanging", HANGING), compile_keeper(open_scratch)
    mounted = where or open_scratch / "mounted"
    pathlib.Path(mounted).mkdir(exist_ok=True)
    with hanging_on(program, mounted, name), running_agent(heapgauge, write_settings(open_scratch), clean_env) as agent:
        with keeping([keeper], preloaded(build, clean_env, folder)) as run:
            agent.sees(run.target)
            assert agent.numbers()["agent_refused_processes"] == refused


@needs_fuse
def test_a_file_system_in_the_place_of_a_leftover(heapgauge, build, clean_env, folder, open_scratch):
    program, keeper = compile_c(open_scratch, "hanging", HANGING), compile_keeper(open_scratch)
    mounted = folder / "heapgauge.1.4711.1.live"
    mounted.touch()
    settings = write_settings(open_scratch, ended={"folders": folder})
    with hanging_on(program, mounted), running_agent(heapgauge, settings, clean_env) as agent:
        with keeping([keeper], preloaded(build, clean_env, folder)) as run:
            agent.sees(run.target)
            wait_for(lambda: agent.numbers()["agent_refused_processes"] == 1, "the file to be refused")


@needs_fuse
@pytest.mark.skipif(not os.environ.get("HEAPGAUGE_LONG"), reason="the agents of other tests would wait for it, too: HEAPGAUGE_LONG=1")
def test_a_program_file_that_does_not_answer(heapgauge, build, clean_env, folder, open_scratch):
    """Not even SIGKILL ends the child that asks it for names. The next readings do not wait for that."""
    program, other = compile_c(open_scratch, "hanging", HANGING), compile_keeper(open_scratch)
    stuck = open_scratch / "stuck"
    stuck.write_bytes(other.read_bytes())
    stuck.chmod(0o755)
    env = preloaded(build, clean_env, folder)
    with keeping([stuck], env) as first, keeping([other], env) as run, hanging_on(program, stuck):
        with running_agent(heapgauge, write_settings(open_scratch, agent={"names": "yes"}), clean_env) as agent:
            agent.sees(first.target), agent.sees(run.target)
            assert agent.get(f"/debug/pprof/heap?pid={first.target}")[0] != 200
            assert agent.get(f"/debug/pprof/heap?pid={run.target}")[0] == 200

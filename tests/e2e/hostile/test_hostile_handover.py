# SPDX-License-Identifier: Apache-2.0
"""The hand-over among hostile neighbours: another user who squats the collector's name, who joins a recording of root's, or who
writes a setuid program's environment; a collector that is stopped, killed, or flooded; a process that becomes another one while it is
written to. The program behaves as bare, and what is not of the recording is not in it."""

import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, open_files, wait_for

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to be another user")

# Forks a child that allocates for each byte of its input, and says so; it ends with its input.
FORKER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	void *volatile p = malloc(10);
	char byte;
	write(1, "begun\n", 6);
	while (read(0, &byte, 1) == 1) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < 1000; i++)
				p = malloc(100);
			_exit(7);
		}
		waitpid(child, &status, 0);
		printf("child %x\n", status);
		fflush(stdout);
	}
	return 0;
}
"""


@contextlib.contextmanager
def recording(heapgauge, env, argv, path, *options):
    """`heapgauge record` of a program that talks; killed at the end if it still runs."""
    run = subprocess.Popen(
        [heapgauge, "record", "-q", "-o", path, *options, "--", *argv],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
    )
    try:
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            run.send_signal(signal.SIGCONT)
        run.kill()
        if run.stdin.closed:
            run.stdin = None
        run.communicate(timeout=WAIT_SECONDS)


def socket_of(collector):
    """The abstract name that a collector listens on, as /proc shows it to everybody."""
    mine = {m[1] for link in open_files(collector) if (m := re.match(r"socket:\[(\d+)\]", link))}
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[6] in mine and len(fields) > 7 and fields[7].startswith("@"):
            return fields[7][1:]
    raise AssertionError("it listens nowhere")


def as_stranger(code, *arguments):
    """Runs Python code as another user."""
    # All that it needs first: the other user may not be able to read Python's own files.
    drop = f"import array, os, select, socket, struct, sys; os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n"
    return subprocess.Popen(
        [sys.executable, "-c", drop + code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def child_of(pid):
    return wait_for(lambda: pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split(), "a child")[0]


SQUATTER = """
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("\\0" + sys.argv[1])
s.listen(64)
s.settimeout(0.2)
print("listens", flush=True)
heard = b""
connections = 0
while True:
    ends = select.select([sys.stdin], [], [], 0)[0]  # asked before: whoever came by then is heard
    try:
        c, _ = s.accept()
    except TimeoutError:
        if ends:
            break
        continue
    connections += 1
    heard += c.recv(1000)
print(connections, len(heard))
"""


@needs_root
def test_who_takes_over_the_name_of_a_dead_collector_hears_nothing(heapgauge, clean_env, scratch):
    """R1, H1: after SIGKILL of root's collector another user binds its name; children of the program send nothing there."""
    program = compile_c(scratch, "forker", FORKER)
    with recording(heapgauge, clean_env, [program], scratch / "run.hg") as run:
        assert run.stdout.readline() == "begun\n"
        name = socket_of(run.pid)
        child = int(child_of(run.pid))
        run.kill()
        wait_for(lambda: run.poll() is not None, "the collector's end")
        squatter = as_stranger(SQUATTER, name)
        assert squatter.stdout.readline() == "listens\n"
        for _ in range(3):
            run.stdin.write("x")
            run.stdin.flush()
            assert run.stdout.readline() == "child 700\n"
        run.stdin.close()
        wait_for(lambda: not pathlib.Path(f"/proc/{child}/exe").exists(), "the program's end")
        out, _ = squatter.communicate(input="end\n", timeout=WAIT_SECONDS)
        connections, heard = map(int, out.split())
    assert connections >= 3  # they came and asked who listens
    assert heard == 0
    assert not list(pathlib.Path("/dev/shm").glob(f"heapgauge-{run.pid}-*/*.live"))


SETUID = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    void *volatile p = 0;
    for (int i = 0; i < 10000; i++)
        p = malloc(100);
    printf("as %d\\n", (int)geteuid());
    return 0;
}
"""


@needs_root
def test_a_setuid_program_obeys_no_variable(build, clean_env, scratch):
    """R2: with libheapgauge.a linked in, neither the hand-over nor the folder of the caller's environment is looked at."""
    program = compile_c(
        scratch, "setuid", SETUID, "-Wl,--whole-archive", build / "libheapgauge.a", "-Wl,--no-whole-archive", "-ldl", "-lpthread"
    )
    scratch.chmod(0o755)
    for parent in scratch.parents:
        if parent.stat().st_uid == os.geteuid() and parent != pathlib.Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    squatter = as_stranger(SQUATTER, "hg-test-setuid")
    assert squatter.stdout.readline() == "listens\n"
    numbers = ",".join(["1", "2", "3", "3", "1000", "40", "0", "4000000", "4000000", "0", "0", "1", "1", "0", "0"])
    with folder_on_tmpfs() as folder:
        folder.chmod(0o777)
        env = clean_env | {
            "HEAPGAUGE_HANDOVER": f"{'0' * 24},{numbers},@hg-test-setuid,{folder},,",
            "HEAPGAUGE_DIR": str(folder),
        }
        done = subprocess.run(
            [program], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, user=STRANGER, group=STRANGER, extra_groups=[]
        )
        assert (done.returncode, done.stdout) == (0, "as 0\n"), done.stderr
        assert list(folder.iterdir()) == []
        out, _ = squatter.communicate(input="end\n", timeout=WAIT_SECONDS)
    assert out.split() == ["0", "0"]


JOINER = """
name = "\\0" + sys.argv[1]
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(name)
    return s
# A profile, with a secret that was guessed; then without one.
for secret in (bytes(16), bytes(range(16))):
    fd = os.memfd_create("heapgauge-profile", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 64 << 20)
    s = connect()
    s.sendmsg([b"HGHELLO2" + secret + bytes(8 + 16)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 3))])
    s.close()
s = connect()
s.send(b"HGSNAP02" + bytes(16) + struct.pack("I", 0) + b"EVIL".ljust(64, b"\\0") + bytes(4))
s.settimeout(10)
try:
    print("answered" if s.recv(100) else "hung up")
except OSError:
    print("hung up")
# Silent ones, which stay.
held = []
for _ in range(500):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect(name)
    except OSError:
        pass
    held.append(s)
print("holds", flush=True)
sys.stdin.read()
"""


@needs_root
def test_a_stranger_neither_joins_nor_delays_the_recording(heapgauge, clean_env, scratch, report_json):
    """H7: hellos, requests and silent connections of another user; the recording is of its own processes, and ends while the
    stranger still holds on."""
    program = compile_c(scratch, "forker", FORKER)
    with recording(heapgauge, clean_env, [program], scratch / "run.hg") as run:
        assert run.stdout.readline() == "begun\n"
        stranger = as_stranger(JOINER, socket_of(run.pid))
        assert stranger.stdout.readline() == "hung up\n"
        assert stranger.stdout.readline() == "holds\n"
        run.stdin.write("xx")
        run.stdin.flush()
        assert [run.stdout.readline() for _ in range(2)] == ["child 700\n"] * 2
        run.stdin.close()
        wait_for(lambda: run.poll() is not None, "the end of the recording")
        assert stranger.poll() is None
        stranger.communicate(timeout=WAIT_SECONDS)
        assert run.returncode == 0
    report = report_json(scratch / "run.hg")
    assert len(report["processes"]) == 3
    assert sorted(p["calls"] for p in report["processes"])[1:] == [1000, 1000]
    assert not [m for p in report["processes"] for m in p.get("marks", [])]


CROWD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	int gate[2], status, good = 0;
	char byte;
	void *volatile p = malloc(10);
	if (pipe(gate)) return 1;
	for (int i = 0; i < 150; i++) {
		if (fork() != 0) continue;
		close(gate[1]);
		read(gate[0], &byte, 1);
		p = malloc(100);
		_exit(7);
	}
	close(gate[0]);
	close(gate[1]);
	while (wait(&status) > 0) good += status == 0x700;
	return good != 150;
}
"""


def test_a_collector_without_descriptors_loses_nobody(heapgauge, clean_env, scratch, report_json):
    """V4: 150 processes at once, and a collector that may hold 40 descriptors: a message that cannot be received yet is left where
    it is. Descriptors that the kernel dropped used to be taken for processes that nobody wanted."""
    program = compile_c(scratch, "crowd", CROWD)
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", heapgauge, "record", "-q", "-o", scratch / "run.hg", "--", program],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    report = report_json(scratch / "run.hg")
    missed = sum(count for name, count in report["warnings"].items() if name.startswith("missed"))
    # A process that is alive may be missed, but is told of.
    assert len(report["processes"]) + missed == 151
    assert len(report["processes"]) > 60


# Hands over a second profile, of its own making: all regions are said to be in use, and nothing is there.
BRAGGART = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "format/live/live.h"
static char environment[1 << 20];
int main(void)
{
	const uint64_t total = 64ull << 30;
	struct live_settings settings;
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	void *volatile block = malloc(10);
	int file = open("/proc/self/environ", O_RDONLY), fd = memfd_create("heapgauge-profile", MFD_ALLOW_SEALING);
	ssize_t bytes = read(file, environment, sizeof environment - 1);
	const char *variable = memmem(environment, bytes, "HEAPGAUGE_HANDOVER=", 19);
	if (!variable || !live_settings_read(variable + 19 + LIVE_TICKET_TEXT + 1, &settings)) return 1;
	if (ftruncate(fd, total + LIVE_PAGE)) return 2;
	struct live_header *head = mmap(NULL, sizeof *head, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	live_header_init(head, total);
	head->own.id = 1234567;
	head->pid = getpid();
	head->ready = 1;
	memset(head->used, 0xff, sizeof head->used);
	memset(head->opened, 0xff, sizeof head->opened);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	struct live_hello hello = { .magic = LIVE_HELLO_MAGIC_CHARS, .secret = settings.secret };
	char rights[CMSG_SPACE(sizeof fd)] = { 0 };
	struct iovec part = { &hello, sizeof hello };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof rights };
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
	size_t length = strlen(settings.collector);
	memcpy(name.sun_path + 1, settings.collector + 1, length - 1);
	int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(s, (void *)&name, offsetof(struct sockaddr_un, sun_path) + length) ||
	    sendmsg(s, &message, 0) != sizeof hello) return 3;
	sleep(1); /* snapshots are taken */
	return 0;
}
"""


def test_a_profile_costs_what_it_holds(heapgauge, clean_env, scratch, report_json):
    """V5: 64 GiB that are said to be full of entries took as many gigabytes as the machine had."""
    source = pathlib.Path(__file__).resolve().parents[3] / "src"
    program = compile_c(
        scratch, "braggart", BRAGGART, f"-I{source}", source / "format/live/live_layout.c", source / "format/live/live_handover.c"
    )
    limited = ["sh", "-c", 'ulimit -t 60; exec "$@"', "sh", heapgauge, "record", "-q", "-o", scratch / "run.hg", "--", program]
    run = subprocess.Popen(limited, env=clean_env, stderr=subprocess.PIPE, text=True)
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    assert (run.returncode, usage.ru_maxrss < 512 << 10) == (0, True), run.stderr.read()
    run.stderr.close()
    assert [process["calls"] for process in report_json(scratch / "run.hg")["processes"]][:1] == [1]


SWEPT = """
set -e
mount -t tmpfs none /dev/shm
"$1" record -q -o "$2/first.hg" -- sh -c 'echo begun > "$0/begun"; read line' "$2" < "$2/fifo" &
exec 3> "$2/fifo"
for i in $(seq 600); do [ -e "$2/begun" ] && break; sleep 0.1; done
unshare --pid --fork --mount-proc "$1" record -q -o "$2/second.hg" -- true
ls /dev/shm/heapgauge-*/socket
echo >&3
wait
"""


@needs_root
def test_a_collector_of_another_pid_name_space_is_left_alone(heapgauge, clean_env, scratch):
    """V8: in a container that shares /dev/shm nobody has the number of a collector outside, which listens all the same."""
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode != 0:
        pytest.skip("no name spaces here")
    os.mkfifo(scratch / "fifo")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SWEPT, "sh", heapgauge, scratch],
        env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS,
    )
    assert (done.returncode, done.stdout.count("/socket")) == (0, 1), done.stderr


STARTER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	void *volatile p = malloc(10);
	char byte;
	write(1, "begun\n", 6);
	if (read(0, &byte, 1) != 1) return 1;
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		if (child == 0) { execl("/bin/true", "true", NULL); _exit(1); }
		int status = 1;
		waitpid(child, &status, 0);
		if (status != 0) return 2;
	}
	write(1, "done\n", 5);
	return read(0, &byte, 1) != 1;
}
"""


def test_a_stopped_collector_holds_nobody_up(heapgauge, clean_env, scratch, report_json):
    """H6: a hundred programs begin and end while the collector is stopped; when it goes on, it has all of them."""
    program = compile_c(scratch, "starter", STARTER)
    with recording(heapgauge, clean_env, [program], scratch / "run.hg") as run:
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGSTOP)
        run.stdin.write("x")
        run.stdin.flush()
        assert run.stdout.readline() == "done\n"
        run.send_signal(signal.SIGCONT)
        run.stdin.write("x")
        run.stdin.close()
        wait_for(lambda: run.poll() is not None, "the end of the recording")
        assert run.returncode == 0, run.stderr.read()
    report = report_json(scratch / "run.hg")
    assert sum(p["command"].startswith("true") for p in report["processes"]) == 100
    assert not [w for w in report["warnings"] if "missed" in json.dumps(w)]
    assert not list(pathlib.Path("/dev/shm").glob(f"heapgauge-{run.pid}-*"))


BECOMES = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* Where the control page is: at the end of the profile. */
static unsigned long control_page(void)
{
	unsigned long start, end, last = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "heapgauge-profile") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			last = end;
	return last - 4096;
}
int main(int argc, char **argv)
{
	char byte, at[32];
	if (argc == 1) {
		void *volatile p = malloc(10);
		snprintf(at, sizeof at, "%lx", control_page());
		write(1, "begun\n", 6);
		read(0, &byte, 1);
		unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", "becomes", at, NULL);
	}
	/* Another program, with something of its own in that very place. */
	uint32_t *page = mmap((void *)strtoul(argv[1], NULL, 16), 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page == MAP_FAILED) return 3;
	memset(page, 0x55, 4096);
	for (int i = 0; i < 300; i++) {
		struct timespec ms = { 0, 1000000 };
		nanosleep(&ms, NULL);
		for (int j = 0; j < 1024; j++)
			if (page[j] != 0x55555555) return 4;
	}
	return 0;
}
"""


def test_nothing_is_written_into_what_a_process_becomes(heapgauge, build, clean_env, scratch):
    """H2: record --pid keeps the clock of a process that becomes another program, with other memory in the same place."""
    program = compile_c(scratch, "becomes", BECOMES)
    target = subprocess.Popen(
        ["setarch", "-R", program], env=preloaded(build, clean_env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert target.stdout.readline() == "begun\n"
    recorder = subprocess.Popen(
        [heapgauge, "record", "--pid", str(target.pid), "-q", "-o", scratch / "run.hg"], env=clean_env, stderr=subprocess.PIPE
    )
    try:
        # It holds the memory of the process: from now on it writes there every millisecond.
        wait_for(lambda: f"/proc/{target.pid}/mem" in open_files(recorder.pid), "the recorder")
        time.sleep(0.1)
        target.stdin.write("x")
        target.stdin.flush()
        assert target.wait(timeout=WAIT_SECONDS) == 0
    finally:
        target.kill()
        target.communicate(timeout=WAIT_SECONDS)
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=WAIT_SECONDS)


BUSY = r"""
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	write(1, "begun\n", 6);
	alarm(900);
	for (unsigned i = 0;; i++) {
		struct timespec ms = { 0, 1000000 };
		for (int j = 0; j < 100; j++) {
			void *volatile p = malloc(100 + i % 1000);
			free(p);
		}
		nanosleep(&ms, NULL);
	}
}
"""


def test_a_mode_that_was_lent_ends_with_the_lender(heapgauge, build, clean_env, scratch):
    """R12: SIGKILL of record --pid; the dormant process that it turned up is dormant again after a while."""
    program = compile_c(scratch, "busy", BUSY)

    def calls(pid):
        done = subprocess.run(
            [heapgauge, "report", "--pid", str(pid), "--format", "json"],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS,
        )
        return json.loads(done.stdout)["processes"][0]["calls"] if done.returncode == 0 else 0

    target = subprocess.Popen([program], env=preloaded(build, clean_env, HEAPGAUGE_MODE="dormant"), stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout.readline() == "begun\n"
        recorder = subprocess.Popen([heapgauge, "record", "--pid", str(target.pid), "-q", "-o", scratch / "run.hg"], env=clean_env)
        wait_for(lambda: calls(target.pid) > 1000, "the process to be recorded")
        recorder.kill()
        recorder.wait(timeout=WAIT_SECONDS)

        def is_dormant():
            before = calls(target.pid)
            time.sleep(0.3)
            return calls(target.pid) == before

        wait_for(is_dormant, "the end of the lease")
    finally:
        target.kill()
        target.communicate(timeout=WAIT_SECONDS)


ASKER = """
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
try:
    s.connect("\\0" + sys.argv[1])
    s.send(b"HGSNAP02" + bytes(16) + struct.pack("I", 0) + b"EVIL".ljust(64, b"\\0") + bytes(4))
    print("answered" if s.recv(100) else "hung up")
except OSError:
    print("hung up")
"""


@needs_root
def test_a_stranger_asks_for_no_snapshot_of_a_process_that_records_itself(heapgauge, build, clean_env, scratch, report_json):
    """Its secret is all zeros: the user is asked instead."""
    program = compile_c(scratch, "busy", BUSY)
    target = subprocess.Popen([program], env=preloaded(build, clean_env), stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout.readline() == "begun\n"
        recorder = subprocess.Popen([heapgauge, "record", "--pid", str(target.pid), "-q", "-o", scratch / "run.hg"], env=clean_env)
        wait_for(lambda: f"heapgauge-process-{target.pid}" in pathlib.Path("/proc/net/unix").read_text(), "the listener")
        stranger = as_stranger(ASKER, socket_of(recorder.pid))
        assert stranger.communicate(timeout=WAIT_SECONDS)[0] == "hung up\n"
        snap = [heapgauge, "snap", str(target.pid), "--name", "ours"]
        subprocess.run(snap, env=clean_env, check=True, capture_output=True, timeout=WAIT_SECONDS)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=WAIT_SECONDS) == 0
    finally:
        target.kill()
        target.communicate(timeout=WAIT_SECONDS)
    text = json.dumps(report_json(scratch / "run.hg", "snapshots"))
    assert "ours" in text and "EVIL" not in text


LITTER = """
folder = sys.argv[1]
os.mkfifo(f"{folder}/heapgauge.fifo.1.1.live")
os.symlink("/etc/shadow", f"{folder}/heapgauge.link.1.1.live")
with open(f"{folder}/heapgauge.huge.1.1.live", "wb") as f:
    f.truncate(40 << 30)
with open(f"{folder}/heapgauge.text.1.1.live", "wb") as f:
    f.write(b"HGLIVE" * 10000)
os.mkdir(f"{folder}/heapgauge.folder.1.1.live")
try:
    print(len(os.listdir(folder)))
except PermissionError:
    print("not to be listed", flush=True)
"""


@needs_root
def test_what_a_stranger_leaves_in_the_folder_does_no_harm(heapgauge, clean_env, scratch, report_json):
    """H5, H7: root's folder is open to its own workers of other users. A FIFO, a link, a sparse giant, rubbish and a folder are passed
    over, and go with it."""
    program = compile_c(scratch, "forker", FORKER)
    with recording(heapgauge, clean_env, [program], scratch / "run.hg") as run:
        assert run.stdout.readline() == "begun\n"
        folder = pathlib.Path("/" + socket_of(run.pid)).parent
        stranger = as_stranger(LITTER, folder)
        out, _ = stranger.communicate(timeout=WAIT_SECONDS)
        assert out == "not to be listed\n"
        run.stdin.write("x")
        run.stdin.flush()
        assert run.stdout.readline() == "child 700\n"
        run.stdin.close()
        wait_for(lambda: run.poll() is not None, "the end of the recording")
        assert run.returncode == 0
    assert len(report_json(scratch / "run.hg")["processes"]) == 2
    assert not folder.exists()


WORKERS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	void *volatile p = malloc(10);
	int status = 1;
	if (fork() == 0) {
		if (setgid(12345) || setuid(12345)) _exit(1);
		for (int i = 0; i < 500; i++) p = malloc(100);
		_exit(0);
	}
	wait(&status);
	return status != 0;
}
"""


@needs_root
def test_workers_that_have_dropped_privileges_stay_welcome(record, scratch, report_json):
    program = compile_c(scratch, "workers", WORKERS)
    run = record([program])
    assert run.returncode == 0, run.stderr
    assert 500 in [p["calls"] for p in report_json(run.path)["processes"]]


@pytest.mark.parametrize("seconds, stays", [(3600, False), (0, True)])
def test_what_a_collector_of_another_pid_namespace_left_is_removed(seconds, stays, record):
    """Its number is that of a process here, as that of each container's first one is."""
    folder = pathlib.Path("/dev/shm") / f"heapgauge-1-{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
            left.bind(str(folder / "socket"))
        before = time.time() - seconds
        os.utime(folder, (before, before))
        assert record(["true"]).returncode == 0
        assert folder.exists() == stays
    finally:
        shutil.rmtree(folder, ignore_errors=True)

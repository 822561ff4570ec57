# SPDX-License-Identifier: Apache-2.0
"""HEAPGAUGE_REPORT, HEAPGAUGE_OUTPUT and HEAPGAUGE_EVERY in a program that records itself: what it asks for is there when it has
ended, and it notices nothing of it. A report that cannot be made is one sentence, and never harm."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, wait_for
from test_alone import ENDER

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
INSTALLED = pathlib.Path("/usr/local/bin/heapgauge")

# Counts, in a file that it maps, what it sees of children while it ends: signals, and what waitpid returns.
WAITER = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int *seen; /* signals, children, calls that say there is none, errno changed at exit */
static void *volatile kept;
static void on_child(int number) { (void)number; seen[0]++; }
static void *wait_always(void *unused)
{
	for (;;) {
		if (waitpid(-1, NULL, WNOHANG) >= 0) seen[1]++;
		else if (errno == ECHILD) seen[2]++;
	}
	return unused;
}
static void *allocate_always(void *unused) { for (;;) { kept = malloc(100); free(kept); } return unused; }
int main(int argc, char **argv)
{
	pthread_t thread;
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (ftruncate(fd, 4096)) return 99;
	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	kept = malloc(1000);
	if (!strcmp(argv[2], "ignore")) signal(SIGCHLD, SIG_IGN);
	else signal(SIGCHLD, on_child);
	if (!strcmp(argv[2], "wait")) pthread_create(&thread, NULL, wait_always, NULL);
	for (int i = 0; i < 8 && !strcmp(argv[2], "threads"); i++) pthread_create(&thread, NULL, allocate_always, NULL);
	usleep(20000);
	errno = 77;
	return argc + 4;
}
"""

# Descriptor 2 is a file of its own when it ends.
REUSER = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	void *volatile kept = malloc(1000);
	close(2);
	for (int fd = 3; fd < 1024; fd++) close(fd);
	if (argc > 1 && (open(argv[1], O_RDWR | O_CREAT, 0600) != 2 || write(2, "mine\n", 5) != 5)) return 1;
	return kept == NULL;
}
"""

# Closes stderr as daemons do, and then writes what is open.
DAEMON = r"""
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char name[64], to[256];
	if (daemon(1, 0) != 0) return 1;
	FILE *out = fopen(argv[2], "w");
	for (int fd = 0; fd < 4096; fd++) {
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(name, to, sizeof to);
		if (length >= 0) fprintf(out, "%.*s\n", (int)length, to);
	}
	return fclose(out) || rename(argv[2], argv[1]);
}
"""

# Two threads end it, one after the other.
TWO_ENDS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *end(void *unused) { usleep(20000); _exit(3); return unused; }
int main(void)
{
	pthread_t thread;
	void **last = NULL;
	for (int i = 0; i < 200000; i++) {
		void **next = malloc(40);
		*next = last;
		last = next;
	}
	return pthread_create(&thread, NULL, end, NULL);
}
"""

# A timer whose signal ends a process comes soon after it has called _exit, or exit.
TIMED = r"""
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
static void *volatile kept;
int main(int argc, char **argv)
{
	struct itimerval soon = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 1000 };
	(void)argv;
	kept = malloc(1000);
	if (setitimer(ITIMER_REAL, &soon, NULL)) return 1;
	if (argc > 1) _exit(12);
	return 12;
}
"""

GROWER = r"""
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void take(void) { kept = malloc(1000); __asm__(""); }
int main(void) { for (int i = 0; i < 100; i++) { take(); usleep(10000); } return 0; }
"""


@pytest.fixture
def ender(scratch):
    return compile_c(scratch, "ender", ENDER, "-pthread")


def run(argv, env, **more):
    return subprocess.run([str(word) for word in argv], env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, **more)


def summaries(text):
    return re.findall(r"^heapgauge: .* \(pid \d+\) ", text, re.M)


def with_command(build, scratch, script, mode=0o755):
    """The recorder in a folder of its own, beside a command that does what the script says."""
    folder = scratch / "beside"
    folder.mkdir()
    shutil.copy(build / "libheapgauge.so", folder)
    if script is not None:
        (folder / "heapgauge").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "heapgauge").chmod(mode)
    return {"LD_PRELOAD": str(folder / "libheapgauge.so")}


@pytest.mark.parametrize("how", ["return", "exit", "_exit", "_Exit", "quick_exit", "thread", "thread_exit"])
@pytest.mark.parametrize("kept", ["memory", "file"])
def test_each_exit_prints_the_summary_once(how, kept, ender, build, clean_env):
    bare = run([ender, how], clean_env)
    with folder_on_tmpfs() as folder:
        env = preloaded(build, clean_env, folder if kept == "file" else None, HEAPGAUGE_REPORT="stderr")
        done = run([ender, how], env)
        assert os.listdir(folder) == []
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)
    assert len(summaries(done.stderr)) == 1
    assert re.search(r"not freed +(97.7|98.0|97.9) KiB in 1,00[01] blocks", done.stderr), "a thread has a block of its own"
    assert "heapgauge report" not in done.stderr, "there is no recording to name"


def test_a_program_that_closes_stderr_at_its_exit(build, clean_env):
    bare = run(["/bin/ls", "-d", "/", "/no/such/file"], clean_env)
    done = run(["/bin/ls", "-d", "/", "/no/such/file"], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)
    assert done.stderr.startswith(bare.stderr) and len(summaries(done.stderr)) == 1


def test_a_daemon_that_closes_stderr_keeps_none(build, clean_env, scratch):
    """Its caller reads until then."""
    program = compile_c(scratch, "daemon", DAEMON)
    done = run([program, scratch / "open", scratch / "new"], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
    assert (done.returncode, done.stderr) == (0, "")
    wait_for((scratch / "open").exists, "the daemon")
    assert (scratch / "open").read_text().split() == ["/dev/null"] * 3 + [str(scratch / "new")]


def test_the_status_is_that_of_the_first_thread_that_exits(build, heapgauge, clean_env, scratch):
    """Also if another one calls _exit while the first one waits."""
    program = compile_c(scratch, "two_ends", TWO_ENDS, "-pthread")
    assert run([program], clean_env).returncode == 0
    for _ in range(5):
        done = run([program], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
        assert done.returncode == 0 and len(summaries(done.stderr)) == 1
        done = run([heapgauge, "record", "-q", "--image", "-o", scratch / "x.hg", "--", program], clean_env)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("how", [[], ["_exit"]], ids=["return", "_exit"])
def test_a_timer_does_not_end_what_has_ended(how, build, heapgauge, clean_env, scratch):
    program = compile_c(scratch, "timed", TIMED)
    assert run([program, *how], clean_env).returncode == 12
    for _ in range(3):
        done = run([program, *how], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
        assert done.returncode == 12 and len(summaries(done.stderr)) == 1
        done = run([heapgauge, "record", "-q", "--image", "-o", scratch / "x.hg", "--", program, *how], clean_env)
        assert (done.returncode, done.stderr) == (12, "")


def test_a_user_may_end_it_meanwhile(ender, build, clean_env, scratch):
    env = clean_env | with_command(build, scratch, f"echo $$ >{scratch}/pid; exec sleep 1000")
    program = subprocess.Popen([ender, "exit"], env=env | {"HEAPGAUGE_REPORT": str(scratch / "r.txt")})
    wait_for(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text().strip(), "the report")
    program.terminate()
    assert program.wait(WAIT_SECONDS) == -signal.SIGTERM
    os.kill(int((scratch / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("report", ["/dev/stdout", "/dev/stderr", "name"])
def test_a_report_where_the_program_writes_follows_its_output(report, ender, build, clean_env, scratch):
    """And does not empty the file, which may be an old log."""
    log = scratch / "log"
    log.write_text("before\n")
    env = preloaded(build, clean_env, HEAPGAUGE_REPORT=str(log) if report == "name" else report)
    with open(log, "a", encoding="ascii") as both:
        words = ["sh", "-c", 'echo out; echo err >&2; LD_PRELOAD= HEAPGAUGE_REPORT= ls -d /; exit 6']
        done = subprocess.run(words, env=env, stdout=both, stderr=both, timeout=WAIT_SECONDS, check=False)
    text = log.read_text()
    assert done.returncode == 6 and text.startswith("before\nout\nerr\n/\n") and len(summaries(text)) == 1


def test_in_the_background_of_a_terminal_that_forbids_output(ender, build, clean_env):
    """Writing there would stop the whole process group."""
    env = preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr")
    leader, terminal = pty.fork()
    if leader == 0:
        modes = termios.tcgetattr(0)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, modes)
        background = os.fork()
        if background == 0:
            os.setpgid(0, 0)
            os.execve(ender, [str(ender), "exit"], env)
        _, status = os.waitpid(background, os.WUNTRACED)
        os.kill(background, signal.SIGKILL) if os.WIFSTOPPED(status) else None
        os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 99)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        shown += piece
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1]) == run([ender, "exit"], clean_env).returncode
    assert len(summaries(shown.decode().replace("\r", ""))) == 1


def test_python_with_children(build, clean_env, scratch):
    """Children, forked or started, have reports of their own; the program gets the status of each. A forked child has one if it allocates,
    which Python 3.14 by itself does not."""
    script = "import os, subprocess, sys; p = os.fork()\nif not p: bytearray(100000); os._exit(5)\n" \
        "print(os.waitpid(p, 0)[1] >> 8, subprocess.run(['/bin/true']).returncode); sys.exit(4)"
    done = run(["/usr/bin/python3", "-c", script], preloaded(build, clean_env, HEAPGAUGE_REPORT="r.%p.txt"), cwd=scratch)
    assert (done.returncode, done.stdout, done.stderr) == (4, "5 0\n", "")
    texts = [path.read_text() for path in scratch.glob("r.*.txt")]
    assert len(texts) == 3 and all(len(summaries(text)) == 1 for text in texts)
    assert sum("/bin/true" in text for text in texts) == 1


@pytest.mark.parametrize("how", ["wait", "ignore", "threads"])
def test_the_program_sees_no_child(how, build, clean_env, scratch):
    program = compile_c(scratch, "waiter", WAITER, "-pthread")
    done = run([program, scratch / "seen", how], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
    signals, children, none, _ = struct.unpack("4i", (scratch / "seen").read_bytes()[:16])
    assert (done.returncode, done.stdout, len(summaries(done.stderr))) == (7, "", 1)
    assert (signals, children) == (0, 0)
    assert how != "wait" or none > 1000


def test_a_file_that_took_the_number_of_stderr_is_left_alone(build, clean_env, scratch):
    program = compile_c(scratch, "reuser", REUSER)
    env = preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr")
    assert run([program, scratch / "own"], env).returncode == 0
    assert (scratch / "own").read_text() == "mine\n"
    done = run([program], env)
    assert (done.returncode, done.stderr) == (0, "")
    done = run([program, scratch / "other"], preloaded(build, clean_env, HEAPGAUGE_REPORT=str(scratch / "r.txt")))
    assert done.returncode == 0 and (scratch / "other").read_text() == "mine\n"
    assert len(summaries((scratch / "r.txt").read_text())) == 1


def test_a_full_disk_is_no_harm(ender, build, clean_env):
    done = run([ender, "exit"], preloaded(build, clean_env, HEAPGAUGE_REPORT="/dev/full"))
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


@pytest.mark.parametrize("variable", ["HEAPGAUGE_REPORT", "HEAPGAUGE_OUTPUT"])
def test_a_file_that_cannot_be_written_is_one_sentence(variable, ender, build, clean_env):
    done = run([ender, "exit"], preloaded(build, clean_env, **{variable: "/no/such/folder/x.hg"}))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith("heapgauge: ") and "/no/such/folder/x.hg" in done.stderr


@as_root
def test_a_recording_that_does_not_fit_is_one_sentence(ender, build, clean_env, scratch):
    """And the summary is there all the same."""
    script = f"mount -t tmpfs -o size=4k none {scratch} && head -c 4096 /dev/zero >{scratch}/full && cd / && HEAPGAUGE_REPORT=stderr HEAPGAUGE_OUTPUT={scratch}/x.hg " \
        f"LD_PRELOAD={build}/libheapgauge.so /bin/ls -d / && ls -A {scratch}"
    done = run(["unshare", "--mount", "sh", "-c", script], clean_env)
    assert (done.returncode, done.stdout) == (0, "/\nfull\n"), done.stderr
    assert len(summaries(done.stderr)) == 1
    assert len(re.findall(r"^heapgauge: .*No space left", done.stderr, re.M)) == 1


@pytest.mark.parametrize("how, sentence", [
    (None, "is not beside the recorder"),
    ("kill -SEGV $$", "was ended by a signal"),
    ("#world", "is not beside the recorder"),
    ("exec /no/such/program", "cannot execute"),
])  # fmt: skip
def test_a_command_that_fails_is_one_sentence(how, sentence, ender, build, clean_env, scratch):
    if INSTALLED.exists():
        pytest.skip("heapgauge is installed")
    env = clean_env | with_command(build, scratch, how, 0o777 if how == "#world" else 0o755)
    done = run([ender, "exit"], env | {"HEAPGAUGE_REPORT": str(scratch / "r.txt")})
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    last = (scratch / "r.txt").read_text().splitlines()[-1]
    assert last.startswith("heapgauge: no report of process ") and sentence in last


def test_a_command_that_hangs_is_ended(ender, build, clean_env, scratch):
    env = clean_env | with_command(build, scratch, f"echo $$ >{scratch}/pid; exec sleep 1000")
    begun = time.monotonic()
    done = run([ender, "exit"], env | {"HEAPGAUGE_REPORT": "stderr"})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "took more than 30 seconds and was ended" in done.stderr and time.monotonic() - begun < 120
    assert not pathlib.Path("/proc", (scratch / "pid").read_text().strip()).exists()


def test_the_command_is_not_looked_for_in_the_path(ender, build, clean_env, scratch):
    (scratch / "bin").mkdir()
    (scratch / "bin/heapgauge").write_text("#!/bin/sh\ntouch $0.ran\n")
    (scratch / "bin/heapgauge").chmod(0o755)
    env = clean_env | with_command(build, scratch, None) | {"HEAPGAUGE_REPORT": "stderr", "PATH": f"{scratch}/bin:/bin:/usr/bin"}
    assert run([ender, "exit"], env, cwd=scratch / "bin").returncode == 3
    assert not (scratch / "bin/heapgauge.ran").exists()


def test_the_command_gets_an_environment_without_ours(ender, build, clean_env, scratch):
    env = clean_env | with_command(build, scratch, "env; ls -l /proc/self/fd") | {"HEAPGAUGE_REPORT": "stderr", "MARK": "1"}
    done = run([ender, "exit"], env)
    assert "MARK=1\n" in done.stderr and "LD_" not in done.stderr and "HEAPGAUGE_" not in done.stderr
    assert set(re.findall(r" (\d+) -> ", done.stderr)) <= {"0", "1", "2", "3", "4", "5"}


@as_root
def test_never_in_a_privileged_program(build, clean_env, scratch):
    program = compile_c(scratch, "linked", "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); return p == 0; }",
                        f"-L{build}", "-Wl,--no-as-needed", "-lheapgauge", f"-Wl,-rpath,{build}")
    env = clean_env | {"HEAPGAUGE_REPORT": "stderr"}
    assert len(summaries(run([program], env).stderr)) == 1
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o6755)
    done = run([program], env)
    assert (done.returncode, done.stderr) == (0, "")


FIRST = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	void *volatile p = malloc(1000);
	int status = 0;
	long child = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (child == 0) _exit(4);
	return child > 0 && waitpid(child, &status, 0) == child && status == 4 << 8 && getpid() == 1 && p != NULL ? 5 : 77;
}
"""


@as_root
def test_a_child_with_the_pid_of_its_parent_does_not_report_for_it(build, clean_env, scratch):
    """Both are the first of their pid namespace."""
    program = compile_c(scratch, "first", FIRST)
    own = [f"{name}={value}" for name, value in preloaded(build, {}, HEAPGAUGE_REPORT="stderr").items()]
    done = run(["unshare", "--pid", "--fork", "env", *own, program], clean_env)
    if "unshare failed" in done.stderr:
        pytest.skip("no namespaces")
    assert (done.returncode, len(summaries(done.stderr))) == (5, 1), done.stderr


def test_a_program_with_few_system_calls_is_not_harmed(target, build, clean_env):
    program = target("t_seccomp_kill")
    bare = run([program], clean_env)
    done = run([program], preloaded(build, clean_env, HEAPGAUGE_REPORT="stderr"))
    assert done.returncode == bare.returncode


CHROOT = """
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) { void *volatile p = malloc(9); return chroot(argv[1]) || chdir("/") || p == NULL ? 77 : 3; }
"""


@as_root
def test_nothing_of_another_root_directory_is_executed_or_written(build, clean_env, scratch):
    """There a stranger may own what has the name of the command and of the recorder, or the libraries of a command that is root's."""
    program = compile_c(scratch, "enters", CHROOT)
    env = clean_env | with_command(build, scratch, None) | {"HEAPGAUGE_REPORT": "/report"}
    inside = scratch / "jail" / str(scratch / "beside").lstrip("/")
    inside.mkdir(parents=True)
    source = '#include <fcntl.h>\nint main(void) { return open("/executed", O_CREAT | O_WRONLY, 0600) < 0; }'
    shutil.copy(compile_c(scratch, "executed", source, "-static"), inside / "heapgauge")
    (inside / "libheapgauge.so").touch()
    for path in inside.iterdir():
        os.chown(path, 65534, 65534)
    done = run([program, scratch / "jail"], env)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"heapgauge: no report of process \d+: it has changed its root directory\n", done.stderr)
    assert not (scratch / "jail/executed").exists() and not (scratch / "jail/report").exists()


def test_a_recording_at_the_exit_is_where_the_program_began(heapgauge, build, clean_env, scratch):
    (scratch / "sub").mkdir()
    script = "import os; os.chdir('/'); x = [bytearray(1000000) for _ in range(5)]; os._exit(3)"
    env = preloaded(build, clean_env, HEAPGAUGE_OUTPUT="sub/")
    done = run(["/usr/bin/python3", "-c", script], env, cwd=scratch)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    (path,) = (scratch / "sub").iterdir()
    assert re.fullmatch(r"heapgauge\.python3[.\d]*\.\d+\.hg", path.name)
    shown = run([heapgauge, "report", path, "--format", "json"], clean_env)
    process = json.loads(shown.stdout)["processes"][0]
    assert process["not_freed_bytes"] > 5000000 and process["peak_rss_bytes"] > 5000000


def test_a_recording_at_the_exit_needs_its_folder(build, clean_env, scratch, ender):
    done = run([ender, "exit"], preloaded(build, clean_env, HEAPGAUGE_OUTPUT=f"{scratch}/nowhere/x.hg"))
    assert f"heapgauge: cannot create {scratch}/nowhere/x.hg: there is no such folder\n" in done.stderr


def test_a_recording_at_the_exit_is_named_for_the_executable(build, clean_env, scratch):
    """Whatever module allocates first: in C++ that is the library, before main."""
    program = compile_c(scratch, "serving", "int main() { return 3; }", "-xc++", "-Wl,--no-as-needed", "-lstdc++")
    done = run([program], preloaded(build, clean_env, HEAPGAUGE_OUTPUT=str(scratch / "%e.hg")))
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    assert [path.name for path in scratch.glob("*.hg")] == ["serving.hg"]


def test_snapshots_by_time(heapgauge, build, clean_env, scratch):
    program = compile_c(scratch, "grower", GROWER)
    done = run([program], preloaded(build, clean_env, HEAPGAUGE_EVERY="100ms", HEAPGAUGE_OUTPUT=str(scratch / "x.hg")))
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(run([heapgauge, "report", scratch / "x.hg", "--view", "snapshots", "--format", "json"], clean_env).stdout)["snapshots"]
    live = [row["live_bytes"] for row in rows]
    assert len(rows) >= 5 and {row["name"] for row in rows} == {"every"}
    assert live == sorted(set(live)) and all(value % 1000 == 0 for value in live)


def test_over_time_it_has_what_it_counted_then(heapgauge, build, clean_env, scratch):
    """Nobody read its counters and its RSS at the snapshots; the last point is its end."""
    program = compile_c(scratch, "grower", GROWER)
    done = run([program], preloaded(build, clean_env, HEAPGAUGE_EVERY="100ms", HEAPGAUGE_OUTPUT=str(scratch / "x.hg")))
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(run([heapgauge, "report", scratch / "x.hg", "--view", "timeline", "--format", "json"], clean_env).stdout)["timeline"]
    kept, last = [row for row in rows if row["snapshot"]], rows[-1]
    assert len(kept) >= 5 and all(row["live_bytes"] for row in kept)
    for key in "rss_bytes", "calls", "frees", "total_bytes", "threads", "calls_per_second", "bytes_per_second", "frees_per_second":
        assert {row[key] for row in kept} == {None}, key
    assert (last["rss_bytes"], last["calls"], last["total_bytes"], last["live_bytes"], last["threads"]) == (None, 100, 100000, 100000, 1)
    shown = run([heapgauge, "report", scratch / "x.hg", "--view", "timeline"], clean_env).stdout
    assert " 0 B " not in shown and " 0/s" not in shown

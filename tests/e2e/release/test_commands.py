# SPDX-License-Identifier: Apache-2.0
"""Every command that the README and the how-tos show runs as printed, in a folder that has the files it names.

api.md, ci.md and sql.md, and the README's first commands, have tests of their own, which also look at what is printed."""

import contextlib
import pathlib
import re
import subprocess

import pytest

from alone import folder_on_tmpfs
from compiled import WAIT_SECONDS, compile_c
from terminal import Terminal
from tracing import need_bpftrace

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["README.md", *(f"docs/howto/{name}.md" for name in ("record", "production", "deploy", "terminal", "view", "names", "bpftrace", "agent"))]
# Waits for the end of its input, which is at once unless the test holds it.
SERVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[100];
__attribute__((noinline)) static void serve(int i) { free(strdup("a request")); kept[i % 100] = malloc(500); }
int main(void)
{
	alarm(900);
	for (int i = 0; i < 1000; i++)
		serve(i);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
"""
# Commands that need what no test has, each with what covers it.
ELSEWHERE = {
    "sudo apt install": "test_package.py installs the .deb in a new system (long form), tools/try-readme in three",
    "tar xzf": "test_package.py",
    "pip install": "test_package.py",
    "podman build": "test_package.py makes the same folders; the tables in production.md and deploy.md say what was run by hand",
    "docker run": "the table in production.md",
    "sudo apt-get install": "tools/try-readme",
    "cmake --": "tools/try-readme",
    "sudo cmake --install": "tests/checks/test_install.py",
    "there$": "a second machine; test_serve.py has the socket and the token",
    "here$": "a second machine",
    "heapgauge record -- sh -c 'echo $$ > /sys/fs/cgroup": "needs a control group; test_triggers.py makes one",
    "cc -o server *.o": "test_link_in.py",
    "sudo install": "the files are those that test_deploy.py checks",
    "sudo systemctl": "the table in deploy.md; test_deploy.py verifies the unit, and runs the agent with its capabilities",
    "sudo curl": "test_agent.py",
    "kubectl": "needs a cluster; test_deploy.py validates the manifests, and runs the agent with their capabilities and settings",
    "http://": "printed by the command above it",
    "heapgauge agent /etc/heapgauge": "e2e/agent/test_agent.py runs the settings of the page",
    "pprof -top 'http": "e2e/agent/test_agent.py",
    "curl -s http://127.0.0.1:9464": "e2e/agent/test_agent.py: this port may be taken here",
    **dict.fromkeys(("heapgauge report jeprof", "heapgauge report heap.pb.gz", "heapgauge diff old.heap", "heapgauge check heap.pb.gz"), "export/test_import.py"),
    "heapgauge view new.heap": "page/test_page_imported.py",
    "!": "printed by a command",
}
# Those that run until they are told to end: what they show first, and the key.
UNTIL_STOPPED = {"heapgauge view": (b"http://", b"\x03"), "heapgauge top": (b"server", b"q"), "heapgauge record --pid": (b" live ", b"\x03"), "heapgauge agent": (b"the agent listens", b"\x03")}


def commands_of(page):
    """The commands of all blocks that a shell could run, without comments, with continued lines as one."""
    text = (ROOT / page).read_text()
    blocks = [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if language in ("", "sh")]
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    # Continued lines of printed text begin with blanks.
    stripped = [re.sub(r"\s{2,}# .*|\s# .*$", "", line).strip() for line in lines if not line.startswith("      ")]
    return [line for line in stripped if line]


COMMANDS = [(page, command) for page in PAGES for command in commands_of(page)]
RUN = [(page, command) for page, command in COMMANDS if not command.startswith(tuple(ELSEWHERE))]


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", build, "--prefix", folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def profiles():
    with folder_on_tmpfs() as folder:
        yield folder


@contextlib.contextmanager
def running_server(folder, env, recorder, profiles, mode):
    env = env | {"LD_PRELOAD": str(recorder), "HEAPGAUGE_MODE": mode, "HEAPGAUGE_DIR": str(profiles)}
    with subprocess.Popen(["./server"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"ready\n"
        yield server
        server.stdin.close()


def stop(command, env, folder):
    (shows, key), = (value for start, value in UNTIL_STOPPED.items() if command.startswith(start))
    terminal = Terminal(["bash", "-c", f"exec {command}"], env, folder, columns=200)
    terminal.read_until(lambda: shows in terminal.shown)
    assert shows in terminal.shown, terminal.shown
    terminal.press(key)
    return terminal.end()


@pytest.mark.parametrize(("page", "command"), RUN, ids=[f"{pathlib.Path(page).stem}-{command[:60]}" for page, command in RUN])
def test_a_command_runs_as_printed(page, command, prefix, profiles, scratch, clean_env):
    if "bpftrace" in command:
        need_bpftrace()  # as root, who may have no sudo
        command = command.removeprefix("sudo ")
    compile_c(scratch, "server", SERVER, "-g")
    (scratch / "app.py").write_text("kept = [str(i) for i in range(1000)]\n")
    recorder = prefix / "lib/heapgauge/libheapgauge.so"
    env = clean_env | {"PATH": f"{prefix}/bin:{clean_env['PATH']}", "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "HOME": str(scratch), "BROWSER": "true", "TERM": "xterm"}
    for name in "run.hg", "after-the-fix.hg", "old.hg", "new.hg", "a.hg", "b.hg", "c.hg":
        if name in command and f"-o {name}" not in command:
            argv = ["heapgauge", "record", "-q", "-o", name, "--python", "domains", "--", *(["python3", "app.py"] if "--pool" in command or "--kind" in command else ["./server"])]
            subprocess.run(argv, cwd=scratch, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for folder in ".zfunc", ".config/fish/completions":
        (scratch / folder).mkdir(parents=True)
    mode = "exact" if "--view pins" in command or "heapgauge image" in command else "sample"
    with running_server(scratch, env, recorder, profiles, mode) as server:
        command = command.replace("/usr/lib/heapgauge/libheapgauge.so", str(recorder)).replace("4711", str(server.pid))
        if "post-mortem" in command or ".live" in command:
            server.kill()
            server.wait()
            (left,) = profiles.glob("*.live")
            command = re.sub(r"/run/heapgauge/\S+\.live", str(left), command)
        command = command.replace("/etc/heapgauge", "/usr/share/heapgauge/deploy").replace("/usr/share/heapgauge", f"{prefix}/share/heapgauge")
        command = command.replace("/run/heapgauge", str(profiles)).replace("/var/tmp", str(scratch))
        if command.startswith("heapgauge snap"):
            return snapped(command, server, env, scratch)
        if command.startswith(tuple(UNTIL_STOPPED)):
            ended = stop(command, env, scratch)
        else:
            ended = subprocess.run(["bash", "-c", command], cwd=scratch, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_SECONDS)
    # A budget may be exceeded; nothing may be wrong with the command.
    assert ended.returncode in ((0, 1) if " check " in command else (0,)), ended


def snapped(command, server, env, folder):
    """A snapshot belongs to a recording that is being made."""
    terminal = Terminal(["heapgauge", "record", "--pid", str(server.pid)], env, folder, columns=200)
    terminal.read_until(lambda: b" live " in terminal.shown)
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    terminal.press(b"\x03")
    assert done.returncode == 0 and terminal.end().returncode == 0, done


def test_commands_are_found():
    assert len(RUN) > 40 and {page for page, _ in RUN} == set(PAGES)
    for start in ELSEWHERE:
        assert any(command.startswith(start) for _, command in COMMANDS), f"no page has a command {start}: remove the exception"


def test_the_packages_are_named_as_they_are_built(build):
    named = re.findall(r"heapgauge[_-][\w.]+(?:-x86_64|_amd64|py3-none-\w+)?\.(?:deb|tar\.gz|whl)", (ROOT / "README.md").read_text())
    version = re.search(r"project\(heapgauge VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert len(named) >= 2 and all(version in name for name in named), named

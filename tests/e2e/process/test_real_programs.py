# SPDX-License-Identifier: Apache-2.0
"""Whole trees of real programs do the same with and without us: what they write, what they say, how they end.

HEAPGAUGE_LONG=1 makes everything larger.
"""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, ended, losses, wait_for

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
GIT_ENV = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def files_in(folder, but=()):
    """Name -> mode and content of every file; links by where they point."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name in but or path.is_dir() and not path.is_symlink():
            continue
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        found[name] = (path.lstat().st_mode, hashlib.sha256(content).hexdigest())
    return found


@pytest.fixture
def same(record, report_json, clean_env, scratch):
    """same(argv, make=...): runs argv bare and recorded, each in a folder `work` that make(folder) fills.

    Returns (bare output, recording's summary) after status, stdout, stderr and files were compared."""

    def run(argv, make=None, env=None, stdin=None, but=(), order=True, timeout=WAIT_SECONDS):
        folder, seen = scratch / "work", []
        for recorded in (False, True):
            folder.mkdir()
            if make:
                make(folder)
            source = stdin.open() if stdin else subprocess.DEVNULL
            if recorded:
                done = record(argv, env=env, cwd=folder, stdin=source, timeout=timeout)
            else:
                done = subprocess.run(
                    argv, env=clean_env | (env or {}), cwd=folder, stdin=source, capture_output=True, text=True,
                    errors="replace", timeout=timeout, check=False,
                )  # fmt: skip
            stdout = done.stdout if order else sorted(done.stdout.splitlines())
            seen.append((done.returncode, stdout, done.stderr, files_in(folder, but)))
            folder.rename(scratch / f"work-{recorded}")
        bare, under = seen
        assert bare[0] == 0, bare[2]
        assert under[:3] == bare[:3]
        assert under[3] == bare[3]
        return bare, report_json(done.path)

    return run


def healthy(summary, but=()):
    """Nothing lost in any process, but for what is named."""
    lost = {k: v for p in summary["processes"] for k, v in losses(p).items() if k not in but}
    assert lost == {} and summary["warnings"] == {}
    return summary["processes"]


def programs(processes):
    """File names of what ran, with how often. gcc 16 starts as and ld by names that say for which machine."""
    names = [pathlib.PurePath((p["command"] or "?").split()[0]).name for p in processes]
    names = [re.sub(r"^\w+-linux-gnu-", "", name) for name in names]
    return {name: names.count(name) for name in names}


MODULES = 48 if LONG else 12
MAKEFILE = """
OBJECTS = $(patsubst %.c,%.o,$(sort $(wildcard *.c)))
all: program
	./program > report.txt
%.o: %.c all.h
	@echo compiling $<
	@$(CC) -O2 -g -c $< -o $@
program: $(OBJECTS)
	@$(CC) $^ -o $@
"""


def make_project(folder):
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "all.h").write_text("".join(f"int module_{i}(int);\n" for i in range(1, MODULES)))
    for i in range(1, MODULES):
        (folder / f"module_{i}.c").write_text(
            '#include "all.h"\n#include <stdlib.h>\n#include <string.h>\n'
            f"int module_{i}(int x)\n{{\n\tchar *text = malloc(x % 100 + {i});\n\tmemset(text, {i}, x % 100 + {i});\n"
            f"\tint sum = text[x % {i}] + {f'module_{i - 1}(x / 2)' if i > 1 else 'x'};\n\tfree(text);\n\treturn sum;\n}}\n"
        )
    (folder / "main.c").write_text(
        '#include "all.h"\n#include <stdio.h>\n'
        f'int main(void) {{ for (int x = 0; x < 100; x++) printf("%d\\n", module_{MODULES - 1}(x * 7919)); return 0; }}\n'
    )


def test_make_with_two_jobs_builds_the_same(same):
    bare, summary = same(["make", "-j2"], make_project, order=False)
    assert len([line for line in bare[1] if line.startswith("compiling")]) == MODULES
    ran = programs(healthy(summary))
    assert ran["make"] >= 1 and ran["cc1"] == MODULES and ran["as"] == MODULES and ran["program"] == 1
    assert ran.get("ld", 0) + ran.get("collect2", 0) >= 1
    program = next(p for p in summary["processes"] if p["command"].endswith("./program"))
    # And one block for stdio's buffer, which stays.
    assert (program["calls"], program["not_freed_blocks"]) == (100 * (MODULES - 1) + 1, 1)


SERVER = r"""
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t over;
static void stop(int number) { over = number; }
/* Answers each line by itself, turned round; takes as many blocks as the line has letters. */
static void serve(int fd)
{
	char line[4096];
	for (ssize_t n; (n = read(fd, line, sizeof line)) > 0;) {
		char *copy[4096];
		for (ssize_t i = 0; i < n - 1; i++) { copy[i] = malloc(100); *copy[i] = line[n - 2 - i]; }
		for (ssize_t i = 0; i < n - 1; i++) { line[i] = *copy[i]; free(copy[i]); }
		if (write(fd, line, n) != n) break;
	}
	_exit(0);
}
int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(strtol(argv[1], NULL, 10)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sigaction on_term = { .sa_handler = stop };
	int listener = socket(AF_INET, SOCK_STREAM, 0), served = 0, one = 1;
	sigaction(SIGTERM, &on_term, NULL);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&address, sizeof address) || listen(listener, 64)) return 9;
	while (!over) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0) continue;
		if (fork() == 0) { close(listener); serve(fd); }
		close(fd);
		served++;
		while (waitpid(-1, NULL, WNOHANG) > 0) {}
	}
	while (waitpid(-1, NULL, 0) > 0) {}
	printf("served %d\n", served);
	return 3;
}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(port, lines):
    """The server's answers to the lines, by one connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
        answers = []
        for line in lines:
            connection.sendall(line.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                part = connection.recv(4096)
                assert part, "the server hung up"
                answer += part
            answers.append(answer.decode())
        return answers


def is_listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS).close()
    except OSError:
        return False
    return True


def test_server_that_forks_for_each_client_and_never_execs_answers_the_same(heapgauge, clean_env, scratch, report_json):
    clients = 400 if LONG else 60
    server = compile_c(scratch, "server", SERVER)
    path, seen = scratch / "server.hg", []
    for recorder in ([], [heapgauge, "record", "-q", "-o", path, "--"]):
        port = free_port()
        with subprocess.Popen(
            [*recorder, server, str(port)], env=clean_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                wait_for(lambda: is_listening(port), "the server to listen")
                answers = [ask(port, ["abc" * i, "x" * (i * 13 % 900 + 1)]) for i in range(1, clients)]
                process.send_signal(signal.SIGTERM)
                output, errors = process.communicate(timeout=WAIT_SECONDS)
            finally:
                process.kill()
        seen.append((answers, process.returncode, output, errors))
    assert seen[0] == seen[1]
    assert seen[1][1:] == (3, f"served {clients}\n", "")
    first, *children = healthy(report_json(path))
    # The first connection only asked whether somebody listens.
    expected = sorted([0] + [3 * i + i * 13 % 900 + 1 for i in range(1, clients)])
    assert sorted([0] * (clients - len(children)) + [p["calls"] for p in children]) == expected
    assert {p["ppid"] for p in children} == {first["pid"]}
    assert all(p["not_freed_blocks"] == 0 and ended(p, "exit", 0) for p in children)


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    """A bare repository with some history."""
    folder = tmp_path_factory.mktemp("git") / "origin"
    env = os.environ | GIT_ENV
    subprocess.run(["git", "init", "-q", "-b", "main", folder], env=env, check=True)
    for commit in range(60 if LONG else 12):
        for i in range(20):
            path = folder / f"folder{i % 4}" / f"file{i}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"line {n} of {i} in {commit * (n % 5 == i % 5)}\n" for n in range(200)))
        subprocess.run(["git", "add", "-A"], cwd=folder, env=env, check=True)
        subprocess.run(["git", "commit", "-q", "-m", f"commit {commit}"], cwd=folder, env=env, check=True)
    return folder


@pytest.mark.parametrize("how", ["--no-hardlinks", "--no-local", "--bare"])
def test_git_clone_of_a_local_repository_gives_the_same(how, same, repository):
    """Packs may be cut differently by two threads, the index holds times: the objects and the work tree must be the same."""
    script = (
        f"git clone {how} {repository} copy 2>&1 && cd copy && git fsck --full --strict 2>&1 && git rev-list --objects --all |"
        " sort > ../objects.txt && rm -rf .git objects *.lock index"
    )
    bare, summary = same(["sh", "-c", script], env=GIT_ENV | {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "pack.threads",
                                                              "GIT_CONFIG_VALUE_0": "2"})  # fmt: skip
    assert "objects.txt" in bare[3]
    assert how == "--bare" or "copy/folder1/file1.txt" in bare[3]
    assert programs(healthy(summary))["git"] >= 3
    assert sum(p["calls"] for p in summary["processes"]) > 1000


def large_source(functions):
    lines = ["#include <stdio.h>", "#include <string.h>", "struct pair { int a, b; };"]
    for i in range(functions):
        lines.append(
            f"static int f{i}(struct pair *p, int n) {{ int s = {i}; for (int k = 0; k < n; k++) {{ s += p[k].a * {i % 7 + 1}"
            f" ^ p[k].b; if (s % {i % 11 + 2} == 0) s -= k; switch (s & 3) {{ case 0: s++; break; case 1: s ^= {i}; break;"
            f" default: s = s * 3 + (int)strlen(\"text {i}\"); }} }} return s; }}"
        )
    calls = " + ".join(f"f{i}(p, {i % 9})" for i in range(functions))
    lines.append(f'int main(void) {{ struct pair p[9] = {{ {{ 1, 2 }}, {{ 3, 4 }} }}; printf("%d\\n", {calls}); return 0; }}')
    return "\n".join(lines)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_compiler_makes_the_same_object_of_a_large_source(compiler, same, report_json):
    """Destructors of LLVM 19 and newer allocate at exit. They are called by __do_global_dtors_aux, a part of gcc's crtbegin.o that has no unwind
    information: our stacks end there, as those of libgcc's unwinder do."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    text = large_source(1000 if LONG else 250)
    _, summary = same(
        [compiler, "-O2", "-g", "-c", "large.c", "-o", "large.o"], lambda folder: (folder / "large.c").write_text(text)
    )
    processes = healthy(summary, but=("stacks_cut", "stacks_stopped"))  # compilers recurse
    if any(losses(p).get("stacks_stopped") for p in processes):
        sites = report_json(summary["file"], "sites", "--kind", "all", "--limit", "1000000")["sites"]
        ends = [[frame["function"] for frame in site["stack"][-3:]] for site in sites]
        stopped = [functions for functions in ends if functions[-1] == "[unwind stopped]"]
        assert stopped and all(functions[0] == "__cxa_finalize" for functions in stopped), stopped
    assert max(p["calls"] for p in processes) > 10_000
    assert max(p["peak_bytes"] for p in processes) > 1 << 20


@pytest.fixture(scope="session")
def sqlite_source(tmp_path_factory):
    """SQLite in one file of C, from a package that brings it along."""
    folder = tmp_path_factory.mktemp("sqlite")
    if shutil.which("cargo"):
        (folder / "src").mkdir()
        (folder / "src" / "lib.rs").touch()
        (folder / "Cargo.toml").write_text(
            '[package]\nname = "source"\nversion = "0.1.0"\n[dependencies]\nlibsqlite3-sys = "=0.30.1"\n'
        )
        fetch = ["cargo", "vendor", "-q"]
    elif shutil.which("npm"):
        fetch = ["sh", "-c", "npm pack --silent better-sqlite3@12 && tar -xzf *.tgz"]
    elif LONG:
        pytest.fail("neither cargo nor npm is installed")
    else:
        pytest.skip("neither cargo nor npm is installed")
    done = subprocess.run(fetch, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    found = [p for p in folder.rglob("sqlite3.c") if p.parent.name == "sqlite3"]
    assert found, done.stdout + done.stderr
    return found[0]


@pytest.mark.parametrize("level", ["-O0", pytest.param("-O2", marks=pytest.mark.skipif(not LONG, reason="HEAPGAUGE_LONG=1"))])
def test_clang_makes_the_same_object_of_sqlite(level, same, sqlite_source):
    if not shutil.which("clang"):
        pytest.fail("clang is not installed")
    bare, summary = same(
        ["clang", level, "-g", "-w", "-c", "sqlite3.c", "-o", "sqlite3.o"],
        lambda folder: shutil.copy(sqlite_source, folder / "sqlite3.c"),
        timeout=1200 if LONG else WAIT_SECONDS,
    )
    assert set(bare[3]) == {"sqlite3.c", "sqlite3.o"}
    clang = max(summary["processes"], key=lambda p: p["calls"])
    assert clang["calls"] > 1_000_000 and clang["end"] == "exit" and clang["exit_code"] == 0


def make_tree(folder):
    for i in range(2000 if LONG else 200):
        path = folder / "tree" / f"d{i % 13}" / f"f{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{i} " * (i * 31 % 4000))
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
    (folder / "tree" / "link").symlink_to("d1/f1")


def test_tar_packs_through_gzip_and_unpacks_the_same(same):
    script = (
        "tar --sort=name --owner=0 --group=0 --mtime=@0 -czf all.tar.gz tree && mkdir out && tar -C out -xzf all.tar.gz &&"
        " tar -tvzf all.tar.gz | sort && diff -r tree out/tree && echo same"
    )
    bare, summary = same(["sh", "-c", script], make_tree)
    assert bare[1].endswith("same\n")
    ran = programs(healthy(summary))
    assert ran["tar"] >= 3 and ran["gzip"] >= 1 and ran["diff"] == 1


@pytest.mark.parametrize("room", ["4M", "100M"], ids=["files-on-the-side", "threads"])
def test_sort_gives_the_same(room, same, scratch):
    count = 2_000_000 if LONG else 200_000
    text = scratch / "numbers"
    text.write_text("".join(f"{i * 7919 % 1000003} {i}\n" for i in range(count)))
    bare, summary = same(
        ["sort", "-n", "--parallel=4", "-S", room, "--compress-program=gzip", "-T", ".", "-o", "sorted"], stdin=text
    )
    processes = healthy(summary)
    assert set(bare[3]) == {"sorted"}
    if room == "4M":
        assert programs(processes)["gzip"] >= 1
    else:
        assert processes[0]["peak_bytes"] > 1 << 20


def test_shell_pipeline_of_many_short_programs_gives_the_same(same):
    rounds = 300 if LONG else 40
    script = (
        f"for i in $(seq {rounds}); do echo $i | sed 's/1/one/' | tr a-z A-Z | cat -; done | sort | uniq -c | awk '{{s += $1}} END"
        " {print s}'; false || (exit 3); echo $?; printf '%s\\n' a b c | xargs -n1 -P2 basename | sort"
    )
    bare, summary = same(["bash", "-c", script])
    assert bare[1] == f"{rounds}\n3\na\nb\nc\n"
    ran = programs(healthy(summary))
    assert ran["sed"] == ran["tr"] == ran["cat"] == rounds


def test_perl_and_python_that_fork_and_pipe_give_the_same(same):
    python = (
        "import os, sys, subprocess, multiprocessing as m\n"
        "def f(n): return sum(len(str(i)) for i in range(n * 1000))\n"
        "with m.get_context('fork').Pool(3) as pool: print(pool.map(f, range(12)))\n"
        "print(subprocess.check_output(['perl', '-e', 'print join(q(,), map { $_ ** 2 } 1..20)'], text=True))\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(9)\n"
        "print(re := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    # In a heap of its own its objects are not seen, and that is said.
    bare, summary = same(["python3", "-c", python], env={"PYTHONMALLOC": "malloc"})
    assert re.search(r"^9$", bare[1], re.M)
    processes = healthy(summary)
    assert programs(processes)["perl"] == 1
    assert len(processes) >= 6

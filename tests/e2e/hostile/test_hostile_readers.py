# SPDX-License-Identifier: Apache-2.0
"""What readers do with files of others: they wait for nobody, believe only whom they must, and stay within bounds."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c
from running import compile_keeper, keeping
from terminal import Terminal
from test_bundle import unpack
from test_names import JIT, SPLIT, build_scenes, dwz_together, run, strip_with_link

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root: files of other users")
STRANGER = 4321


def pipe_instead(path):
    """A pipe that nobody writes to, where something else was."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


# ---- H8: what is no regular file ----


def pipe_as_linked_debug_file(folder, program):
    pipe_instead(strip_with_link(folder, program))


def pipe_in_debug_folder(folder, program):
    debug = strip_with_link(folder, program)
    debug.unlink()
    pipe_instead(folder / ".debug" / debug.name)


def pipe_by_build_id(folder, program):
    build_id = run("readelf", "-n", program).partition("Build ID: ")[2].split()[0]
    run("strip", "--strip-all", program)
    pipe_instead(folder / "symbols" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")


def pipes_for_split_units(folder, program):
    for path in folder.glob("*.dwo"):
        pipe_instead(path)


def pipe_for_split_units_where_compiled(folder, program):
    """The program is elsewhere by the time of the report; split units are looked for beside it, too."""
    pipes_for_split_units(folder, program)
    (folder / "bin").mkdir()
    os.link(program, folder / "bin" / "scenes")


def pipe_as_package(folder, program):
    for path in folder.glob("*.dwo"):
        path.unlink()
    pipe_instead(folder / "scenes.dwp")


def pipe_as_common_file(folder, program):
    dwz_together(folder, program)
    pipe_instead(folder / "common.debug")


def pipe_as_module(folder, program):
    pipe_instead(program)


TRAPS = [
    ([], pipe_as_linked_debug_file), ([], pipe_in_debug_folder), ([], pipe_by_build_id), (SPLIT, pipes_for_split_units),
    (SPLIT, pipe_for_split_units_where_compiled), (SPLIT, pipe_as_package), ([], pipe_as_common_file), ([], pipe_as_module),
]


@pytest.mark.parametrize("flags, trap", TRAPS, ids=[trap.__name__ for _, trap in TRAPS])
def test_a_pipe_in_place_of_debug_information_is_passed_over(flags, trap, scratch, record, report_json):
    """H8: names are missing then; nobody waits."""
    program = build_scenes(scratch, "g++", "-O2", *flags)
    if trap is pipe_as_module:
        done = record([program])
        trap(scratch, program)
    else:
        trap(scratch, program)
        moved = scratch / "bin" / "scenes"
        done = record([moved if moved.exists() else program])
    rows = report_json(done.path, "sites", "--debug-folder", scratch / "symbols")
    assert len(rows["sites"]) == 6


@pytest.fixture
def jit(scratch, record, report_json):
    """A recording of a runtime, and where its map is, which is removed in the end."""
    done = record([compile_c(scratch, "jit", JIT), "map"])
    path = pathlib.Path(f"/tmp/perf-{report_json(done.path)['processes'][0]['pid']}.map")
    yield done.path, path
    path.unlink(missing_ok=True)


def hot_function(rows):
    (site,) = [s for s in rows["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    return site["stack"][0]["function"]


def test_a_pipe_in_place_of_a_perf_map_is_passed_over(jit, report_json):
    """H8"""
    recording, path = jit
    pipe_instead(path)
    assert hot_function(report_json(recording, "sites")).startswith("0x")


@needs_root
def test_a_perf_map_is_believed_if_it_is_the_processes_users(jit, report_json):
    """H8: root believed everybody's."""
    recording, path = jit
    assert hot_function(report_json(recording, "sites")) == "LazyCompile:*hot /srv/app.js:7:3"
    os.chown(path, STRANGER, STRANGER)
    assert hot_function(report_json(recording, "sites")).startswith("0x")


@pytest.fixture
def public():
    """A folder that every user can look into."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heapgauge-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_stranger(*argv):
    return ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", *argv]


@needs_root
def test_a_perf_map_of_another_users_process_is_believed(public, record, report_json):
    """H8: what root records of others has their names."""
    done = record(as_stranger(compile_c(public, "jit", JIT), "map"))
    rows = report_json(done.path, "sites")
    (site,) = [s for s in rows["sites"] if s["stack"][0]["function"] == "LazyCompile:*hot /srv/app.js:7:3"]
    path = pathlib.Path(f"/tmp/perf-{site['pid']}.map")
    assert path.stat().st_uid == STRANGER
    path.unlink()


def test_pipes_in_place_of_other_files_are_passed_over_or_refused(scratch, heapgauge, clean_env, record, target):
    """H8: settings of the folder, sources, recordings, suppressions. A pipe that the user names as a file of budgets is read."""
    done = record([compile_c(scratch, "jit", JIT)])
    pipe_instead(scratch / ".heapgauge.ini")
    pipe_instead(scratch / "jit.c")
    pipe = pipe_instead(scratch / "pipe")

    def answer(*argv):
        return subprocess.run([heapgauge, *argv], cwd=scratch, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)

    assert answer("report", done.path).returncode == 0
    assert answer("bundle", done.path, "--sources", "3").returncode == 0
    for argv in (["report", pipe], ["post-mortem", pipe], ["report", done.path, "--suppressions", pipe], ["merge", pipe, done.path],
                 ["diff", pipe, done.path], ["check", pipe, "--max-peak", "1GiB"]):
        refused = answer(*argv)
        assert refused.returncode not in (0, -11), argv
    budgets = ["bash", "-c", 'exec "$0" check "$1" --budgets <(echo max-peak = 1GiB)', heapgauge, done.path]
    kept = subprocess.run(budgets, cwd=scratch, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert kept.returncode == 0, kept.stderr


# ---- H9: names that are kept ----

NAMED = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) void NAME(void) { kept = malloc(4321); }
int main(void) { NAME(); return 0; }
"""


def owner_of(rows):
    (site,) = [s for s in rows["sites"] if s["sizes"][0]["low_bytes"] == 4321]
    return site["stack"][0]["function"]


@pytest.mark.parametrize("stripped", [False, True], ids=["debug-information-inside", "separate-debug-file"])
def test_a_file_that_claims_anothers_build_id_does_not_name_it(stripped, scratch, record, report_json):
    """H9: a crafted recording leads to a file with the build-id of another; later reports have the right names all the same."""
    recordings = {}
    for name in ("helper", "hostile"):
        folder = scratch / name
        folder.mkdir()
        program = compile_c(folder, "program", NAMED, f"-DNAME={name}", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567")
        recordings[name] = record([program]).path
        if stripped:
            run("objcopy", "--only-keep-debug", program, folder / "program.debug")
            run("strip", "-g", program)
            run("objcopy", f"--add-gnu-debuglink={folder / 'program.debug'}", program)
    if stripped:  # the very program, with other debug information beside it
        shutil.copy(scratch / "helper" / "program", scratch / "hostile" / "program")
    for name in ("hostile", "helper", "hostile"):
        assert owner_of(report_json(recordings[name], "sites")) == name


# ---- H10: who is asked, what is taken, what a terminal gets ----

# Answers every request for a snapshot with yes, in the name of somebody's collector.
SQUATTER = """
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(b"\\0/tmp/heapgauge-process-" + sys.argv[1].encode())
s.listen(8)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.send(struct.pack("=8sQ", b"HGHELLO1", 1))
    c.recv(200)
"""


@needs_root
def test_a_stranger_is_not_asked_for_a_snapshot(scratch, build, heapgauge, clean_env):
    """H10: it said yes, and root believed that there was a snapshot."""
    with keeping([compile_keeper(scratch)], preloaded(build, clean_env)) as keeper:
        squatter = subprocess.Popen(
            as_stranger(sys.executable, "-c", SQUATTER, str(keeper.target)), stdout=subprocess.PIPE, text=True, cwd="/"
        )
        try:
            assert squatter.stdout.readline() == "ready\n"
            done = subprocess.run([heapgauge, "snap", str(keeper.target)], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        finally:
            squatter.kill()
            squatter.wait()
    assert done.returncode == 1
    assert f"another user listens in place of the collector of process {keeper.target}" in done.stderr


def test_source_is_taken_from_the_project_alone(scratch, heapgauge, clean_env, record):
    """H10: debug information names any file that its author likes, and root can read them all."""
    project, elsewhere = scratch / "project", scratch / "elsewhere"
    for folder in (project / ".git", project / "src", project / "build", elsewhere):
        folder.mkdir(parents=True)
    secret = elsewhere / "secret.txt"
    secret.write_text("".join(f"secret line {i}\n" for i in range(9)))
    (project / "src" / "lines.c").write_text("".join(f"line of the project {i}\n" for i in range(9)))
    (project / "src" / "link.c").symlink_to(secret)
    source = "#include <stdlib.h>\nvoid *volatile p;\n"
    for number, path in enumerate((secret, project / "src" / "lines.c", project / "src" / "link.c")):
        source += f'__attribute__((noinline)) void take{number}(void) {{\n#line 4 "{path}"\np = malloc({number} + 70); }}\n'
    source += "int main(void) { take0(); take1(); take2(); return 0; }\n"
    done = record([compile_c(project / "build", "program", source)])

    def taken(cwd, *options):
        argv = [heapgauge, "bundle", done.path, "--sources", "1", "-o", scratch / "out.hg", *options]
        bundled = subprocess.run(argv, cwd=cwd, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert bundled.returncode == 0, bundled.stderr
        inside = unpack((scratch / "out.hg").read_bytes())
        found = b"line of the project 3" in inside, b"secret line 3" in inside
        assert ("outside the project" in bundled.stderr) == (not all(found))
        return found

    assert taken(project / "build") == (True, False)  # the repository around
    assert taken(project / "src") == (True, False)
    assert taken("/") == (False, False)
    assert taken(elsewhere) == (False, True)  # no repository: the folder itself
    assert taken("/", "--source-folder", project, "--source-folder", elsewhere) == (True, True)


# Of everything that a terminal acts on: a title, a colour (C1 in UTF-8 and as a byte), an override of direction, a bell, a backspace.
NASTY = "x\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\x08"
NASTY_BYTES = "x\x1b]0;owned\x07".encode() + b"\x9b32m" + "\x9b31m\u202egnp.exe\u2066\x08".encode()
MEEK = """
#include <stdio.h>
#include <stdlib.h>
void *volatile p;
__attribute__((noinline)) void meek(void) { for (int i = 0; i < 100; i++) p = malloc(777); }
int main(void) { meek(); puts("1"); fflush(stdout); getchar(); return 0; }
"""
ACTS = re.compile(rb"\x1b|[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c|(?<![\xc2-\xf4\x80-\xbf])[\x80-\xbf]")
KINDLY = re.compile(rb"\x1b\[[0-9;]*[mK]|\r")  # colours and the progress line are our own


@pytest.fixture
def on_terminal(heapgauge, clean_env, scratch):
    """on_terminal(*argv): the bytes that a terminal gets from the command; checked to be harmless."""

    def run_there(*argv, status=(0,), **env):
        there = Terminal([heapgauge, *argv], clean_env | {"TERM": "xterm", "PAGER": "cat", "LANG": "C.UTF-8"} | env, scratch, columns=200)
        ended = there.end()
        assert ended.returncode in status, ended.text
        bad = ACTS.search(KINDLY.sub(b"", there.shown))
        assert not bad, f"{argv}: {there.shown[max(0, bad.start() - 40) : bad.end() + 40]!r}"
        return there.shown

    return run_there


def test_nothing_in_a_name_acts_on_the_terminal(scratch, build, record, clean_env, on_terminal, heapgauge):
    """H10: names of programs, files, functions, tags and recordings, in every command and format."""
    program = os.path.join(os.fsencode(scratch), NASTY_BYTES)
    source = scratch / "nasty.c"
    source.write_text(MEEK)
    subprocess.run(["gcc", "-O1", "-w", source, "-o", scratch / "meek"], check=True, timeout=WAIT_SECONDS)
    subprocess.run(["objcopy", "--redefine-sym", b"meek=" + NASTY_BYTES, scratch / "meek", program], check=True, timeout=WAIT_SECONDS)
    recording = os.path.join(os.fsencode(scratch), NASTY_BYTES + b".hg")
    subprocess.run([heapgauge, "record", "-q", "-o", recording, "--", program, NASTY], env=clean_env, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=True, timeout=WAIT_SECONDS)
    for view in ("summary", "sites", "tree", "modules", "processes", "threads"):
        for form in ("text", "json", "csv"):
            assert b"owned" in on_terminal("report", recording, "--view", view, "--format", form) or view in ("threads", "summary")
    assert b"?" in on_terminal("report", recording, "--view", "sites", LANG="C", LC_ALL="C")
    on_terminal("diff", recording, recording)
    on_terminal("export", recording, "--format", "folded", "-o", "-")
    on_terminal("bundle", recording, "-o", recording + b"2")
    on_terminal("merge", recording, recording + b"2", "-o", recording + b"3")
    on_terminal("check", recording, "--max-peak", "1B", status=(1,))
    on_terminal("doctor", program, status=(0, 1))
    on_terminal("report", recording + b".gone", status=(1,))
    on_terminal("report", NASTY, "--" + NASTY, status=(2,))
    on_terminal(NASTY, status=(2,))
    on_terminal("record", "-o", scratch / "again.hg", "--", "sh", "-c", 'exec "$0" </dev/null', program)
    with keeping([program, NASTY], preloaded(build, clean_env)):
        assert b"owned" in on_terminal("list")
        top = Terminal([heapgauge, "top"], clean_env | {"TERM": "xterm", "LANG": "C.UTF-8"}, scratch, columns=200)
        top.read_until(lambda: b"owned" in top.shown)
        top.press(b"q")
        top.end()
        assert not re.search(rb"\x1b\]0;owned|\xc2[\x80-\x9f]|\xe2\x80\xae|\xe2\x81\xa6|(?<![\xc2-\xf4\x80-\xbf])[\x80-\xbf]", top.shown)


# ---- H5: profiles that claim more than they hold ----

PLENTY_KIB = 400 << 10  # of memory, for whoever reads something that holds 20 MiB at most
# Not those by which the file behind a mapping can be opened.
UNPRIVILEGED = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore", "--inh-caps=-all"] if os.geteuid() == 0 else []
HOSTILE = ["opened", "opened used", "opened used far", "used far", "deep", "paths", "slots used"]


@pytest.fixture
def bounded(heapgauge, clean_env, scratch):
    """bounded(*argv, by=()): runs the command, maybe by another, and looks at how much memory it took; status, stdout and stderr."""

    def run_it(*argv, status=(0,), by=()):
        with open(scratch / "said", "w+b") as said, open(scratch / "shown", "w+b") as shown:
            process = subprocess.Popen([*by, heapgauge, *argv], env=clean_env, stdout=shown, stderr=said, stdin=subprocess.DEVNULL)
            limit = threading.Timer(WAIT_SECONDS, process.kill)
            limit.start()
            _, code, usage = os.wait4(process.pid, 0)
            limit.cancel()
            process.returncode = os.waitstatus_to_exitcode(code)
            said.seek(0), shown.seek(0)
            text = shown.read().decode(), said.read().decode()
        assert process.returncode in status, (argv, process.returncode, text)
        assert usage.ru_maxrss < PLENTY_KIB, (argv, usage.ru_maxrss)
        return text

    return run_it


@pytest.mark.parametrize("how", HOSTILE)
def test_a_file_that_claims_40_gib_costs_what_it_holds(how, build, bounded):
    """H5: it took list, report and post-mortem to the OOM killer."""
    with folder_on_tmpfs() as folder:
        path = folder / "heapgauge.hostile.1.1.live"
        subprocess.run([build / "made" / "make_hostile_profile", path, "40", *how.split()], check=True, timeout=WAIT_SECONDS)
        assert path.stat().st_size > 40 << 30 and path.stat().st_blocks * 512 < 32 << 20
        shown, _ = bounded("report", path, "--no-symbols")
        assert ("the profile is damaged" in shown) == ("used" in how or how == "paths"), shown
        for view in ("sites", "tree", "threads", "modules"):
            bounded("report", path, "--view", view, "--no-symbols")
        shown, _ = bounded("post-mortem", folder, "--no-symbols")
        assert "hostile" in shown


@pytest.mark.parametrize("how", HOSTILE)
def test_a_process_that_claims_40_gib_costs_what_it_holds(how, build, bounded):
    """H5: nor is its own memory filled by who reads it."""
    process = subprocess.Popen([build / "made" / "make_hostile_profile", "memory", "40", *how.split()], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        pid = process.stdout.readline().strip()
        shown, _ = bounded("list")
        assert pid in shown
        shown, said = bounded("report", "--pid", pid, "--no-symbols", status=(0, 1), by=UNPRIVILEGED)
        if "opened" in how:
            assert "it claims to hold" in said and "it is damaged" in said
        if os.geteuid() == 0:  # reads the file behind the memory, where holes are holes
            shown, _ = bounded("report", "--pid", pid, "--no-symbols")
            assert ("the profile is damaged" in shown) == ("used" in how or how == "paths"), shown
        held = re.search(r"RssShmem:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
        assert int(held[1]) < 64 << 10
    finally:
        process.communicate("q", timeout=WAIT_SECONDS)


# Writes rubbish over what it is recorded in while it is recorded: over the tables, over how full they are, or over where they are.
SCRIBBLER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "format/live/live.h"
static char maps[1 << 20];
static unsigned long seed;
static unsigned dice(void) { seed = seed * 6364136223846793005 + 1442695040888963407; return seed >> 33; }
int main(int argc, char **argv)
{
	for (int i = 0; i < 3000; i++) { void *volatile p = malloc(i % 700); if (i % 3) free(p); }
	int fd = open("/proc/self/maps", O_RDONLY), at = 0, got;
	while ((got = read(fd, maps + at, sizeof maps - 1 - at)) > 0) at += got;
	char *line = strstr(maps, "heapgauge-profile");
	if (!line) return 9;
	while (line > maps && line[-1] != '\n') line--;
	struct live_header *head = (void *)strtoul(line, NULL, 16), before = *head;
	seed = atoi(argv[1]);
	for (int round = 0; round < 150; round++, usleep(10000))
		for (int i = 0; i < 200; i++) {
			int region = dice() % LIVE_REGIONS;
			unsigned long place = before.opened[region] ? dice() % before.opened[region] & ~7ul : 0;
			if (strstr(argv[2], "tables") && place)
				*(unsigned *)((char *)head + before.region[region].at + place) = dice() & 1 ? dice() : dice() >> 20;
			if (strstr(argv[2], "used")) {
				head->used[region] = dice() & 1 ? (unsigned long)dice() << 10 : before.used[region];
				head->opened[region] = dice() & 1 ? before.region[region].bytes : before.opened[region];
			}
			if (strstr(argv[2], "starts"))
				head->starts = ~0ul - dice() % 2;
			if (strstr(argv[2], "marks"))
				head->used[LIVE_MARKS] = ~0ul;
			if (strstr(argv[2], "places"))
				((unsigned *)head->region)[dice() % (sizeof head->region / 4)] = dice() & 1 ? dice() : ((unsigned *)before.region)[0];
		}
	_exit(0);
}
"""


@pytest.mark.parametrize("what", ["tables", "used", "tables used", "places", "starts", "marks"])
def test_a_target_that_scribbles_on_its_profile_is_recorded_within_bounds(what, scratch, bounded):
    """H5: the collector went past 6 GiB or 40 s."""
    program = compile_c(scratch, "scribbler", SCRIBBLER, f"-I{pathlib.Path(__file__).parents[3] / 'src'}")
    for seed in range(3):
        path = scratch / f"{seed}.hg"
        bounded("record", "-q", "-o", path, "--", program, str(seed), what, status=(0, 1, 125))
        if path.exists():
            bounded("report", path, "--no-symbols", status=(0, 1))

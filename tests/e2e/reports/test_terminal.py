# SPDX-License-Identifier: Apache-2.0
"""The terminal: help that fits, settings, pager, colours, widths; tried on real terminals (ptys)."""

import json
import os
import re
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from terminal import Terminal


@pytest.fixture
def env(clean_env, scratch):
    """Nothing set that changes the output; no settings file but the test's own."""
    home = scratch / "home"
    home.mkdir()
    unwanted = ("LC_", "LANG", "NO_COLOR", "COLUMNS", "LINES", "PAGER", "LESS", "XDG_")
    kept = {k: v for k, v in clean_env.items() if not k.startswith(unwanted)}
    return kept | {"HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}


@pytest.fixture
def run(heapgauge, env, scratch):
    """run(words, env={}): the command without a terminal."""

    def go(*words, more=None, cwd=None):
        return subprocess.run(
            [heapgauge, *words], env=env | (more or {}), cwd=cwd or scratch, capture_output=True, text=True, timeout=WAIT_SECONDS
        )

    return go


@pytest.fixture
def on_terminal(heapgauge, env, scratch):
    """on_terminal(words, env={}, rows=24): the command on a terminal, started."""

    def go(*words, more=None, **size):
        return Terminal([heapgauge, *words], env | (more or {}), scratch, **size)

    return go


@pytest.fixture
def recording(record, target, scratch):
    done = record([target("t_sizes")])
    assert done.returncode == 0, done.stderr
    return done.path


def commands_of(text):
    """{command: group} of `heapgauge --help`."""
    found, group = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][a-z ]+", line):
            group = line
        elif group and (m := re.match(r"  (\S+) {2,}\S", line)):
            found[m[1]] = group
    return found


# ---- help ----


def test_help_fits_one_screen_and_has_groups(run):
    done = run("--help")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert 10 <= len(lines) <= 30
    assert max(map(len, lines)) <= 80
    found = commands_of(done.stdout)
    assert found["record"] == "Record" and found["report"] == "Inspect" and found["help"] == "Help"
    assert run("help").stdout == done.stdout
    bare = run()
    assert bare.returncode == 2 and bare.stdout == done.stdout


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_every_commands_help_stays_within_the_width(run, columns):
    for name in commands_of(run("--help").stdout):
        done = run("help", name, more={"COLUMNS": str(columns)})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"usage: heapgauge {name}")
        assert done.stdout == run(name, "--help", more={"COLUMNS": str(columns)}).stdout
        for line in done.stdout.splitlines():
            # Command lines to copy are not broken, and one word may be longer than its column.
            if not line.startswith(("usage:", "  heapgauge ")) and line.count(" ") > 30:
                assert len(line) <= min(columns, 100), line


def test_options_are_in_groups_with_choices_and_defaults(run):
    text = run("help", "record").stdout
    assert "\nOptions\n" in text and "\nGlobal options\n" in text
    assert re.search(r"--children WHICH +which .*: all, fork, exec or none\s+\(default all\)", text)
    text = " ".join(run("help", "diff").stdout.split())
    assert "which view to show: summary, peak, leaks, temporary, lifetimes, reallocs, sites, functions, types, tree or flame" in text
    assert "the view globals does not compare recordings" in run("diff", "a.hg", "b.hg", "--view", "globals").stderr
    text = run("help", "report").stdout
    assert re.search(r"\nVIEW of --view\n  summary +overview", text)


@pytest.mark.parametrize(
    "words, said",
    [
        (["reprot"], "unknown command 'reprot'; did you mean 'report'?"),
        (["help", "recrod"], "unknown command 'recrod'; did you mean 'record'?"),
        (["./server"], "did you mean 'record ./server'?"),
        (["run.hg"], "did you mean 'report run.hg'?"),
        (["report", "--veiw=sites"], "unknown option --veiw; did you mean --view?"),
        (["report", "--view=stes"], "--view does not take 'stes'; did you mean 'sites'?"),
        (["report", "leaks"], "leaks is a view and not a recording: write --view leaks"),
        (["report", "--format", "jsno"], "--format does not take 'jsno'; did you mean 'json'?"),
        (["record", "--children=forks", "true"], "--children does not take 'forks'; did you mean 'fork'?"),
        (["report", "--color=alwas"], "did you mean 'always'?"),
    ],
)
def test_a_wrong_word_names_the_nearest(run, words, said):
    done = run(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr


def test_report_without_a_file_names_the_newest(run, recording, scratch):
    older = scratch / "older.hg"
    older.write_bytes(recording.read_bytes())
    os.utime(older, (1, 1))
    done = run("report")
    assert done.returncode == 0 and "peak" in done.stdout
    assert done.stderr == f"heapgauge: reading {recording.name}, the newest recording here\n"


# ---- settings ----


def limit_of(run, recording, *words, **more):
    done = run("report", recording, "--view", "sites", "--format", "json", *words, **more)
    assert done.returncode == 0, done.stderr
    return len(json.loads(done.stdout)["sites"])


def test_settings_decide_in_their_order(run, recording, scratch, env):
    user = scratch / "home" / ".config" / "heapgauge"
    user.mkdir(parents=True)
    assert limit_of(run, recording) > 4
    (user / "config.ini").write_text("[report]\nlimit = 4\n")
    assert limit_of(run, recording) == 4
    (scratch / ".heapgauge.ini").write_text("[all]\nlimit = 3\n")
    assert limit_of(run, recording) == 3
    assert limit_of(run, recording, more={"HEAPGAUGE_LIMIT": "2"}) == 2
    assert limit_of(run, recording, "--limit", "1", more={"HEAPGAUGE_LIMIT": "2"}) == 1
    assert limit_of(run, recording, "--no-config", more={"HEAPGAUGE_LIMIT": "2"}) > 4


def test_a_programs_own_options_are_not_ours(run, scratch):
    done = run("record", "echo", "--limit", "--help", more={"HEAPGAUGE_QUIET": "yes", "HEAPGAUGE_OUTPUT": "x.hg"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "--limit --help\n", "")
    assert (scratch / "x.hg").exists()


def test_an_unknown_key_stops_every_command_but_help(run, scratch):
    (scratch / ".heapgauge.ini").write_text("[all]\n# x\ncolr = never\n")
    for words in (["report"], ["record", "true"]):
        done = run(*words)
        assert done.returncode == 2
        assert ".heapgauge.ini:3: no command has an option 'colr'; did you mean 'color'?" in done.stderr
    assert run("--help").returncode == run("help", "report").returncode == run("report", "--help").returncode == 0
    assert run("record", "--no-config", "-q", "true").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_strangers_settings_are_not_read(run, scratch):
    file = scratch / ".heapgauge.ini"
    file.write_text("[record]\nnonsense = 1\n")
    os.chown(file, 65534, 65534)
    done = run("record", "-q", "true")
    assert done.returncode == 0
    assert ".heapgauge.ini is not read: it belongs to another user" in done.stderr


# ---- the pager ----


def pager(scratch, body):
    """A pager that leaves a mark, so that the test knows whether it ran."""
    script = scratch / "pager"
    script.write_text(f"#!/bin/sh\n: >{scratch}/paged\n{body}\n")
    script.chmod(0o755)
    return str(script)


def paged(scratch):
    return (scratch / "paged").exists()


def test_long_output_is_paged_whole(run, on_terminal, recording, scratch):
    command = pager(scratch, f"cat >{scratch}/got")
    words = ["report", recording, "--format", "json"]
    ended = on_terminal(*words, more={"PAGER": command}).end()
    assert ended.returncode == 0 and paged(scratch)
    assert ended.text == ""
    assert (scratch / "got").read_text() == run(*words).stdout


def test_output_that_fits_is_not_paged(on_terminal, recording, scratch):
    command = pager(scratch, "cat >/dev/null")
    ended = on_terminal("report", recording, more={"PAGER": command}, rows=60, columns=200).end()
    assert ended.returncode == 0 and not paged(scratch)
    assert "peak" in ended.text
    lines = ended.text.count("\n")
    # One row is for the prompt: with one row less than that it does not fit.
    on_terminal("report", recording, more={"PAGER": command}, rows=lines + 1, columns=200).end()
    assert not paged(scratch)
    on_terminal("report", recording, more={"PAGER": command}, rows=lines, columns=200).end()
    assert paged(scratch)


def test_without_a_terminal_nothing_is_paged(run, recording, scratch):
    command = pager(scratch, "cat >/dev/null")
    done = run("report", recording, "--format", "json", more={"PAGER": command, "HEAPGAUGE_PAGER": command})
    assert done.stdout.count("\n") > 30 and not paged(scratch)


@pytest.mark.parametrize(
    "words, more",
    [
        (["--no-pager"], {}),
        ([], {"HEAPGAUGE_NO_PAGER": "yes"}),
        ([], {"HEAPGAUGE_PAGER": "cat"}),
        ([], {"HEAPGAUGE_PAGER": ""}),
        ([], {"TERM": "dumb"}),
    ],
)
def test_the_pager_can_be_refused(on_terminal, recording, scratch, words, more):
    command = pager(scratch, "cat >/dev/null")
    ended = on_terminal("report", recording, "--format", "json", *words, more={"PAGER": command} | more).end()
    assert ended.returncode == 0 and not paged(scratch)
    assert json.loads(ended.text)


def test_our_own_variable_goes_before_pager(on_terminal, recording, scratch):
    command = pager(scratch, "cat >/dev/null")
    more = {"PAGER": "cat", "HEAPGAUGE_PAGER": f"{command} --with arguments | cat"}
    assert on_terminal("report", recording, "--format", "json", more=more).end().returncode == 0
    assert paged(scratch)


def test_a_pager_that_is_not_there_is_told_and_done_without(on_terminal, recording):
    ended = on_terminal("report", recording, "--format", "json", more={"PAGER": "no-such-pager"}).end()
    assert ended.returncode == 0
    first, rest = ended.text.split("\n", 1)
    assert "pager 'no-such-pager' not found" in first and json.loads(rest)


def test_less_is_the_pager_and_quitting_it_is_no_failure(on_terminal, recording, env):
    if subprocess.run(["sh", "-c", "command -v less"], capture_output=True).returncode:
        pytest.skip("less is not here")
    terminal = on_terminal("report", recording, "--format", "json", more={"LESSHISTFILE": "-"})
    terminal.read_until(lambda: terminal.shown.endswith((b":\x1b[K", b":")))
    terminal.press(b"q")
    ended = terminal.end()
    assert ended.returncode == 0
    assert 20 <= ended.text.count("\n") <= 26


def test_a_pager_that_ends_early_is_no_failure(on_terminal, recording, scratch):
    """The output is larger than a pipe, so that writing meets its end."""
    command = pager(scratch, "head -n 1")
    words = ["report", recording, "--view", "sites", "--format", "json"]
    ended = on_terminal(*words, more={"PAGER": command}).end()
    assert ended.returncode == 0
    assert ended.text == "{\n"


def test_a_closed_pipe_ends_us_as_it_ends_everybody(heapgauge, env, recording):
    script = f"'{heapgauge}' report '{recording}' --view sites --format json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_a_full_disk_is_a_failure(heapgauge, env, recording):
    with open("/dev/full", "w") as full:
        done = subprocess.run([heapgauge, "report", recording], env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr


def test_ctrl_c_ends_us_when_the_pager_has_ended(on_terminal, recording, scratch):
    """A pager such as less goes on after Ctrl-C; the shell must not get the terminal before it has ended."""
    body = f"trap '' INT; cat >/dev/null; : >{scratch}/waiting; read word </dev/tty; echo $word >{scratch}/said"
    command = pager(scratch, body)
    terminal = on_terminal("report", recording, "--format", "json", more={"PAGER": command})
    terminal.read_until(lambda: (scratch / "waiting").exists())
    terminal.press(b"\x03")
    terminal.read_until(lambda: b"^C" in terminal.shown)
    assert terminal.process.poll() is None
    terminal.press(b"enough\n")
    ended = terminal.end()
    assert ended.returncode == -signal.SIGINT
    assert (scratch / "said").read_text() == "enough\n"


# ---- widths ----


def test_a_report_is_cut_to_the_terminal_and_not_in_a_file(run, on_terminal, record, scratch):
    name = "a_function_" + "x" * 200
    source = f"#include <stdlib.h>\nint {name}(void) {{ return !malloc(99); }}\nint main(void) {{ return {name}(); }}\n"
    path = record([compile_c(scratch, "longish", source, "-g", "-O0")]).path
    words = ["report", path, "--view", "sites"]

    def longest(text):
        return max(len(line) for line in text.splitlines() if "a_function_" in line)

    ended = on_terminal(*words, "--no-pager", columns=90).end()
    assert ended.returncode == 0
    assert 70 <= longest(ended.text) <= 90
    assert longest(run(*words).stdout) > len(name)
    assert longest(run(*words, more={"COLUMNS": "100"}).stdout) <= 100

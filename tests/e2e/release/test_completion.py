# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion are made of the option rows: each shell is really asked, and must offer what help shows."""

import re
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS
from terminal import Terminal

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture(scope="module")
def generated(build):
    folder = build / "generated"
    assert (folder / "stamp").exists(), "the build makes man pages and completion"
    return folder


@pytest.fixture(scope="module")
def words(heapgauge):
    """{command: (options, values)} as `heapgauge help` tells them; values is {option: [word]}."""

    def help_of(*command):
        return subprocess.run([heapgauge, "help", *command], capture_output=True, text=True, check=True).stdout

    found = {}
    for command in re.findall(r"^  (\S+) {2,}", help_of(), re.MULTILINE):
        text = help_of(command)
        options = set(re.findall(r"^  (?:-.,|   ) (--[a-z-]+)", text, re.MULTILINE))
        values = {}
        for option, list_text in re.findall(r"^[A-Z]+ of (--\S+)\n((?:  .*\n)+)", text, re.MULTILINE):
            values[option] = re.findall(r"^  (\S+)(?:  |$)", list_text, re.MULTILINE)
        for block in re.findall(r"^  (?:-.,|   ) --.*(?:\n {20,}.*)*", text, re.MULTILINE):
            option = re.search(r"--[a-z-]+", block)[0]
            sentence = " ".join(block.split())
            if listed := re.search(r": ((?:[\w:-]+, )*[\w:-]+ or [\w:-]+)", sentence):
                values.setdefault(option, re.split(r", | or ", listed[1]))
        found[command] = (options, values)
    assert {"record", "report", "help"} <= set(found)
    assert "--children" in found["record"][1] and "--view" in found["report"][1]
    return found


def ask_bash(generated, line, folder, env):
    """Words as readline would split them: = breaks too."""
    parts = [p for p in re.split(r"(=)|\s+", line) if p]
    if line.endswith(" "):
        parts.append("")
    script = (
        f"source '{generated}/bash/heapgauge'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
        "_heapgauge heapgauge; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *parts], cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [w.rstrip() for w in done.stdout.splitlines() if w]


def ask_fish(generated, line, folder, env):
    script = f"source '{generated}/fish/heapgauge.fish'; complete -C '{line}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [w.split("\t")[0] for w in done.stdout.splitlines()]


# An interactive zsh whose compadd writes down what it would offer.
ZSHRC = """
PS1='ready> '
unsetopt beep
fpath=('{generated}/zsh' $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {{
	if [[ ${{@[1,(i)(-|--)]}} == *-[OAD]* ]]; then
		builtin compadd "$@"
		return
	fi
	local -a hits
	builtin compadd -A hits "$@"
	print -rl -- $hits >>'{out}'
	builtin compadd "$@"
}}
zle -C ask complete-word _asked
_asked() {{
	_main_complete
	compstate[insert]= compstate[list]=
	: >'{out}.done'
}}
bindkey '^I' ask
heapgauge() {{ : }}
"""


class Zsh:
    """One interactive zsh on a terminal; starting one for each question takes too long."""

    def __init__(self, generated, folder, env):
        home = folder / "zsh"
        home.mkdir()
        self.out, self.done = home / "out", home / "out.done"
        (home / ".zshrc").write_text(ZSHRC.format(generated=generated, out=self.out))
        self.terminal = Terminal(["zsh", "-d", "-i"], env | {"ZDOTDIR": str(home), "TERM": "dumb"}, folder)
        self.terminal.read_until(lambda: b"ready> " in self.terminal.shown)

    def ask(self, line):
        self.out.write_text("")
        self.done.unlink(missing_ok=True)
        self.terminal.press(b"\x15" + line.encode() + b"\t")  # ^U
        self.terminal.read_until(self.done.exists)
        return [w for w in self.out.read_text().splitlines() if w]

    def end(self):
        self.terminal.press(b"\x15exit\n")
        self.terminal.end()


@pytest.fixture(params=SHELLS)
def ask(request, generated, scratch, clean_env):
    """ask(line): what the shell offers for the line, with the cursor at its end."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not here")
    env = clean_env | {"HOME": str(scratch), "LC_ALL": "C.UTF-8"}
    if request.param == "zsh":
        zsh = Zsh(generated, scratch, env)
        yield zsh.ask
        zsh.end()
    else:
        function = {"bash": ask_bash, "fish": ask_fish}[request.param]
        yield lambda line: function(generated, line, scratch, env)


def test_what_was_built_is_what_the_command_writes(generated, heapgauge, scratch):
    subprocess.run([heapgauge, "generate", "all", scratch], check=True)
    made = {p.relative_to(scratch): p.read_bytes() for p in scratch.rglob("*") if p.is_file()}
    kept = {p.relative_to(generated): p.read_bytes() for p in generated.rglob("*") if p.is_file()}
    kept.pop(next(p for p in kept if p.name == "stamp"))
    assert made == kept
    for kind, file in [("bash", "bash/heapgauge"), ("zsh", "zsh/_heapgauge"), ("fish", "fish/heapgauge.fish")]:
        said = subprocess.run([heapgauge, "generate", kind], capture_output=True, check=True).stdout
        assert said == (generated / file).read_bytes()


def test_commands_are_offered(ask, words):
    offered = ask("heapgauge ")
    assert set(words) <= set(offered)
    assert "generate" not in offered
    assert [w for w in ask("heapgauge rep") if w == "report"] == ["report"]


def test_every_option_of_every_command_is_offered_and_no_other(ask, words):
    for command, (options, _) in words.items():
        offered = {w.rstrip("=") for w in ask(f"heapgauge {command} --") if w.startswith("--")}
        assert offered - {"--"} == options, command


def test_every_value_that_help_lists_is_offered(ask, words):
    for command, (_, values) in words.items():
        for option, expected in values.items():
            assert set(ask(f"heapgauge {command} {option} ")) == set(expected), (command, option)


def test_every_format_that_help_lists_is_accepted(words, record, heapgauge, clean_env, scratch):
    run = record(["true"]).path
    arguments = {"list": [], "post-mortem": [scratch], "doctor": [], "report": [run, "-o", scratch / "out"], "diff": [run, run],
                 "check": [run, "--max-peak", "1GiB"], "export": [run, "-o", scratch / "out"]}
    assert {command for command, (options, _) in words.items() if "--format" in options} == set(arguments)
    for command, rest in arguments.items():
        for value in words[command][1]["--format"]:
            done = subprocess.run([heapgauge, command, "--format", value, *rest], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
            assert done.returncode == 0 or command == "doctor", (command, value, done.stderr)
            assert done.stdout or command in ("report", "export", "check"), (command, value, done.stderr)


def test_values_behind_an_equals_sign_are_offered(ask):
    offered = [w.removeprefix("--children=") for w in ask("heapgauge record --children=f")]
    assert offered == ["fork"]


def test_recordings_and_commands_are_offered_as_words(ask, scratch, words):
    (scratch / "run one.hg").touch()
    (scratch / "run2.hg").touch()
    offered = [w.replace("\\ ", " ") for w in ask("heapgauge report run")]
    assert set(offered) == {"run one.hg", "run2.hg"}
    assert set(words) <= set(ask("heapgauge help "))


def test_what_a_program_takes_is_not_ours(ask, scratch):
    (scratch / "input-file").touch()
    for line in ("heapgauge record cat inp", "heapgauge record -q -- cat inp", "heapgauge record -o x.hg cat inp"):
        assert ask(line) == ["input-file"], line
    assert "--children" not in ask("heapgauge record cat --ch")


# ---- man pages ----


def test_man_pages_have_every_option_and_no_warning(generated, words):
    for command, (options, values) in words.items():
        page = generated / "man1" / f"heapgauge-{command}.1"
        text = page.read_text()
        assert set(re.findall(r"^(?:\\fB\\-.\\fR, )?\\fB(\\-\\-[a-z\\-]+)\\fR", text, re.MULTILINE)) == {
            option.replace("-", "\\-") for option in options
        }
        for expected in values.values():
            for word in expected:
                assert word.replace("-", "\\-") in text
    pages = sorted((generated / "man1").iterdir())
    assert len(pages) == len(words) + 1
    for page in pages:
        if shutil.which("man"):
            done = subprocess.run(
                ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True
            )
            assert (done.returncode, done.stderr) == (0, ""), page
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), page


def test_man_shows_the_page_as_written(generated, clean_env):
    if not shutil.which("man"):
        pytest.skip("man is not here")
    env = clean_env | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["man", "-P", "cat", "-l", generated / "man1" / "heapgauge-record.1"], env=env, capture_output=True, text=True
    )
    assert "heapgauge record [options] [--] PROGRAM [ARGS]" in done.stdout
    assert re.search(r"^ +-o, --output FILE$", done.stdout, re.MULTILINE)
    assert "leaves the program's input and output alone" in re.sub(r"\s+", " ", done.stdout)


# ---- documents ----


def ours(line):
    """The options of a heapgauge command line, without those of the program it records."""
    words = line.split()[1:]
    while words:
        word = words.pop(0)
        if word.strip("'\"") == "--":
            return
        if word.startswith("--"):
            yield word.split("=")[0].rstrip(",.;:)")
        if word in ("-o", "--output", "--children", "--depth", "--budget"):
            words = words[1:]
        elif line.startswith("record") and not word.startswith(("-", "[")):
            return


def test_documents_mention_only_options_that_exist(words, root_documents):
    seen = 0
    for path, text in root_documents:
        for line in re.findall(r"heapgauge ((?:%s)\b[^\n`#]*)" % "|".join(words), text):
            for option in ours(line):
                assert option in words[line.split()[0]][0], f"{path}: heapgauge {line}"
                seen += 1
    assert seen > 3


@pytest.fixture
def root_documents():
    from conftest import ROOT

    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [(p.relative_to(ROOT), p.read_text()) for p in paths]

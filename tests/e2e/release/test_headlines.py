# SPDX-License-Identifier: Apache-2.0
"""The verdict names a line of the program's own code, for thirty real programs. Only with HEAPGAUGE_LONG=1: they come from registries.

HEAPGAUGE_HEADLINES=FOLDER keeps the builds for the next run. It must not be inside a git repository, which would decide what is
own code.
"""

import dataclasses
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

import pytest

from compiled import WAIT_SECONDS

pytestmark = pytest.mark.skipif(os.environ.get("HEAPGAUGE_LONG") != "1", reason="builds thirty programs; HEAPGAUGE_LONG=1")

# Of these three, the walk of folders runs in threads of a library, on stacks without own code: fd is always missed, the others if the
# timing makes such a stack the largest.
LIBRARY_THREADS = {"ripgrep", "fd", "tokei"}
LEAST = 27
BUILD_SECONDS = 3600
OWNER = re.compile(r"(?P<function>.+) \((?P<file>[^():]+):(?P<line>\d+)\)")
CARGO = {"CARGO_PROFILE_RELEASE_DEBUG": "true", "CARGO_PROFILE_RELEASE_STRIP": "none"}
CONFIGURE = "./configure -q --disable-nls --disable-dependency-tracking MAKEINFO=true"


@dataclasses.dataclass
class Program:
    """How to get a program, how to run it, and which sources are its own code."""

    name: str
    source: str  # apt:PACKAGE, cargo:CRATE@VERSION or pip:PACKAGE==VERSION
    run: str  # in the folder of the sources, or in that of the installation
    own: str  # regex for the path of a source file
    build: str = ""  # by a shell; of apt only
    wrapper: str = "^$"  # regex for functions in these files that allocate for whoever calls them
    env: dict = dataclasses.field(default_factory=dict)
    status: int = 0  # that it exits with


C = [
    Program(
        "gawk",
        "apt:gawk",
        "./gawk '{ n[$1] += $2; s[NR] = $3 } END { print length(n) }' {inputs}/table.txt",
        r"/gawk-[^/]+/[^/]+\.[chy]$",
        f"{CONFIGURE} && make -j2 -C support && make -j2 gawk",
        r"malloc|calloc|realloc|more_blocks",
    ),
    Program(
        "sort",
        "apt:coreutils",
        "src/sort -o /dev/null {inputs}/table.txt",
        r"/coreutils-[^/]+/src/",
        f"FORCE_UNSAFE_CONFIGURE=1 {CONFIGURE} && make -j2",
    ),
    Program(
        "grep",
        "apt:grep",
        "src/grep -E -c '(ab|cd)*e.*[0-9]{2}7' {inputs}/table.txt",
        r"/grep-[^/]+/(src|lib)/",
        f"{CONFIGURE} && make -j2",
        r"alloc",
    ),
    Program(
        "m4",
        "apt:m4",
        "src/m4 {inputs}/macros.m4",
        r"/m4-[^/]+/src/",
        f"{CONFIGURE} && make -j2",
    ),
    Program(
        "lua",
        "apt:lua5.4",
        "src/lua {inputs}/tables.lua",
        r"/lua[^/]*-5[^/]+/src/",
        "make -C src -j2 MYCFLAGS=-g posix",
        r"^(luaM_|l_alloc|luaC_newobj|luaH_realloc)",
    ),
    Program(
        "tclsh",
        "apt:tcl8.6",
        "unix/tclsh {inputs}/lists.tcl",
        r"/tcl[^/]*8\.6[^/]+/(generic|unix)/",
        "cd unix && ./configure -q && make -j2 CFLAGS_OPTIMIZE='-O2 -g' tclsh",
        r"Alloc|GetBlocks",
        {"LD_LIBRARY_PATH": "unix"},
    ),
    Program(
        "diff",
        "apt:diffutils",
        "src/diff {inputs}/table.txt {inputs}/changed.txt",
        r"/diffutils-[^/]+/(src|lib)/",
        f"{CONFIGURE} && make -j2",
        r"alloc",
        status=1,
    ),
    Program(
        "find",
        "apt:findutils",
        "find/find {folder} -name '*.c' -newer {inputs}/table.txt",
        r"/findutils-[^/]+/(find|lib|gl/lib)/",
        f"{CONFIGURE} && make -j2",
        r"x.*alloc|xstrdup",
    ),
    Program(
        "file",
        "apt:file",
        "src/.libs/file -m magic/magic.mgc -f {inputs}/paths.txt",
        r"/file-[^/]+/src/",
        "./configure -q --disable-libseccomp && make -j2",
        env={"LD_LIBRARY_PATH": "src/.libs"},
    ),
    Program(
        "bash",
        "apt:bash",
        "./bash {inputs}/words.sh",
        r"/bash-[^/]+/",
        "./configure -q --without-bash-malloc --disable-nls && make -j2 bash",
        r"malloc|realloc",
    ),
    Program(
        "xmllint",
        "apt:libxml2",
        ".libs/xmllint --noout {inputs}/table.xml",
        r"/libxml2-[^/]+/",
        "./configure -q --without-python --without-lzma && make -j2 xmllint",
        r"Malloc|Realloc|Strdup|StrndupLoc",
        {"LD_LIBRARY_PATH": ".libs"},
    ),
    Program(
        "git",
        "apt:git",
        "./git -C ../repository log -p --all",
        r"/git-[^/]+/",
        "make -j2 CFLAGS='-g -O2' NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_PERL=1 NO_PYTHON=1 NO_TCLTK=1 git && ./git init -q ../repository"
        " && cp *.c ../repository && cd ../repository && G='../git-*/git -c user.name=a -c user.email=a@b' && $G add ."
        " && $G commit -qm 1 && sed -i 1,9d *.c && $G commit -qam 2",
        r"malloc|calloc|realloc|strdup|memdup|^do_x|^mem_pool_",
    ),
]

CXX = [
    Program(
        "ninja",
        "apt:ninja-build",
        "build/ninja -n -f {inputs}/build.ninja",
        r"/ninja-[^/]+/src/",
        "cmake -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF && make -C build -j2 ninja",
    ),
    Program(
        "groff",
        "apt:groff",
        "./troff -M tmac -F font -T utf8 -man {inputs}/page.1",
        r"/groff-[^/]+/src/",
        "./configure -q --with-doc=no && make -j2",
        r"^operator new",
    ),
    Program(
        "gperf",
        "apt:gperf",
        "src/gperf {inputs}/keywords.gperf",
        r"/gperf-[^/]+/",
        "./configure -q && make -j2 -C lib && make -j2 -C src",
    ),
    Program(
        "swig",
        "apt:swig",
        "./swig -python -o {scratch}/wrap.c -outdir {scratch} {inputs}/interface.i",
        r"/swig-[^/]+/Source/",
        "./configure -q --without-pcre --without-alllang && make -j2",
        r"^Doh(Malloc|Calloc|Realloc)",
        {"SWIG_LIB": "Lib"},
    ),
    Program(
        "minisat",
        "apt:minisat2",
        "build/release/bin/minisat -verb=0 {inputs}/formula.cnf",
        r"/minisat2-[^/]+/minisat/(core|simp|utils)/",  # not mtl, its containers
        "make -j2 CXXFLAGS='-g -O2 -I. -D__STDC_LIMIT_MACROS -D__STDC_FORMAT_MACROS -fpermissive' MINISAT_LDFLAGS=-lz r",
        status=10,
    ),
    Program(
        "hunspell",
        "apt:hunspell",
        "src/tools/.libs/hunspell -d {inputs}/words -l {inputs}/text.txt",
        r"/hunspell-[^/]+/src/",
        "./configure -q --disable-nls && make -j2",
        env={"LD_LIBRARY_PATH": "src/hunspell/.libs"},
    ),
    Program(
        "lzip",
        "apt:lzip",
        "./lzip -k -c {inputs}/table.txt",
        r"/lzip-[^/]+/",
        "./configure CXXFLAGS='-g -O2' && make -j2",
    ),
    Program(
        "cppcheck",
        "apt:cppcheck",
        "./cppcheck -q --enable=style {inputs}/program.c",
        r"/cppcheck-[^/]+/(lib|cli)/",
        "make -j2 CXXFLAGS='-g -O2' cppcheck",
    ),
]

RUST = [
    Program("ripgrep", "cargo:ripgrep@15.2.0", "bin/rg -c '[0-9]+7' {stdlib}", r"/ripgrep-15[^/]+/"),
    Program("fd", "cargo:fd-find@10.5.0", "bin/fd py {stdlib}", r"/fd-find-10[^/]+/"),
    Program("tokei", "cargo:tokei@15.0.0", "bin/tokei {stdlib}", r"/tokei-15[^/]+/"),
    Program("grex", "cargo:grex@1.4.6", "bin/grex -f {inputs}/keywords.txt", r"/grex-1[^/]+/"),
    Program("xsv", "cargo:xsv@0.13.0", "bin/xsv sort {inputs}/table.csv", r"/xsv-0[^/]+/"),
]

PYTHON = [
    Program(
        "black",
        "pip:black==26.10.1",
        "bin/black -q --check --workers 1 {stdlib}/typing.py",
        r"/(src|site-packages)/(black|blib2to3)/",
        status=1,
    ),
    Program("pyflakes", "pip:pyflakes==4.1.0", "bin/pyflakes {stdlib}/_pydecimal.py", r"/(pyflakes-4[^/]+|site-packages)/pyflakes/"),
    Program(
        "pygments",
        "pip:pygments==2.21.0",
        "bin/pygmentize -f html -o {scratch}/out.html {stdlib}/_pydecimal.py",
        r"/(pygments-2[^/]+|site-packages)/pygments/",
    ),
    Program("yamllint", "pip:yamllint==1.38.0", "bin/yamllint {inputs}/table.yaml", r"/(yamllint-1[^/]+|site-packages)/yamllint/"),
    Program(
        "docutils",
        "pip:docutils==0.23",
        "bin/docutils {inputs}/page.rst {scratch}/page.html",
        r"/(docutils-0[^/]+|site-packages)/docutils/",
    ),
]

PROGRAMS = C + CXX + RUST + PYTHON

STRIPPED = [
    "/usr/bin/sort -o /dev/null {inputs}/table.txt",
    "/usr/bin/find /usr/share -name table.txt",
    "/usr/bin/dpkg-query -W",
    "/usr/bin/git diff --no-index --stat {inputs}/table.txt {inputs}/changed.txt",
    "/usr/bin/ninja -n -f {inputs}/build.ninja",
]


def shell(command, folder, env=None):
    """Runs a step of a build; its output is kept beside it."""
    log = folder / "heapgauge-build.log"
    with log.open("a") as out:
        out.write(f"$ {command}\n")
        out.flush()
        done = subprocess.run(["nice", "sh", "-c", command], cwd=folder, env=env, stdout=out, stderr=out, timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"{command} failed: {log}"


def apt_options(folder):
    """Options for apt-get that read the sources of the configured repositories, without a change to the system."""
    lists = folder / "apt"
    places = {"Etc::sourcelist": "/dev/null", "Etc::sourceparts": "parts", "State::lists": "lists", "Cache": "cache"}
    options = " ".join(["-qq", *(f"-o Dir::{name}={lists / path}" for name, path in places.items())])
    if not (lists / "done").exists():
        for part in "parts", "lists/partial", "cache/archives/partial":
            (lists / part).mkdir(parents=True, exist_ok=True)
        etc = pathlib.Path("/etc/apt")
        for path in etc / "sources.list", *etc.glob("sources.list.d/*.list"), *etc.glob("sources.list.d/*.sources"):
            if path.exists():
                text = re.sub(r"^deb ", "deb-src ", re.sub(r"^Types: .*", "Types: deb-src", path.read_text(), flags=re.M), flags=re.M)
                (lists / "parts" / path.name).write_text(text)
        shell(f"apt-get {options} update", lists)
        (lists / "done").touch()
    return options


def build_package(program, package, folder, kept):
    """The sources as their authors released them: a distribution's patches would want autoconf."""
    shell(f"apt-get {apt_options(kept)} source --download-only {package} && tar xf $(ls *.orig.tar.* | grep -v asc$)", folder)
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    shell(program.build, source, os.environ | {"CFLAGS": "-g -O2", "CXXFLAGS": "-g -O2"})
    return source


def install_crate(crate, folder, kept, *options):
    env = os.environ | CARGO | {"CARGO_TARGET_DIR": str(kept / "target")}
    shell(shlex.join(["cargo", "install", "-q", "--locked", "-j2", "--root", str(folder), *options, crate]), folder, env)


def build_crate(crate, folder, kept):
    """Its unpacked sources, which the registry's folder has after an installation."""
    install_crate(crate, folder, kept)
    name = crate.replace("@", "-")
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    shutil.copytree(next(home.glob(f"registry/src/*/{name}")), folder / name)
    install_crate(name, folder, kept, "--force", "--path")


def install_python(package, folder):
    name = package.partition("==")[0]
    shell(f"{sys.executable} -m venv {folder} && bin/pip install -q --no-binary {name} {package}", folder)


def build_python(package, folder):
    """Its unpacked sources, and an environment that runs them."""
    shell(f"{sys.executable} -m venv {folder} && bin/pip download -q --no-deps --no-binary :all: -d . {package} && tar xf *.tar.gz", folder)
    shell(f"bin/pip install -q -e ./{package.replace('==', '-')}", folder)


def prepared(program, kept, installed=False):
    """The folder to run it in: built from its unpacked sources, or installed as its users do."""
    folder = kept / (program.name + "-installed" * installed)
    done = folder / "done"
    if done.exists():
        return pathlib.Path(done.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kind, _, what = program.source.partition(":")
    source = folder
    if kind == "apt":
        source = build_package(program, what, folder, kept)
    elif kind == "cargo":
        (install_crate if installed else build_crate)(what, folder, kept)
    else:
        (install_python if installed else build_python)(what, folder)
    done.write_text(str(source))
    return source


def make_inputs(folder):
    """Something to do for each of them."""
    rng = random.Random(1)
    rows = [f"{rng.randrange(20_000):x} {rng.randrange(1000)} {'abcdefghij'[: rng.randrange(1, 10)]}{i}" for i in range(60_000)]
    words = sorted({"".join(rng.choices("etaoinshrdlu", k=rng.randrange(4, 12))) for _ in range(4000)})
    folder.mkdir()

    def write(name, lines):
        (folder / name).write_text("\n".join(lines) + "\n")

    write("table.txt", rows)
    write("changed.txt", [row for i, row in enumerate(rows) if i % 97] + ["at the end"])
    write("table.csv", [row.replace(" ", ",") for row in rows])
    write("table.yaml", ["---"] + [f"- {{a: {i}, b: [{row.replace(' ', ', ')}]}}" for i, row in enumerate(rows[:3000])])
    write("table.xml", ["<table>", *(f"<row n='{i}'><cell>{row}</cell></row>" for i, row in enumerate(rows)), "</table>"])
    write("macros.m4", [f"define(`m{i}', `{row} $1')m{i}(`x')dnl" for i, row in enumerate(rows[:20_000])])
    write("tables.lua", ["local t = {}", "for i = 1, 100000 do t[i] = { name = 'n' .. i, value = { i } } end", "print(#t)"])
    write("lists.tcl", ["for {set i 0} {$i < 50000} {incr i} { dict set d key$i [list $i [string repeat x 20]] }", "puts [dict size $d]"])
    write("words.sh", ["declare -A n", "for i in {1..20000}; do n[key$i]=\"value of $i\"; done", "echo ${#n[@]}"])
    write("paths.txt", map(str, sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))))
    objects = (f"build o/{i}.o: cc s/{i}.c | h/{i % 99}.h\nbuild s/{i}.c: cc" for i in range(20_000))
    write("build.ninja", ["rule cc", "  command = cc -c $in -o $out", *objects, *(f"build h/{i}.h: cc" for i in range(99))])
    write("page.1", [".TH PAGE 1", ".SH TEXT", *(f".TP\n.B {row}\nmeans \\fI{row}\\fP and more of it." for row in rows[:4000])])
    write("page.rst", ["Page", "====", "", *(f"* *{row}* means ``{row}`` and more\n" for row in rows[:1500])])
    write("keywords.txt", words[:60])
    write("keywords.gperf", words[:400])
    structs = (f"struct S{i} {{ int a; double b; }}; int f{i}(struct S{i} *s, int n);" for i in range(1500))
    write("interface.i", ["%module table", "%inline %{", *structs, "%}"])
    literals = [str(rng.choice((-1, 1)) * rng.randrange(1, 20_001)) for _ in range(180_000)]
    write("formula.cnf", ["p cnf 20000 60000", *(" ".join(literals[at : at + 3]) + " 0" for at in range(0, len(literals), 3))])
    write("words.dic", [str(len(words)), *(f"{word}/S" for word in words)])
    write("words.aff", ["SET UTF-8", "TRY esianrtolcdu", "SFX S Y 1", "SFX S 0 s ."])
    write("text.txt", (" ".join(rng.choices(words, k=12)) for _ in range(500)))
    body = "{ int s = 0; for (int k = 0; k < n; k++) { if (p[k] > 7) s += p[k]; } return s; }"
    write("program.c", (f"int f{i}(int *p, int n) {body}" for i in range(1500)))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of the builds."""
    folder = pathlib.Path(os.environ.get("HEAPGAUGE_HEADLINES") or tmp_path_factory.mktemp("headlines")).resolve()
    assert not any((above / ".git").exists() for above in (folder, *folder.parents)), f"{folder} is inside a git repository"
    folder.mkdir(exist_ok=True)
    if not (folder / "inputs").exists():
        make_inputs(folder / "inputs")
    return folder


def owners_of(verdict, summary):
    """The owners that the sentence names: those of what was not freed, of what grows and of the peak."""
    names = [summary["verdict"][key] for key in ("not_freed_owner", "growing_owner", "peak_owner")]
    return [name for name in dict.fromkeys(names) if name and name in verdict]


def sources_of(owner, frames):
    """The files that an owner such as "parse (main.c:12) via xmalloc" may mean. Those of own code, if heapgauge knows any."""
    found = OWNER.match(owner)
    same = [f for f in frames if found and f["file"] and pathlib.Path(f["file"]).name == found["file"] and f["line"] == int(found["line"])]
    return {os.path.normpath(f["file"]) for f in [f for f in same if f["own"]] or same}


def is_own(program, owner, frames):
    files = sources_of(owner, frames)
    if not files or re.search(program.wrapper, OWNER.match(owner)["function"]):
        return False
    return all(re.search(program.own, file) for file in files)


def words_of(program, folder, kept, scratch):
    places = {"inputs": kept / "inputs", "folder": folder, "scratch": scratch, "stdlib": sysconfig.get_paths()["stdlib"]}
    return [re.sub(r"\{(\w+)\}", lambda found: str(places.get(found[1], found[0])), word) for word in shlex.split(program.run)]


def verdict_of(summary):
    return next(line.split(maxsplit=1)[1] for line in summary.splitlines() if line.startswith("  verdict "))


def headline(program, folder, words, record, report, report_json):
    """Whether every owner that its verdict names is its own code, and the verdict."""
    run = record(words, cwd=folder, env=program.env)
    assert run.returncode == program.status, run.stderr
    verdict = verdict_of(report(run.path))
    owners = owners_of(verdict, report_json(run.path, "summary", "--names", "short"))
    frames = [frame for site in report_json(run.path, "sites")["sites"] for frame in site["stack"]]
    return bool(owners) and all(is_own(program, owner, frames) for owner in owners), verdict


@pytest.fixture
def report(heapgauge, clean_env):
    """report(path): the summary as text."""

    def run(path):
        done = subprocess.run([heapgauge, "report", path], env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
        return done.stdout

    return run


@pytest.fixture
def misses(kept, record, report, report_json, scratch):
    """misses(programs): the names of those whose verdict names something else; prints every verdict."""

    def find(programs, installed=False):
        found = []
        for program in programs:
            try:
                folder = prepared(program, kept, installed)
                own, said = headline(program, folder, words_of(program, folder, kept, scratch), record, report, report_json)
            except (AssertionError, subprocess.SubprocessError, OSError) as error:
                own, said = False, str(error)
            print("own " if own else "MISS", program.name, "|", said)
            found += [] if own else [program.name]
        return found

    return find


def test_the_verdict_names_own_code(misses):
    found = misses(PROGRAMS)
    assert len(PROGRAMS) == 30 and len(PROGRAMS) - len(found) >= LEAST, found


def test_the_verdict_of_installed_programs(misses):
    """Their sources are among those of other installed packages."""
    assert set(misses(RUST + PYTHON, installed=True)) <= LIBRARY_THREADS


@pytest.mark.parametrize("command", STRIPPED)
def test_a_stripped_program_says_what_brings_its_names(command, kept, record, report):
    """As Debian ships it, without debug symbols: the verdict names the package that has them."""
    words = command.format(inputs=kept / "inputs").split()
    listed = subprocess.run(["dpkg", "-S", words[0]], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip(f"{words[0]} is not of a Debian package")
    package = listed.stdout.partition(":")[0]
    run = record(words)
    verdict = verdict_of(report(run.path))
    print(verdict)
    assert f"Names in {pathlib.Path(words[0]).name} are missing: install {package}-dbgsym" in verdict

# SPDX-License-Identifier: Apache-2.0
"""Ordinary programs: no memory of theirs is said to be hidden, whatever their libraries hold. C1, C2, C5, C7 must not cry wolf.

A few of them, or with HEAPGAUGE_LONG=1 all. Those that are not installed are left out.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"

C_SOURCE = "".join(f"int f{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; i++) s += i * {i}; return s; }}\n" for i in range(4000 if LONG else 300))
CXX_SOURCE = (
    "#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n"
    "int main() { std::map<std::string, std::vector<std::function<int(int)>>> m; std::regex r(\"a+\"); return (int)m.size(); }\n"
)

# Each is a shell command that begins with the program; @ is the folder of what they read.
PROGRAMS = {
    "sort": "sort @/text",
    "awk": "awk '{ n[$0] = NR } END { print length(n) }' @/text",
    "perl": "perl -e 'open F, \"@/text\"; while (<F>) { $h{$_}++ } print scalar keys %h'",
    "jq": "jq 'map(.a) | add' @/json",
    "sqlite3": "sqlite3 :memory: 'create table t(a, b); with recursive c(i) as (select 1 union all select i+1 from c where i<400000) "
    "insert into t select i, hex(i) from c; create index x on t(b); select count(*) from t;'",
    "xz": "xz -6 -c @/text",
    "zstd": "zstd -19 -q -c @/text",
    "bzip2": "bzip2 -c @/text",
    "gzip": "gzip -c @/text",
    "tar": "tar cf - @",
    "gcc": "gcc -O2 -c @/a.c -o @/a.o",
    "g++": "g++ -O1 -c @/a.cc -o @/a2.o",
    "clang": "clang -O2 -c @/a.c -o @/a3.o",
    "gdb": "gdb -nx -batch -ex 'info functions main' /usr/bin/gdb",
    "git": "git hash-object @/text @/json",
    "git diff": "git diff --no-index --stat @/text @/text2",
    "diff": "diff @/text @/text2",
    "grep": "grep -c 'a.*7' @/text",
    "sed": "sed -n -e 'H;$!d;x;s/a/b/gp' @/text",
    "find": "find /usr/share -name '*.py'",
    "objdump": "objdump -d /usr/bin/git",
    "readelf": "readelf -aW /usr/bin/git",
    "nm": "nm -D /usr/bin/git",
    "strings": "strings -n 8 /usr/bin/git",
    "ld": "ld -r @/o1.o -o @/o2.o",
    "openssl": "openssl dgst -sha256 @/text",
    "sha256sum": "sha256sum @/text",
    "curl": "curl -s file://@/text -o @/copy",
    "cmake": "cmake -E tar czf @/x.tgz @/text @/json",
    "make": "make -f @/makefile",
    "tclsh": "tclsh @/a.tcl",
    "bc": "bc -q @/a.bc",
    "bash": "bash -c 'for i in {1..100000}; do a[i]=$i; done; echo ${#a[@]}'",
    "vim": "vim.basic -Nu NONE -es -c '%s/a/b/g' -c 'qa!' @/text",
    "groff": "groff -man -Tascii @/a.1",
    "dpkg": "dpkg -l",
    "apt-cache": "apt-cache dumpavail",
    "python bytes": "python3 -c 'x = [bytearray(100000) for _ in range(300)]; import time; time.sleep(0.3)'",
    "node version": "node --version",
    "file": "file -k /usr/bin/git",
}
FEW = ("sort", "awk", "sqlite3", "gcc", "gdb", "python bytes")


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """What the programs read."""
    folder = tmp_path_factory.mktemp("material")
    lines = [f"line {i} a{i * 7919 % 1000003} {'x' * (i % 40)}\n" for i in range(200_000)]
    (folder / "text").write_text("".join(lines))
    (folder / "text2").write_text("".join(line for i, line in enumerate(lines) if i % 1000))
    (folder / "json").write_text("[" + ",".join(f'{{"a": {i}, "b": "{i}"}}' for i in range(100_000)) + "]")
    (folder / "a.c").write_text(C_SOURCE)
    (folder / "a.cc").write_text(CXX_SOURCE)
    (folder / "makefile").write_text("all: " + " ".join(f"t{i}" for i in range(5000)) + "\nt%:\n\t@:\n")
    (folder / "a.tcl").write_text("for {set i 0} {$i < 300000} {incr i} { set a($i) x$i }\nputs [array size a]\n")
    (folder / "a.bc").write_text("scale=3000\n4*a(1)\nquit\n")
    (folder / "a.1").write_text('.TH A 1\n.SH NAME\n' + "".join(f".PP\nparagraph {i} of words\n" for i in range(5000)))
    subprocess.run(["gcc", "-g", "-c", folder / "a.c", "-o", folder / "o1.o"], check=True, timeout=WAIT_SECONDS)
    return folder


@pytest.mark.parametrize("name", PROGRAMS if LONG else FEW)
def test_an_ordinary_program_hides_nothing(name, material, record, report_json, clean_env):
    command = PROGRAMS[name].replace("@", str(material))
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not here")
    home = {"HOME": str(material)}
    done = record(["/bin/sh", "-c", f"exec {command} > /dev/null"], "--wait", "all", env=home, timeout=WAIT_SECONDS)
    assert pathlib.Path(done.path).exists(), done.stderr
    assert "unexplained_memory" not in report_json(done.path)["warnings"], report_json(done.path, "health")["health"]

# SPDX-License-Identifier: Apache-2.0
"""Real programs do the same with and without the recorder: stdout, stderr, exit status, files."""

import hashlib
import os
import random as seeded
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, 'row ' || (i * 7919 % 3001), i / 3.0 from n;
create index by_b on t(b);
select count(*), sum(a), round(avg(c), 3), min(b), max(b) from t;
select b from t where b like 'row 1%' order by b limit 5;
delete from t where a % 3 = 0;
select count(*) from t;
select nothing from nowhere;
"""
PYTHON = """
import json, sys
data = {str(i): [i, i / 7, {"k": "v" * (i % 50)}] for i in range(3000)}
text = json.dumps(data, sort_keys=True)
assert json.loads(text) == data
print(len(text), hash(tuple(sorted(data))) and "same")
print("to stderr", file=sys.stderr)
sys.exit(7)
"""
PERL = 'my %h; $h{$_ % 997} .= "x$_" for 1..50000; print join(",", map { length $h{$_} } sort keys %h), "\\n"; exit 5'
C_SOURCE = """
#include <stdio.h>
#include <string.h>
int twice(int x) { return x * 2; }
int main(void) { printf("%d %zu\\n", twice(21), strlen("abc")); return 0; }
"""
CXX_SOURCE = """
#include <map>
#include <string>
int main() { std::map<std::string, int> m; m["a"] = 1; return m.size() == 1 ? 0 : 1; }
"""

# name -> (argv, environment, stdin)
PROGRAMS = {
    "ls": (["ls", "-lR", "/usr/share/doc/bash", "/usr/lib/x86_64-linux-gnu", "/nowhere"], {}, ""),
    "sqlite": (["sqlite3", ":memory:"], {}, SQL),
    "python": (["python3", "-c", PYTHON], {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}, ""),
    "python-threads": (
        [
            "python3",
            "-c",
            "import threading\nr=[]\n"
            "t=[threading.Thread(target=lambda i=i: r.append(sum(range(i*1000)))) for i in range(40)]\n"
            "[x.start() for x in t]; [x.join() for x in t]; print(sorted(r))",
        ],
        {"PYTHONMALLOC": "malloc"},
        "",
    ),
    "python-subprocess": (
        ["python3", "-c", "import subprocess; print(subprocess.run(['sh', '-c', 'echo child; exit 4']))"],
        {},
        "",
    ),
    "sort": (["sort", "-r", "--parallel=2", "-S", "1M"], {}, "\n".join(str(i * 7919 % 100003) for i in range(60000))),
    "perl": (["perl", "-e", PERL], {"PERL_HASH_SEED": "0"}, ""),
    "tar": (["tar", "-C", "/usr/share/doc", "--sort=name", "-czf", "out.tar.gz", "bash"], {}, ""),
    "gcc": (["gcc", "-O2", "-g", "-c", "small.c", "-o", "small.o"], {}, ""),
    "g++": (["g++", "-O1", "-c", "small.cc", "-o", "small.o"], {}, ""),
    "gcc-error": (["gcc", "-c", "broken.c"], {}, ""),
    "gcc-link": (["gcc", "small.c", "-o", "small"], {}, ""),
    "shell": (["sh", "-c", "for i in 1 2 3; do echo $i | sed s/1/one/; done; kill -9 $$"], {}, ""),
    "grep": (["grep", "-rc", "the", "/usr/share/doc/bash", "/usr/share/common-licenses"], {}, ""),
    "find": (["find", "/usr/share/doc/bash", "/etc/init.d", "-type", "f"], {}, ""),
    "awk": (["awk", "BEGIN { for (i = 0; i < 20000; i++) a[i % 701] = a[i % 701] i; print length(a[5]) }"], {}, ""),
    "env": (["env", "-i", "sh", "-c", "env | sort"], {}, ""),
}


def files_in(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_the_same(name, record, report_json, clean_env, scratch):
    argv, env, text = PROGRAMS[name]
    # The same folder name twice, because programs write it into what they make.
    folder, seen = scratch / "work", []
    stdin = scratch / "stdin"
    stdin.write_text(text)
    for recorded in (False, True):
        folder.mkdir()
        (folder / "small.c").write_text(C_SOURCE)
        (folder / "small.cc").write_text(CXX_SOURCE)
        (folder / "broken.c").write_text("int main(void) { return missing; }\n")
        with stdin.open() as source:
            if recorded:
                run = record(argv, env=env, cwd=folder, stdin=source)
            else:
                run = subprocess.run(
                    argv,
                    env=clean_env | env,
                    cwd=folder,
                    stdin=source,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=WAIT_SECONDS,
                    check=False,
                )
        seen.append((run.returncode, run.stdout, run.stderr, files_in(folder)))
        folder.rename(scratch / f"work-{recorded}")
    bare, under = seen
    assert under[0] == bare[0], under[2]
    assert under[1] == bare[1]
    assert under[2] == bare[2]
    assert under[3] == bare[3]
    if bare[0] != -9:
        process = report_json(run.path)["processes"][0]
        assert process["calls"] > 0


# Which blocks have mappings of their own, and what becomes of them.
HEAP_SOURCE = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	void *volatile kept[30];
	for (size_t i = 0; i < 30; i++) {
		kept[i] = malloc(10000 * (i + 1));
		printf("%zu ", malloc_usable_size(kept[i]));
	}
	struct mallinfo m = mallinfo();
	printf("mapped %d of %d, heap %d, ", m.hblks, m.hblkhd, m.arena);
	for (size_t i = 0; i < 30; i++)
		free(kept[i]);
	m = mallinfo();
	printf("then %d of %d, heap %d\\n", m.hblks, m.hblkhd, m.arena);
	return 0;
}
"""


@pytest.mark.parametrize("way", ["exact", "sampled", "dormant", "preloaded", "timed"])
def test_glibc_takes_blocks_from_where_it_does(way, record, scratch, clean_env, build):
    """By size from the heap or as mappings of their own, and what it gives back: that changes with what is freed."""
    program = compile_c(scratch, "heap", HEAP_SOURCE)
    alone = subprocess.run([program], env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    if way == "preloaded":
        env = clean_env | {"LD_PRELOAD": str(build / "libheapgauge.so"), "HEAPGAUGE_MODE": "dormant"}
        under = subprocess.run([program], env=env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    else:
        options = {"exact": [], "sampled": ["--mode", "sample"], "dormant": ["--start", "dormant"], "timed": ["--time-calls=1"]}
        under = record([program], *options[way])
    assert "mapped 17 of" in alone.stdout
    assert under.stdout == alone.stdout


def test_the_recorder_takes_little_of_a_threads_stack(target, record, clean_env):
    """A thread of PTHREAD_STACK_MIN or a handler on a small alternate stack has hardly more to spare."""
    program, env = target("stack_depth"), {"LD_BIND_NOW": "1"}
    alone = subprocess.run([program], env=clean_env | env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    run = record([program], env=env)
    assert run.returncode == 0, run.stderr
    more = {}
    pairs = run.stdout.splitlines(), alone.stdout.splitlines()
    assert len(pairs[0]) == len(pairs[1])
    for with_us, without in zip(*pairs):
        (name, deeper), (same, deep) = with_us.split(), without.split()
        assert name == same
        more[name] = int(deeper) - int(deep)
    assert set(more) == {"nothing", "blocks", "mappings", "programs", "child", "children", "handlers"}
    assert max(more.values()) <= 1536, more
    assert more["blocks"] > 100, "the stack was not measured"


def spoil(data, offset, bytes_, seed):
    """Changes some of data[offset:offset + bytes_], in one of four ways."""
    random = seeded.Random(seed)
    places = range(offset, offset + bytes_)
    way = seed % 4
    if way == 0:
        for at in random.choices(places, k=random.randrange(1, 40)):
            data[at] = random.randrange(256)
    elif way == 1:
        for at in places[12:]:
            data[at] = random.randrange(256)
    elif way == 2:
        fill = random.choice((0, 255))
        for at in places[random.randrange(12, bytes_) :]:
            data[at] = fill
    else:
        at = places[random.randrange(12, bytes_ - 4) & ~3]
        data[at : at + 4] = random.choice((b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xf0\xff\xff\xff", b"\0\0\0\x10"))


@pytest.mark.parametrize("section", [".eh_frame", ".eh_frame_hdr"])
def test_a_program_with_broken_unwind_tables_runs(section, target, record, scratch):
    """A C program never reads them itself: that they are broken may be seen in its stacks and nowhere else."""
    good = target("t_peak_exact")
    headers = subprocess.run(["readelf", "-SW", good], capture_output=True, text=True, check=True).stdout
    offset, bytes_ = re.search(rf"\] {re.escape(section)} +\w+ +\w+ (\w+) (\w+)", headers).groups()
    for seed in range(400 if os.environ.get("HEAPGAUGE_LONG") == "1" else 20):
        data = bytearray(good.read_bytes())
        spoil(data, int(offset, 16), int(bytes_, 16), seed)
        program = scratch / f"spoiled{seed}"
        program.write_bytes(data)
        program.chmod(0o755)
        run = record([program])
        assert (run.returncode, run.stderr) == (0, ""), f"seed {seed}"
        program.unlink()

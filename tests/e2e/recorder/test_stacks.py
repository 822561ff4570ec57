# SPDX-License-Identifier: Apache-2.0
"""Every stack of real programs is the one that libunwind sees: the recorder's verifying build asks it at each allocation.

The short form; HEAPGAUGE_LONG=1 compares more than five million."""

import os
import pathlib
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS

BENCH = pathlib.Path(__file__).resolve().parents[4] / "shared" / "bench"
LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
ROWS = 2_000_000 if LONG else 40_000
SQL = f"""
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
insert into t select i, 'row ' || (i * 7919 % 30011), i / 3.0 from n;
create index by_b on t(b);
create index by_c on t(c);
select count(*), sum(x.a) from t x join (select * from t limit 1000) y on x.b = y.b;
delete from t where a % 3 = 0;
select sum(length(hex(randomblob(a % 50)))) from t; -- what the others allocate depends on the version
"""


def output_of(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout.strip()


def command(name, scratch):
    if name == "sqlite":
        script = scratch / "rows.sql"
        script.write_text(SQL)
        return ["/usr/bin/sqlite3", ":memory:", f".read {script}"]
    if name == "python":
        return ["/usr/bin/python3", BENCH / "documents.py", "25" if LONG else "3"]
    multiarch = output_of("gcc", "-print-multiarch")
    options = ["-quiet", "-fsyntax-only", "-O1", "-std=c++17", "-D_GNU_SOURCE", "-imultiarch", multiarch]
    return [output_of("g++", "-print-prog-name=cc1plus"), *options, BENCH / "templates.cpp", "-o", "/dev/null"]


@pytest.mark.parametrize("name, at_least", [("sqlite", 50_000), ("python", 500_000), ("cc1plus", 300_000)])
@pytest.mark.parametrize("glibc", ["this", "before 2.35"])
def test_real_program_has_the_stacks_that_libunwind_sees(name, at_least, glibc, build, record, scratch):
    """Also where objects have to be found in the loader's list, as in older versions of glibc."""
    if glibc != "this" and name == "python" and not LONG:
        pytest.skip("long form only: sqlite and cc1plus do the same")
    verifier = build / "libheapgauge-verify.so"
    if not verifier.exists():
        pytest.fail(f"{verifier} is not built")
    log = scratch / "verify.log"
    env = {
        "HEAPGAUGE_RECORDER": str(verifier),
        "HEAPGAUGE_VERIFY_LOG": str(log),
        "PYTHONMALLOC": "malloc",
    } | ({} if glibc == "this" else {"HEAPGAUGE_VERIFY_OLD": "1"})
    run = record(command(name, scratch), env=env, timeout=600)
    assert run.returncode == 0, run.stderr
    counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", log.read_text().split("VERIFY ")[-1])}
    assert counts["checked"] >= at_least
    assert counts["wrong"] == 0, log.read_text()[:1200]
    assert counts["same"] + counts["cut"] == counts["checked"]


@pytest.mark.parametrize("name", ["sqlite", "python", "cc1plus"])
def test_real_program_is_recorded_in_good_health(name, record, report_json, scratch):
    run = record(command(name, scratch), env={"PYTHONMALLOC": "malloc"}, timeout=600)
    assert run.returncode == 0, run.stderr
    process = report_json(run.path)["processes"][0]
    assert process["calls"] >= 50_000
    assert set(process["health"]) <= {"stacks_cut"}

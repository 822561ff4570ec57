#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs heap profilers side by side on the workloads beside this file and prints what each adds to the bare program.

    bench/bench.py                                          heapgauge of build/release, and heaptrack if it is installed
    bench/bench.py --base OLD_BUILD --workload churn,shell  beside an older build
    bench/bench.py --tool sampled='build/release/heapgauge record -q --mode sample -o {out}/run.hg --' --tool jemalloc-sampled

A tool is a built-in name (see TOOLS; it must be installed) or NAME='command prefix', in which {out} is a scratch folder.
Runs are interleaved with bare ones (bare, tool, bare, tool ...) and minima of as many of each are compared, because the machine may be busy:
trust the CPU column before the wall column, `pairs` before both, and no ratio below 1.05 from one run.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

# name -> (argv, environment, allocation calls; None = timed inside, by pair)
def workloads(work):
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True).stdout.strip()
    multiarch = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    return {
        "pairs-flat": ([work / "pairs", "flat"], {}, None),
        "pairs-sticky": ([work / "pairs", "sticky"], {}, None),
        "pairs-random": ([work / "pairs", "random"], {}, None),
        "churn": ([work / "churn", "1"], {}, 5_000_000),
        "churn-threads": ([work / "churn", "4"], {}, 5_000_000),
        "live": ([work / "live"], {}, 2_000_000),
        "deep": ([work / "deep"], {}, 1_398_000),
        "sqlite": (["/usr/bin/sqlite3", ":memory:", f".read {work}/rows.sql"], {}, 7_600_000),
        "cc1plus": ([cc1plus, "-quiet", "-fsyntax-only", "-O1", "-std=c++17", "-D_GNU_SOURCE", "-imultiarch", multiarch,
                     HERE / "templates.cpp", "-o", "/dev/null"], {}, 500_000),
        "python": (["/usr/bin/python3", HERE / "documents.py", "25"], {"PYTHONMALLOC": "malloc"}, 4_360_000),
        "shell": (["bash", "-c", "for i in $(seq 300); do /bin/true; done"], {}, 300),
        "forks": (["bash", "-c", "for i in $(seq 2000); do (:); done"], {}, 2_000),
        "make": (["make", "-s", "-j2", "-B", "-C", work / "tree"], {}, 300),
    }


PER_PROCESS = {"shell", "forks", "make"}


TOOLS = {
    "bare": ([], {}),
    "heaptrack": (["heaptrack", "-o", "{out}/heaptrack"], {}),
    "jemalloc-sampled": ([], {"LD_PRELOAD": "libjemalloc.so.2",
                              "MALLOC_CONF": "prof:true,prof_final:true,lg_prof_sample:19,prof_prefix:{out}/je"}),
    "massif": (["valgrind", "--tool=massif", "--massif-out-file={out}/massif"], {}),
    "dhat": (["valgrind", "--tool=dhat", "--dhat-out-file={out}/dhat"], {}),
    # Only for the workload python: it runs a script.
    "memray": (["sh", "-c", 'exec "$1" -m memray run -q -f -o {out}/memray "$2" "$3"', "memray"], {}),
    "memray-native": (["sh", "-c", 'exec "$1" -m memray run --native -q -f -o {out}/memray "$2" "$3"', "memray"], {}),
}


def build(work):
    work.mkdir(parents=True, exist_ok=True)
    for name in ("churn", "live", "deep", "pairs"):
        source, binary = HERE / f"{name}.c", work / name
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["gcc", "-O2", "-g", "-pthread", source, "-o", binary], check=True)
    rows = work / "rows.sql"
    if not rows.exists():
        write_rows(rows)
    if not (work / "tree").exists():
        write_tree(work / "tree")


def write_tree(folder, files=300):
    """Small C files, as a build has: a compiler, an assembler and a driver for each."""
    folder.mkdir()
    for i in range(files):
        body = "\n".join(f"int f{i}_{j}(struct s *p) {{ return p->n * {j} + printf(\"%d\", p->m[{j}]); }}" for j in range(20))
        (folder / f"f{i}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstruct s {{ int n, m[20]; }};\n{body}\n")
    objects = " ".join(f"f{i}.o" for i in range(files))
    (folder / "Makefile").write_text(f"all: {objects}\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n")


def write_rows(path, n=300_000):
    seed = 12345
    with open(path, "w") as sql:
        sql.write("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, cat INT, val REAL, note TEXT);\nBEGIN;\n")
        for i in range(n):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            r = seed >> 33
            sql.write(f"INSERT INTO t VALUES({i},'name{r % 999983}',{r % 400},{r % 1000003 / 1e6:.6f},'{'x' * (5 + r % 60)}');\n")
        sql.write(
            "COMMIT;\nCREATE INDEX by_name ON t(name);\nCREATE INDEX by_cat ON t(cat,val);\n"
            "SELECT cat,count(*),sum(val) FROM t GROUP BY cat ORDER BY 3 LIMIT 3;\n"
            "SELECT count(DISTINCT name) FROM t;\n"
            "SELECT a.id,b.id FROM t a JOIN t b ON a.name=b.name AND a.id<b.id ORDER BY a.val LIMIT 5;\n"
            "DELETE FROM t WHERE cat<100;\nSELECT count(*) FROM t;\n")


def run(argv, env, prefix, tool_env, timeout):
    out = Path(tempfile.mkdtemp(prefix="bench-out-"))
    full = [a.format(out=out) for a in prefix] + [str(a) for a in argv]
    environment = {**os.environ, **env, **{k: v.format(out=out) for k, v in tool_env.items()}}
    log = open(out / "log", "w+")
    start = time.monotonic()
    child = subprocess.Popen(full, cwd=out, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    limit = start + timeout
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > limit:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
            break
        time.sleep(0.002)
    child.returncode = status
    wall = time.monotonic() - start
    log.seek(0)
    text = log.read()
    found = re.search(r"NS_PER_PAIR ([\d.]+)", text)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file() and f.name != "log")
    if status:
        print(f"  exit status {status}: {' '.join(full)}\n  {text[-600:]}", file=sys.stderr)
    shutil.rmtree(out, ignore_errors=True)
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024, "size": size,
            "pair": float(found[1]) if found else None, "ok": status == 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", action="append", default=[], help="built-in name or NAME='command prefix'")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release", help="of heapgauge, if no tool is named")
    parser.add_argument("--base", type=Path, help="an older build beside it")
    parser.add_argument(
        "--workload",
        default="pairs-sticky,pairs-random,churn,churn-threads,live,deep,sqlite,cc1plus,python,shell,forks,make",
    )
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=180)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "heapgauge-bench")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    build(args.work)
    tools = {}
    if not args.tool:
        builds = {"base": args.base, "heapgauge": args.build}
        args.tool = [f"{name}={build}/heapgauge record -q -o {{out}}/run.hg --" for name, build in builds.items() if build]
        args.tool += ["heaptrack"] if shutil.which("heaptrack") else []
    for spec in args.tool:
        name, _, prefix = spec.partition("=")
        command = shlex.split(prefix)
        if command and "/" in command[0]:
            command[0] = os.path.abspath(command[0])  # workloads run in a scratch folder
        tools[name] = (command, {}) if command else TOOLS[name]
    known, rows = workloads(args.work), []
    print(f"{'workload':14} {'tool':20} {'wall':>7} {'cpu':>7} {'+ns/call':>10} {'rss MB':>8} {'out MB':>7}")
    for workload in args.workload.split(","):
        argv, env, calls = known[workload]
        runs, alone = ({name: [] for name in tools} for _ in range(2))  # each tool's own bare runs: the least of more would be luckier
        for _ in range(args.reps * (5 if workload.startswith("pairs") else 1)):  # short runs: more of them
            for name, (prefix, tool_env) in tools.items():
                alone[name].append(run(argv, env, [], {}, args.timeout))
                runs[name].append(run(argv, env, prefix, tool_env, args.timeout))
        for name in tools:
            bare = {key: min((r[key] for r in alone[name] if r[key] is not None), default=None) for key in ("wall", "cpu", "rss", "pair")}
            good = [r for r in runs[name] if r["ok"]]
            if not good:
                rows.append({"workload": workload, "tool": name, "failed": True})
                print(f"{workload:14} {name:20}  failed")
                continue
            wall, cpu = min(r["wall"] for r in good), min(r["cpu"] for r in good)
            if bare["pair"] is not None:
                added = min(r["pair"] for r in good) - bare["pair"]
            else:
                added = (cpu - bare["cpu"]) / calls * 1e9
            row = {"workload": workload, "tool": name, "wall_ratio": wall / bare["wall"], "cpu_ratio": cpu / bare["cpu"],
                   "added_ns_per_pair": added, "rss_mb": max(r["rss"] for r in good), "bare_rss_mb": bare["rss"],
                   "output_mb": max(r["size"] for r in good) / 1e6, "runs": len(good), "failed_runs": len(runs[name]) - len(good)}
            rows.append(row)
            print(f"{workload:14} {name:20} {row['wall_ratio']:7.2f} {row['cpu_ratio']:7.2f} {added:10.1f} "
                  f"{row['rss_mb']:8.1f} {row['output_mb']:7.2f}{'   per process' if workload in PER_PROCESS else ''}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""docs/coming-from.md: every command line of ours in it is run, and nothing of the five tools whose users are to find
themselves here is missing."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

import recorder
from compiled import WAIT_SECONDS, wait_for
from serving import Server

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "coming-from.md").read_text()
COMMANDS = sorted(set(m.replace("\\|", "|") for m in re.findall(r"`(heapgauge [a-z][^`]*)`", PAGE) if "..." not in m))
COMMANDS.remove("heapgauge record")  # the name alone, in a sentence
SECTIONS = {s.split("\n", 1)[0]: s for s in re.split(r"^## ", PAGE, flags=re.M)[1:]}
# Names of somebody's own program: a filter that matches nothing may be an error.
OWN_NAMES = re.compile(r"--(focus|ignore|module|not-module|thread|site|process)\b")

# What each of them has, from its own documentation.
THEIRS = {
    "MALT": """malt malt-python malt-webview --config --mpi --prep-mpi --stack --quiet --verbose --trace --dumpconfig --gdb
        --gdb-bt --wrap --wrap-prefix --option --profile --version --help default oom sampling sampling-10M sampling-20M
        python-default python-no-stack python-only python-domains python-mix python-sampling python-sampling-10M
        python-sampling-20M python-full MALT_CONFIG MALT_OPTIONS MALT_STACK MALT_NODEJS MALT_WRAPPER_LOG MALT_WRAPPER_SHOW
        time:points time:linear stack:mode stack:resolve stack:libunwind stack:skip sampling:volume sampling:count
        addr2line:bucket addr2line:threads addr2line:huge output:name output:indent output:json output:lua output:callgrind
        output:config output:verbosity output:stack-tree output:loop-suppress max-stack:enabled distr:alloc-size
        distr:realloc-jump trace:enabled info:hidden filter:exe filter:childs filter:enabled filter:ranks dump:on-signal
        dump:after-seconds dump:on-sys-full-at dump:on-app-using-rss dump:on-app-using-virt dump:on-app-using-req
        dump:on-thread-stack-using dump:on-alloc-count dump:watch-dog python:instru python:mix python:stack python:obj
        python:mem python:raw python:hide-imports python:mode c:malloc c:mmap tools:nm tools:nm-max-size malt_enable
        malt_disable malt_init_status stacks sites timeline scatter threads memStats globals leaks domains countZeros
        maxAliveReq aliveReq globalPeak reallocCount reallocSumDelta sizeMap reallocJump globalVariables systemTimeline
        memoryBandwidth sizeOverTime lifetimeOverSize --no-auth --port --host --override --regen-token --static
        --static-summary --embed-profile /summary.json /flat.json /stacks.json /source-file /file-infos.json
        /call-stack-next-level.json /timed.json /stacks-mem.json /stack.json /size-map.json /scatter.json /realloc-map.json
        /global-variables.json /calltree --histo --frag --frag-details --mem --print --stats --filter""",
    "memtrail": """record report dump help --debug --profile --include-function --exclude-function --include-module
        --exclude-module --threshold --show-snapshots --show-snapshot-deltas --show-cumulative-snapshot-delta --show-maximum
        --show-leaks --output-graphs memtrail_snapshot memtrail.data memtrail.maximum.json memtrail.leaked.json
        memtrail.snapshot-N.json memtrail.snapshot-N-delta.json memtrail.cum-snapshot-delta.json UNWIND_SRC pvalloc cfree
        reallocarray strdup strndup asprintf vasprintf""",
    "malloc-tag": """MallocTagEngine::init write_stats collect_stats get_stat_key_prefix_for_thread get_limit
        set_snapshot_interval write_snapshot_if_needed get_linux_vmsize_in_bytes get_linux_vmrss_in_bytes malloc_info
        MallocTagScope MTAG_OUTPUT_FORMAT_JSON MTAG_OUTPUT_FORMAT_GRAPHVIZ_DOT MTAG_OUTPUT_FORMAT_HUMANFRIENDLY_TREE
        MTAG_OUTPUT_FORMAT_ALL MTAG_STATS_OUTPUT_JSON MTAG_STATS_OUTPUT_GRAPHVIZ_DOT MTAG_SNAPSHOT_INTERVAL_SEC
        MTAG_SNAPSHOT_OUTPUT_PREFIX_FILE_PATH PID tmStartProfiling tmCurrentSnapshot tree_for_TIDn TID ThreadName nTreeLevels
        nTreeNodesInUse nMaxTreeNodes nPushNodeFailures nFreeTrackingFailed nVmSizeAtCreation nBytesTotalAllocated
        nBytesTotalFreed nBytesSelfAllocated nBytesSelfFreed nTimesEnteredAndExited nWeightPercentage nCallsTo_malloc
        nestedScopes nBytesAllocBeforeInit nBytesMallocTagSelfUsage vmSizeNowBytes vmRSSNowBytes nTotalNetTrackedBytes
        mtag-json2dot mtag-postprocess""",
    "MallocProfiler": """mallocProfiler.so mallocProfilerOFF.so mallocProfiler.o dummyMallocProfiler.so tracingThread.so
        statOnlyThread.so mallocGuard.so compile toFlameGraph loaded active enabled enable disable activate deactivate clear
        setThreshold getThreshold setVerbose summary memTotHistogram memLiveHistogram noFinalDump noZeroLiveDump dump
        dumpDetails setDumpingInterval setRemangler getDefaultRemangler getCurrentRemangler allThreads currentThread
        identifyArgument argumentRemover removeTemplate removeSignature _mpTrace_ SmallAllocations LargeAllocations
        memstat_PID.mdr memdump_PID_N.mdr ncalls memtot memlive""",
    "malloc_freq": """ProfAllocator Profile merge fmt_with_threshold libmalloc_freq.so mf_print --threshold callstacks
        symbols""",
}


@pytest.fixture(scope="module")
def place(heapgauge, target, tmp_path_factory):
    """A folder with everything that the page speaks of, and a process that is being recorded."""
    folder = tmp_path_factory.mktemp("coming")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEAPGAUGE_", "LD_"))}
    env["PATH"] = f"{heapgauge.parent}:{env['PATH']}"
    shutil.copy(target("exported"), folder / "program")
    (folder / "script.py").write_text("print(len([0] * 1000))\n")
    (folder / "budgets.ini").write_text("[program]\nmax-peak = 64MiB\n")
    (folder / "leaks.supp").write_text("leak:libfoo\n")
    (folder / "symbols").mkdir()
    subprocess.run(["heapgauge", "record", "-q", "-o", "run.hg", "./program", "child"], cwd=folder, env=env, check=True)
    for name in ("old", "new", "a", "b", "rank0", "rank1"):
        shutil.copy(folder / "run.hg", folder / f"{name}.hg")
    running = subprocess.Popen(["heapgauge", "record", "-q", "-o", "sleep.hg", "sleep", "600"], cwd=folder, env=env)
    children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")

    def recorded():
        for pid in children.read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                return pid
        return None

    pid = wait_for(recorded, "the process to be recorded")
    ready = ["heapgauge", "report", "--pid", pid]
    wait_for(lambda: subprocess.run(ready, env=env, capture_output=True).returncode == 0, "its profile")
    yield folder, env, pid
    subprocess.run(["kill", pid], check=True)
    running.wait(timeout=WAIT_SECONDS)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_runs(place, line):
    folder, env, pid = place
    line = re.sub(r"\bPID\b", pid, line)
    if line.startswith("heapgauge view"):
        server = Server("heapgauge", *shlex.split(line)[2:], "--no-open", env=env, cwd=folder)
        assert server.get("/").status == 200
        assert server.end()[0] == 0
        return
    typed = "run\n" if "gdb" in line else ""
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=env, input=typed, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert "Run 'heapgauge help" not in done.stderr, done.stderr
    allowed = (0, 1) if OWN_NAMES.search(line) or line.startswith("heapgauge check") else (0,)
    assert done.returncode in allowed, done.stderr


def test_the_commands_that_preload_by_hand_keep_and_read_the_profile(place, build):
    folder, env, _ = place
    (commands,) = re.findall(r"^```sh\n(.*?)^```", SECTIONS["Preloading by hand"], re.M | re.S)
    (folder / "heapgauge.pc").write_text(f"Name: heapgauge\nDescription: heapgauge\nVersion: 1\nrecorder={recorder.library(build)}\n")
    script = f"set -e\ntrap 'rm -r \"$HEAPGAUGE_DIR\"' EXIT\n{commands}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env | {"PKG_CONFIG_PATH": str(folder)}, capture_output=True, text=True,
                          timeout=WAIT_SECONDS, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("./program (pid ") and "\n  not freed " in done.stdout


def test_the_page_has_command_lines():
    assert len(COMMANDS) > 100
    assert {"record", "report", "export", "diff", "check", "merge"} <= {line.split()[1] for line in COMMANDS}


@pytest.mark.parametrize("tool", THEIRS)
def test_nothing_of_theirs_is_missing(tool):
    # The left cells: ours, and the words between the tables, do not count.
    left = "\n".join(re.split(r"(?<!\\)\|", row)[1] for row in re.findall(r"^\|.*\|$", SECTIONS[tool], re.M))
    missing = [name for name in THEIRS[tool].split() if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", left)]
    assert not missing


def test_every_row_has_an_answer():
    for row in re.findall(r"^\|.*\|$", PAGE, re.M):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 2 and all(cells), row

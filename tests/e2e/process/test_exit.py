# SPDX-License-Identifier: Apache-2.0
"""However a program ends, heapgauge ends the same way, and the recording says how."""

import os
import pathlib
import signal
import subprocess
import time

import pytest

from compiled import WAIT_SECONDS



@pytest.mark.parametrize("how", ["return", "exit", "_exit", "quick_exit"])
@pytest.mark.parametrize("code", [0, 1, 42, 125, 255])
def test_exit_code_is_the_targets(how, code, target, record, report_json):
    run = record([target("ends"), how, str(code)])
    assert run.returncode == code
    assert run.stdout == f"ending by {how} {code}\n"
    process = report_json(run.path)["processes"][0]
    assert (process["end"], process["exit_code"]) == ("exit", code)
    assert (process["not_freed_bytes"], process["not_freed_blocks"]) == (4321, 1)
    assert process["calls"] == 1001


@pytest.mark.parametrize(
    "arguments, number",
    [
        (["abort"], signal.SIGABRT),
        (["segv"], signal.SIGSEGV),
        (["raise", str(int(signal.SIGTERM))], signal.SIGTERM),
        (["raise", str(int(signal.SIGINT))], signal.SIGINT),
        (["raise", str(int(signal.SIGHUP))], signal.SIGHUP),
        (["raise", str(int(signal.SIGPIPE))], signal.SIGPIPE),
        (["raise", str(int(signal.SIGUSR1))], signal.SIGUSR1),
        (["raise", str(int(signal.SIGFPE))], signal.SIGFPE),
        (["raise", str(int(signal.SIGALRM))], signal.SIGALRM),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_heapgauge_dies_by_the_targets_signal(arguments, number, target, record, report_json, scratch):
    run = record([target("ends"), *arguments])
    assert run.returncode == -number
    process = report_json(run.path)["processes"][0]
    assert process["end"] == "signal"
    assert (process["not_freed_bytes"], process["not_freed_blocks"]) == (4321, 1)
    assert not list(scratch.glob("core*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_signal_to_the_whole_group_ends_both_and_leaves_a_recording(
    number, heapgauge, target, clean_env, scratch, report_json
):
    """What a terminal does at ^C: everybody in the foreground gets it."""
    path = scratch / "group.hg"
    with subprocess.Popen(
        [heapgauge, "record", "-q", "-o", path, "--", target("ends"), "wait"],
        env=clean_env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=os.setpgrp,
    ) as collector:
        assert collector.stdout.readline() == b"ending by wait 0\n"
        time.sleep(0.1)
        os.killpg(collector.pid, number)
        assert collector.wait(WAIT_SECONDS) == -number, collector.stderr.read()
    process = report_json(path)["processes"][0]
    assert process["end"] == "signal"
    assert process["calls"] == 1001


def test_signal_to_heapgauge_alone_reaches_the_target(heapgauge, target, clean_env, scratch, report_json):
    """A supervisor knows only the pid that it started."""
    path = scratch / "alone.hg"
    with subprocess.Popen(
        [heapgauge, "record", "-q", "-o", path, "--", target("ends"), "wait"],
        env=clean_env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as collector:
        assert collector.stdout.readline() == b"ending by wait 0\n"
        collector.terminate()
        try:
            assert collector.wait(WAIT_SECONDS) == -signal.SIGTERM
        finally:
            collector.kill()
    assert report_json(path)["processes"][0]["end"] == "signal"


def test_static_program_is_nothing_recorded_with_the_reason(record, scratch):
    source, program = scratch / "static.c", scratch / "static"
    source.write_text("#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); return 3; }\n")
    subprocess.run(["gcc", "-static", source, "-o", program], check=True, timeout=WAIT_SECONDS)
    run = record([program])
    assert run.returncode == 125
    assert "static" in run.stderr
    assert "static" in run.stderr and str(program.name) in run.stderr


def test_program_that_does_not_exist_is_an_error_with_its_name(record):
    run = record(["/nowhere/at/all"])
    assert run.returncode not in (0, 1) and run.returncode > 0
    assert "/nowhere/at/all" in run.stderr
    assert not run.path.exists()


def test_program_that_never_allocates_is_no_failure_of_the_recorder(record, report_json, scratch):
    """Nothing was allocated is not the same as nothing was recorded: the recorder did start."""
    source, program = scratch / "quiet.c", scratch / "quiet"
    source.write_text("int main(void) { return 6; }\n")
    subprocess.run(["gcc", source, "-o", program], check=True, timeout=WAIT_SECONDS)
    run = record([program])
    assert run.returncode == 6, run.stderr
    assert report_json(run.path)["processes"][0]["calls"] == 0


def test_default_name_of_a_recording(heapgauge, target, clean_env, scratch):
    done = subprocess.run(
        [heapgauge, "record", "-q", "--", target("ends")], env=clean_env, cwd=scratch, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0
    names = [pathlib.PurePath(p).name for p in scratch.glob("*.hg")]
    assert len(names) == 1
    assert names[0].startswith("heapgauge.ends.") and names[0].split(".")[2].isdigit()


def test_exec_in_the_same_process_is_a_profile_of_its_own(record, report_json, scratch):
    source, program = scratch / "again.c", scratch / "again"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "int main(int argc, char **argv) { int n = argc > 1 ? atoi(argv[1]) : 3; char next[20];\n"
        "for (int i = 0; i < n * 100; i++) { void *volatile p = malloc((size_t)i); if (i % 2) free(p); }\n"
        'snprintf(next, sizeof next, "%d", n - 1);\n'
        "if (n > 1) execl(argv[0], argv[0], next, NULL);\nreturn 5; }\n"
    )
    subprocess.run(["gcc", "-g", "-O1", source, "-o", program], check=True, timeout=WAIT_SECONDS)
    run = record([program])
    assert run.returncode == 5, run.stderr
    processes = report_json(run.path)["processes"]
    assert sorted(p["calls"] for p in processes) == [100, 200, 300]
    assert len({p["pid"] for p in processes}) == 1
    assert [p["exit_code"] for p in processes if p["calls"] == 100] == [5]


@pytest.mark.skipif(
    pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith("|"), reason="core files go to a program here"
)
def test_core_file_of_the_target_does_not_hold_our_memory(record, scratch):
    """Sparse mappings have filled disks before."""
    source, program = scratch / "dumps.c", scratch / "dumps"
    source.write_text(
        "#include <stdlib.h>\nint main(void) {\n"
        "for (int i = 0; i < 100000; i++) { void *volatile p = malloc(i % 500); if (i % 9) free(p); }\nabort(); }\n"
    )
    subprocess.run(["gcc", "-O1", source, "-o", program], check=True, timeout=WAIT_SECONDS)
    sizes = []
    for folder, recorded in ((scratch / "bare", False), (scratch / "recorded", True)):
        folder.mkdir()
        argv = ["sh", "-c", f"ulimit -c unlimited 2>/dev/null || exit 77; exec {program}"]
        if recorded:
            assert record(argv, cwd=folder).returncode == -signal.SIGABRT
        else:
            status = subprocess.run(argv, cwd=folder, timeout=WAIT_SECONDS, check=False).returncode
            if status == 77:
                pytest.skip("core files are forbidden here")
        cores = list(folder.glob("core*"))
        if not cores:
            pytest.skip("no core file here")
        assert len(cores) == 1, "one of the target, none of heapgauge"
        sizes.append(cores[0].stat().st_blocks * 512)
    assert sizes[1] < sizes[0] + (2 << 20)

# SPDX-License-Identifier: Apache-2.0
"""HEAPGAUGE_DISABLE=1 switches everything off."""

import json
import subprocess

import pytest

from alone import files, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c

OFF = {"HEAPGAUGE_DISABLE": "1"}
# Allocates, prints how many mappings it has of a profile, and does the same in a child and in a program that it becomes.
LOOKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void look(const char *who)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int count = 0;
	while (fgets(line, sizeof line, maps))
		count += strstr(line, "heapgauge-profile") || strstr(line, ".live");
	fclose(maps);
	printf("%s %s\n", who, count > 0 ? "recorded" : "alone");
	fflush(stdout);
}
int main(int argc, char **argv)
{
	look(argv[1]);
	if (strcmp(argv[1], "program") == 0) return 7;
	if (fork() == 0) { look("child"); _exit(0); }
	wait(NULL);
	execl(argv[0], argv[0], "program", NULL);
	return 1;
}
"""
ALL = "first {0}\nchild {0}\nprogram {0}\n"


@pytest.fixture
def looks(scratch):
    return compile_c(scratch, "looks", LOOKS)


def run(argv, env):
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("value, state", [("1", "alone"), ("yes", "alone"), ("0", "recorded"), ("", "recorded")])
def test_a_preloaded_recorder_does_nothing(value, state, looks, build, clean_env):
    with folder_on_tmpfs() as folder:
        env = preloaded(build, clean_env, folder, HEAPGAUGE_KEEP="1", HEAPGAUGE_DISABLE=value)
        assert run([looks, "first"], env) == (7, ALL.format(state), "")
        assert (files(folder) == []) == (state == "alone")


def test_a_recorder_that_is_linked_in_does_nothing(build, clean_env, scratch):
    archive = ["-Wl,--whole-archive", build / "libheapgauge.a", "-Wl,--no-whole-archive"]
    looks = compile_c(scratch, "looks", LOOKS, *archive)
    with folder_on_tmpfs() as folder:
        env = clean_env | {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"}
        assert run([looks, "first"], env)[:2] == (7, ALL.format("recorded"))
    with folder_on_tmpfs() as folder:
        env = clean_env | OFF | {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1"}
        assert run([looks, "first"], env) == (7, ALL.format("alone"), "")
        assert files(folder) == []


def test_record_runs_the_program_by_itself_and_says_so(looks, record):
    done = record([looks, "first"], env=OFF)
    assert (done.returncode, done.stdout) == (7, ALL.format("alone"))
    assert done.stderr == (
        f"heapgauge: nothing is recorded, because HEAPGAUGE_DISABLE is set: {looks} runs without the recorder. Unset it to record.\n"
    )
    assert not done.path.exists()


def test_a_program_that_a_recorded_one_starts_with_it_is_left_alone(looks, record, report_json):
    done = record(["sh", "-c", f"{looks} program; HEAPGAUGE_DISABLE=1 {looks} first; {looks} program"])
    assert done.stdout == "program recorded\n" + ALL.format("alone") + "program recorded\n", done.stderr
    summary = report_json(done.path)
    assert summary["warnings"] == {}
    assert sum(process["command"].startswith(str(looks)) for process in summary["processes"]) == 2


def test_doctor_says_so(heapgauge, clean_env):
    status, out, _ = run([heapgauge, "doctor", "--format", "json"], clean_env | OFF)
    checks = {check["check"]: check for check in json.loads(out)["machine"]}
    assert status == 1 and checks["switch"]["verdict"] == "no" and checks["switch"]["remedy"] == "unset HEAPGAUGE_DISABLE"
    assert "trial" not in checks

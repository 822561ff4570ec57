# SPDX-License-Identifier: Apache-2.0
"""heapgauge post-mortem: what a killed process held, against which limit, and whose memory it was."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from alone import files, folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c, wait_for
from running import compile_keeper, keeping

PRESSURE = "some avg10=20.50 avg60=10.00 avg300=1.00 total=5\nfull avg10=10.25 avg60=5.00 avg300=1.00 total=5\n"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for control groups and mounts")
MIB = 1 << 20

# Takes 2 MiB, rests, then takes blocks of 100,000 bytes until it is killed, or as many as its argument says and kills itself.
GREEDY = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) char *settle(void) { char *p = malloc(2 << 20); memset(p, 1, 2 << 20); return p; }
__attribute__((noinline)) char *hoard(void) { char *p = malloc(100000); memset(p, 1, 100000); return p; }
char *volatile kept;
int main(int argc, char **argv)
{
	long most = argc > 1 ? atol(argv[1]) : 1L << 40;
	alarm(900);
	kept = settle();
	usleep(1200000);
	for (long taken = 0; taken < most; taken++) {
		kept = hoard();
		char line[32];
		write(1, line, (size_t)sprintf(line, "%ld\n", (taken + 1) * 100000));
	}
	raise(SIGKILL);
}
"""


@pytest.fixture
def folder():
    with folder_on_tmpfs() as path:
        yield path


@pytest.fixture
def greedy(scratch):
    return compile_c(scratch, "greedy", GREEDY)


@pytest.fixture
def mortem(heapgauge, clean_env):
    def run(folder, *options, status=0, before=()):
        done = subprocess.run(
            [*before, heapgauge, "post-mortem", folder, *options],
            env=clean_env | {"TZ": "UTC"}, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


@pytest.fixture
def memory_cgroup():
    """A memory cgroup (v1) of 48 MiB for this test alone; where version 2 is mounted beside it, one of the same name there."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    group = root / f"heapgauge-mortem-{os.getpid()}"
    twin = pathlib.Path("/sys/fs/cgroup/unified") / group.name
    if not (root / "memory.limit_in_bytes").exists():
        pytest.skip("no memory cgroup (v1) is mounted here")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(48 * MIB))
    except OSError as reason:
        pytest.skip(f"cannot make a memory cgroup here: {reason}")
    if twin.parent.is_dir():
        twin.mkdir()
    yield group
    wait_for(lambda: not (group / "tasks").read_text(), "the cgroup to be empty")
    group.rmdir()
    if twin.exists():
        twin.rmdir()


@as_root
def test_the_oom_killer(memory_cgroup, greedy, build, clean_env, folder, mortem):
    """The real one: version 1 of control groups, and what the kernel's log says."""
    enter = ["sh", "-c", f"echo $$ > {memory_cgroup}/tasks; exec env LD_PRELOAD=$RECORDER {greedy}"]
    env = preloaded(build, clean_env, folder)
    env["RECORDER"] = env.pop("LD_PRELOAD")  # in the greedy one alone
    run = subprocess.run(enter, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert run.returncode == -9
    acknowledged = int(run.stdout.split()[-1])
    assert acknowledged > 20_000_000
    (row,) = json.loads(mortem(folder, "--format", "json"))["processes"]
    assert row["live_bytes"] >= acknowledged + (2 << 20) and row["peak_bytes"] == row["live_bytes"] < 48 * MIB
    assert row["cgroup_limit_bytes"] == 48 * MIB and row["cgroup"].endswith(memory_cgroup.name)
    assert row["recorder_bytes"] <= 48 * MIB // 10
    assert re.match(r"hoard \(greedy\.c:\d+\)", row["top_site"])
    assert row["top_site_bytes"] % 100_000 == 0 and acknowledged <= row["top_site_bytes"] <= acknowledged + 100_000
    assert row["live_bytes"] * 3 // 4 <= row["young_bytes"] <= row["top_site_bytes"], "what it took since it rested"
    assert row["young_within_ns"] <= 1_100_000_000
    assert row["cgroup_oom_kills"] == 1
    if pathlib.Path("/proc/pressure/memory").exists():
        twin = pathlib.Path("/sys/fs/cgroup/unified") / memory_cgroup.name
        assert row["pressure_of"] == ("cgroup" if twin.exists() else "machine")
        assert row["pressure_within_ns"] == 10_000_000_000 >= row["pressure_some_ns"] >= row["pressure_full_ns"]
    assert row["cause"] == ("oom" if os.access("/dev/kmsg", os.R_OK) else "oom_in_group")
    text = mortem(folder)
    if row["cause"] == "oom":
        assert re.search(r"greedy +was killed by the OOM killer at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, cgroup limit 48\.0 MiB", text)
    assert re.search(r"live +[\d.]+ MiB in \d+ blocks, \d+\.\d % of the limit +9\d\.\d % of it from hoard \(greedy\.c:", text)
    assert f"group     the OOM killer has killed 1 process in {row['cgroup']} since it began" in text
    assert re.search(r"grew +[\d.]+ MiB of it was taken in the last [\d.]+ m?s", text)
    assert f"heapgauge report {folder}/heapgauge.greedy" in text


@as_root
@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log cannot be read here")
def test_a_process_killed_after_the_oom_killer_struck_its_sibling(memory_cgroup, greedy, build, clean_env, folder, mortem, scratch):
    """Both died by SIGKILL, and the count of their control group rose once: the log names one of them, and without it nothing does."""
    env = preloaded(build, clean_env, folder)
    recorder = env.pop("LD_PRELOAD")
    enter = f"echo $$ > {memory_cgroup}/tasks; exec env LD_PRELOAD={recorder}"
    with keeping(["sh", "-c", f"{enter} {compile_keeper(scratch)}"], env) as sibling:
        victim = subprocess.run(["sh", "-c", f"{enter} {greedy}"], env=env, capture_output=True, timeout=WAIT_SECONDS)
        assert victim.returncode == -9
        sibling.kill()
        sibling.wait(WAIT_SECONDS)

    def causes(before=()):
        rows = json.loads(mortem(folder, "--format", "json", before=before))["processes"]
        return {pathlib.Path(row["command"].split()[0]).name: row["cause"] for row in rows}

    assert causes() == {"greedy": "oom", "keeper": "unknown"}
    hide = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/kmsg && exec "$@"', "-"]
    assert causes(hide) == {"greedy": "oom_in_group", "keeper": "oom_in_group"}
    assert mortem(folder, before=hide).count("was killed or crashed, maybe by the OOM killer") == 2


@as_root
def test_version_2_of_control_groups(greedy, build, clean_env, folder, mortem, scratch):
    """Files as a kernel with version 2 has them, in place of /sys/fs/cgroup."""
    fixture = scratch / "cgroup"
    group = pathlib.Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    (fixture / group).mkdir(parents=True, exist_ok=True)
    (fixture / "unified").symlink_to(".")  # where the kernel says that version 2 is, if version 1 is beside it
    (fixture / group / "memory.pressure").write_text(PRESSURE)
    for place, limit in ((fixture, "max"), (fixture / group, str(64 * MIB))):
        (place / "memory.max").write_text(f"{limit}\n")
        (place / "memory.current").write_text(f"{8 * MIB}\n")
        (place / "memory.events.local").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\noom_group_kill 0\n")
    hide = f"mount --bind {fixture} /sys/fs/cgroup && mount --bind /dev/null /dev/kmsg"
    inside = ["unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "-"]
    run = subprocess.run(
        [*inside, "env", f"LD_PRELOAD={build}/libheapgauge.so", greedy, "100"],
        env=clean_env | {"HEAPGAUGE_DIR": str(folder)}, capture_output=True, timeout=WAIT_SECONDS,
    )
    assert run.returncode in (-9, 137)
    (row,) = json.loads(mortem(folder, "--format", "json"))["processes"]
    assert (row["cgroup_limit_bytes"], row["cause"]) == (64 * MIB, "unknown")
    assert row["live_bytes"] == 100 * 100_000 + (2 << 20)
    assert row["recorder_bytes"] <= 64 * MIB // 10
    # Seen from where the group still is: the average over the time that reaches back to its end.
    (fixture / group / "memory.events.local").write_text("low 0\nhigh 0\nmax 0\noom 1\noom_kill 5\noom_group_kill 0\n")
    (row,) = json.loads(mortem(folder, "--format", "json", before=inside))["processes"]
    assert (row["cgroup_oom_kills"], row["cause"]) == (2, "oom_in_group")
    assert row["pressure_of"] == "cgroup" and row["pressure_within_ns"] in (10_000_000_000, 60_000_000_000)
    assert row["pressure_some_ns"] == (2_050_000_000 if row["pressure_within_ns"] == 10_000_000_000 else 6_000_000_000)
    text = mortem(folder, before=inside)
    assert re.search(r"pressure +tasks of its control group waited (20\.5 % of the last 10\.0 s|10\.0 % of the last 60\.0 s) for memory, "
                     r"all of them at once (10\.3|5\.0) %", text), text
    assert re.search(r"group +the OOM killer has killed 2 processes in (/\S+|its control group) since it began", text)
    assert "was killed or crashed, last seen at" in mortem(folder) and "cgroup limit 64.0 MiB" in mortem(folder)


def test_a_process_that_just_crashed(greedy, build, clean_env, folder, mortem):
    subprocess.run([greedy, "50"], env=preloaded(build, clean_env, folder), capture_output=True, timeout=WAIT_SECONDS)
    (row,) = json.loads(mortem(folder, "--format", "json"))["processes"]
    assert row["live_bytes"] == 50 * 100_000 + (2 << 20) and row["live_blocks"] == 51
    assert row["command"] == f"{greedy} 50" and row["host"] == os.uname().nodename
    assert abs(row["ended_real_ns"] - pathlib.Path(row["file"]).stat().st_ctime_ns) < 60_000_000_000
    text = mortem(folder, "--bytes")
    assert "7,097,152 B in 51 blocks" in text and "70.5 % of it from hoard" in text


def test_those_who_run_are_not_among_them_and_removing_leaves_them(build, greedy, scratch, clean_env, folder, mortem):
    env = preloaded(build, clean_env, folder)
    with keeping([compile_keeper(scratch)], env):
        subprocess.run([greedy, "1"], env=env, capture_output=True, timeout=WAIT_SECONDS)
        assert len(files(folder)) == 2
        found = json.loads(mortem(folder, "--format", "json"))
        assert (len(found["processes"]), found["running_processes"]) == (1, 1)
        text = mortem(folder, "--remove")
        assert "heapgauge.greedy." in text and "1 process has a profile there and runs" in text
        (left,) = files(folder)
        assert left.startswith("heapgauge.keeper.")
        assert "no process in" in mortem(folder)
    assert files(folder) == []


def test_removing_takes_only_what_was_reported(ender_folder, heapgauge, clean_env):
    """H4: neither what cannot be read nor what --limit left out, and both are named."""
    folder, count = ender_folder
    unreadable = sorted(folder.iterdir())[0]
    os.truncate(unreadable, 5000)
    argv = [heapgauge, "post-mortem", folder, "--no-symbols", "--remove"]
    done = subprocess.run([*argv, "--limit", "1"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    (reported,) = re.findall(r"^ *next +heapgauge report (\S+)", done.stdout, re.M)
    kept = dict(re.findall(r"^heapgauge: kept (\S+): (.*)$", done.stderr, re.M))
    assert set(kept) == {str(path) for path in folder.iterdir()} and len(kept) == count - 1
    assert reported not in kept and kept.pop(str(unreadable)) == "it cannot be read"
    assert set(kept.values()) == {"it is not among those shown (--limit)"}
    # Programs are given all that can be read.
    subprocess.run([*argv, "--format", "json"], env=clean_env, capture_output=True, timeout=WAIT_SECONDS, check=True)
    assert files(folder) == [unreadable.name]


HIDDEN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
	alarm(900);
	free(malloc(100));
	prctl(PR_SET_DUMPABLE, 0);
	puts("ready");
	fflush(stdout);
	getchar();
}
"""


@as_root
def test_removing_leaves_the_profile_of_a_process_that_hides_itself(build, clean_env, folder, heapgauge):
    """H4: a process that is not dumpable cannot be found in /proc by its own user."""
    nobody = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups"]
    folder.chmod(0o777)
    program = compile_c(folder, "hidden", HIDDEN)
    env = preloaded(build, clean_env, folder)
    preload = f"LD_PRELOAD={env.pop('LD_PRELOAD')}"
    hidden = subprocess.Popen([*nobody, "env", preload, program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert hidden.stdout.readline() == "ready\n"
        (profile,) = folder.glob("heapgauge.*.live")
        done = subprocess.run(
            [*nobody, heapgauge, "post-mortem", folder, "--remove"],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
        )
        assert f"kept {profile}: its process runs" in done.stderr and profile.exists()
    finally:
        hidden.communicate("q", timeout=WAIT_SECONDS)


def test_a_format_for_reports_alone_is_refused(mortem, folder, heapgauge, clean_env):
    assert "heapgauge report --format html" in mortem(folder, "--format", "html", status=1)
    done = subprocess.run([heapgauge, "list", "--format", "html"], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 1 and "heapgauge report --format html" in done.stderr


def test_many_are_told_newest_first_and_counted(ender_folder, mortem):
    folder, count = ender_folder
    text = mortem(folder, "--no-symbols", "--limit", "2")
    assert len(re.findall(r"^pid ", text, re.M)) == 2
    assert f"! {count - 2} more have ended" in text
    rows = json.loads(mortem(folder, "--no-symbols", "--format", "json"))["processes"]
    assert len(rows) == count
    assert [row["ended_real_ns"] for row in rows] == sorted((row["ended_real_ns"] for row in rows), reverse=True)


@pytest.fixture
def ender_folder(folder, build, clean_env, scratch):
    """Five that killed themselves, one after the other."""
    program = compile_c(scratch, "brief", "#include <signal.h>\n#include <stdlib.h>\nvoid *volatile p;\n"
                        "int main(void) { p = malloc(10); raise(SIGKILL); }\n")
    for _ in range(5):
        subprocess.run([program], env=preloaded(build, clean_env, folder), timeout=WAIT_SECONDS)
    return folder, 5


def test_damage_is_said_and_does_not_hide_the_others(ender_folder, mortem):
    folder, count = ender_folder
    first, second, third, *_ = sorted(folder.iterdir())
    os.truncate(first, 5000)
    second.write_bytes(b"not a profile")
    third.unlink()
    third.symlink_to("/dev/zero")
    found = json.loads(mortem(folder, "--no-symbols", "--format", "json"))["processes"]
    assert len(found) == count
    problems = {row["file"]: row["problem"] for row in found if row["problem"]}
    assert set(problems) == {str(first), str(second), str(third)}
    text = mortem(folder, "--no-symbols")
    assert len(re.findall(r"^pid ", text, re.M)) == 2 and text.count("! ") == 3


def test_folders_that_are_not_there(mortem, heapgauge, clean_env):
    assert "cannot read the folder /no/such" in mortem("/no/such", status=1)
    done = subprocess.run([heapgauge, "post-mortem"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 2 and "HEAPGAUGE_DIR" in done.stderr
    done = subprocess.run([heapgauge, "post-mortem", "a", "b"], env=clean_env, capture_output=True, text=True)
    assert done.returncode == 2 and "one folder" in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""Ranks of parallel jobs: what launchers put into the environment is in names and JSON, and --ranks chooses."""

import shutil
import subprocess

import pytest

from compiled import TELLS_ENDS, WAIT_SECONDS, compile_c

# Says whether the recorder is among its mappings, and whether it holds a profile.
SOLVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *volatile block;
int main(int argc, char **argv) {
    const char *rank = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    int loaded = 0, recorded = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    setvbuf(stdout, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, maps)) {
        loaded |= strstr(line, "libheapgauge") != NULL;
        recorded |= strstr(line, "heapgauge-profile") != NULL;
    }
    fclose(maps);
    printf("%s loaded %d recorded %d\n", rank ? rank : "-", loaded, recorded);
    block = malloc(100000 + (rank ? atoi(rank) : 0));
    return rank ? 10 + atoi(rank) : 0;
}
"""
# What a launcher does, on one machine.
LAUNCHER = "for r in 0 1 2 3 4 5 6; do PMI_RANK=$r PMI_SIZE=7 {} & done; wait"


@pytest.fixture
def solver(scratch):
    return compile_c(scratch, "solver", SOLVER)


def record_here(heapgauge, argv, scratch, env, *options):
    """With the default name of the recording."""
    argv = [heapgauge, "record", *options, "--", *argv]
    return subprocess.run(argv, env=env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)


@pytest.mark.parametrize(
    "variables, rank",
    [
        ({"PMI_RANK": "3"}, 3),
        ({"PMIX_RANK": "0"}, 0),
        ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
        ({"SLURM_PROCID": "5", "SLURM_STEP_ID": "0"}, 5),
        ({"SLURM_PROCID": "0"}, None),  # a batch script, which is no rank
        ({}, None),
    ],
)
def test_the_rank_is_in_the_name_the_json_and_the_summary(variables, rank, solver, scratch, heapgauge, clean_env, report_json):
    done = record_here(heapgauge, [solver], scratch, clean_env | variables)
    (path,) = scratch.glob("*.hg")
    process = report_json(path)["processes"][0]
    assert process["rank"] == rank
    pid = process["pid"]
    assert path.name == (f"heapgauge.solver.{pid}.hg" if rank is None else f"heapgauge.solver.rank{rank}.{pid}.hg")
    assert (f"(pid {pid})" if rank is None else f"(rank {rank}, pid {pid})") in done.stderr


def test_a_rank_that_is_not_asked_for_runs_untouched(solver, scratch, heapgauge, clean_env):
    for rank in range(7):
        done = record_here(heapgauge, [solver], scratch, clean_env | {"PMI_RANK": str(rank)}, "-q", "--ranks", "0,3-5")
        wanted = int(rank in (0, 3, 4, 5))
        assert done.stdout == f"{rank} loaded {wanted} recorded {wanted}\n"
        assert (done.returncode, done.stderr) == (10 + rank, "")
    assert sorted(path.name.split(".")[2] for path in scratch.glob("*.hg")) == ["rank0", "rank3", "rank4", "rank5"]
    # As a shell would say.
    env = clean_env | {"PMI_RANK": "1"}
    assert record_here(heapgauge, ["./not-there"], scratch, env, "--ranks", "0").returncode == 127
    assert record_here(heapgauge, [scratch], scratch, env, "--ranks", "0").returncode == 126


def test_ranks_below_a_launcher(solver, scratch, record, report_json, heapgauge):
    run = record(["sh", "-c", LAUNCHER.format(solver)], "--ranks", "0,3-5")
    assert run.returncode == 0, run.stderr
    said = {int(line.split()[0]): line.split()[-1] for line in run.stdout.splitlines()}
    assert said == {rank: str(int(rank in (0, 3, 4, 5))) for rank in range(7)}
    processes = report_json(run.path, "processes")["processes"]
    assert sorted(process["rank"] for process in processes) == [0, 3, 4, 5]
    assert sorted(process["not_freed_bytes"] for process in processes) == [100000, 100003, 100004, 100005]
    assert not report_json(run.path)["warnings"]
    (one,) = report_json(run.path, "processes", "--process", "^rank 4$")["processes"]
    assert (one["rank"], one["not_freed_bytes"]) == (4, 100004)
    text = subprocess.run([heapgauge, "report", run.path, "--view", "processes"], capture_output=True, text=True).stdout
    assert all(f" rank {rank}: /" in text for rank in (0, 3, 4, 5))
    done = subprocess.run(
        [heapgauge, "report", run.path, "--by", "process", "--format", "json"], capture_output=True, text=True, check=True
    )
    assert sum(f"rank {rank}: " in done.stdout for rank in range(7)) == 4


def test_all_ranks_below_a_launcher(solver, scratch, record, report_json):
    run = record(["sh", "-c", LAUNCHER.format(solver)])
    ends = {"exit"} if TELLS_ENDS else {"exit", "unknown"}
    ranks = [p["rank"] for p in report_json(run.path, "processes")["processes"] if p["rank"] is not None and p["end"] in ends]
    assert sorted(ranks) == list(range(7))


def test_ranks_survive_merging(solver, scratch, record, report_json, heapgauge):
    runs = [record([solver], env={"PMI_RANK": str(rank)}).path for rank in (1, 2)]
    job = scratch / "job.hg"
    subprocess.run([heapgauge, "merge", *runs, "-o", job], check=True, capture_output=True)
    assert sorted(p["rank"] for p in report_json(job, "processes")["processes"]) == [1, 2]


def test_ranks_that_were_recorded_in_two_modes(solver, scratch, record, heapgauge, clean_env):
    """The first of them was taken for the mode of all."""
    runs = [record([solver], *options, env={"PMI_RANK": "1"}).path for options in ([], ["--mode", "sample", "--interval", "1KiB"])]
    job = scratch / "job.hg"
    subprocess.run([heapgauge, "merge", *runs, "-o", job], check=True, capture_output=True)
    for path, mode in (runs[0], "exact"), (runs[1], "sampled"), (job, "mixed"):
        done = subprocess.run([heapgauge, "report", path, "--view", "sites"], env=clean_env, capture_output=True, text=True)
        assert f"  {mode}  " in done.stdout.splitlines()[0]


def test_mistakes_are_told(solver, scratch, record, heapgauge, clean_env):
    done = record_here(heapgauge, [solver], scratch, clean_env, "--ranks", "3-")
    assert done.returncode == 2 and "--ranks takes numbers and ranges such as 0,3-5, not 3-" in done.stderr
    run = record(["sh", "-c", LAUNCHER.format(solver)], "--ranks", "77")
    assert run.returncode == 125 and "had one of the ranks that --ranks names" in run.stderr
    assert not run.path.exists()


def test_under_mpirun(solver, scratch, heapgauge, clean_env):
    mpirun = shutil.which("mpirun")
    if not mpirun:
        pytest.skip("mpirun is not installed; the other tests set what it sets")
    env = clean_env | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1"}
    argv = [mpirun, "--oversubscribe", "-n", "4", heapgauge, "record", "-q", "--ranks", "1-2", "--", "sh", "-c", f"{solver}; exit 0"]
    done = subprocess.run(argv, env=env, cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    recorded = {int(line.split()[0]): line.split()[-1] for line in done.stdout.splitlines()}
    assert recorded == {0: "0", 1: "1", 2: "1", 3: "0"}
    assert sorted(path.name.split(".")[2] for path in scratch.glob("*.hg")) == ["rank1", "rank2"]

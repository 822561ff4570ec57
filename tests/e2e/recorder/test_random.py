# SPDX-License-Identifier: Apache-2.0
"""Random operations of several threads and their forks, against a model with one lock that the program keeps itself: allocations,
frees by other threads, realloc, mappings, scopes, pools, changes of the mode, snapshots. Every number must be the model's.

tests/targets/random_operations.c is the program. A seed is one run; HEAPGAUGE_RANDOM_SEED=N repeats it. The long form goes on for
ten minutes."""

import collections
import os
import time

import pytest

from compiled import compile_c, losses

LONG = os.environ.get("HEAPGAUGE_LONG") == "1"
SECONDS = 600 if LONG else 0  # go on for that long; at least once for each seed
FIRST = int(os.environ.get("HEAPGAUGE_RANDOM_SEED", 1))
SEEDS = 1 if "HEAPGAUGE_RANDOM_SEED" in os.environ else 3
OPERATIONS = 2000
SAMPLED = ["--mode", "sample", "--interval", "4KiB"]  # until the program says what it wants: for the interval
OWN = {"take_a", "take_b", "take_zeroed", "take_aligned", "grow", "map", "remap", "add", "resize"}
# On a machine that is busy enough a thread gives up waiting for a lock: then some numbers are not exact, and that is told.
GIVEN_UP = {"lock_timeouts", "unknown_ends", "unsited_calls", "late_snapshots"}


def function_of(site):
    """The program's own function that asked, or "-" for a block that was counted without its stack; None: not the program."""
    names = [frame["function"] or "" for frame in site["stack"]]
    if names and names[0].startswith("[stack not recorded"):
        return "-"
    return next((name for name in names if name in OWN), None)


def key_of(site):
    return site["kind"], function_of(site), site["tag"] or "-", site["pool"] or "-"


def all_sites(report_json, path, *question):
    """Pools lie inside the others, and are asked for by themselves."""
    return [site for kind in ("all", "pool") for site in report_json(path, "sites", "--kind", kind, *question)["sites"]]


def recorded(sites, pid, columns):
    """{(kind, function, tag, pool): numbers} of a process."""
    sums = collections.defaultdict(lambda: [0] * len(columns))
    for site in sites:
        if site["pid"] == pid and function_of(site):
            for i, column in enumerate(columns):
                sums[key_of(site)][i] += site[column]
    return {key: numbers for key, numbers in sums.items() if any(numbers)}


def told(stdout):
    """What the program says: ({pid: {key: numbers}}, {(pid, moment): {key: numbers}}, {(pid, thread): numbers})."""
    numbers, moments, threads = collections.defaultdict(dict), collections.defaultdict(dict), {}
    for line in stdout.splitlines():
        what, pid, *words = line.split()
        pid = int(pid)
        if what == "NUMBERS":
            numbers[pid][tuple(words[:4])] = [int(word) for word in words[4:]]
        elif what == "MOMENT":
            moments[pid, words[0]][tuple(words[1:5])] = [int(word) for word in words[5:]]
        elif what == "THREAD":
            threads[pid, words[0]] = [int(word) for word in words[1:]]
    return numbers, moments, threads


def differences(what, model, actual):
    return [
        f"{what} {' '.join(map(str, key)) if isinstance(key, tuple) else key}: {actual.get(key)} instead of {model.get(key)}"
        for key in sorted(set(model) | set(actual), key=str)
        if model.get(key) != actual.get(key)
    ]


def compare(run, report_json):
    """(sentences about every difference, what was given up)."""
    numbers, moments, threads = told(run.stdout)
    processes = {process["pid"]: process for process in report_json(run.path)["processes"]}
    health = {pid: losses(process) for pid, process in processes.items()}
    given_up = {name for lost in health.values() for name in lost} & GIVEN_UP
    wrong = [f"health of {pid}: {lost}" for pid, lost in health.items() if set(lost) - GIVEN_UP - {"turned_off"}]
    sites = all_sites(report_json, run.path)
    for pid, model in numbers.items():
        actual = recorded(sites, pid, ["calls", "total_bytes", "frees", "freed_bytes"])
        wrong += differences(f"process {pid}", model, actual)
    for (pid, moment), model in moments.items():
        live = all_sites(report_json, run.path, "--at", f"snap:{moment}", "--cost", "live")
        model = {key: values for key, values in model.items() if any(values)}
        wrong += differences(f"moment {moment}", model, recorded(live, pid, ["live_bytes", "live_blocks"]))
    rows = report_json(run.path, "threads")["threads"]
    actual = {(row["pid"], row["name"]): [row["calls"], row["total_bytes"]] for row in rows}
    wrong += differences("thread", threads, {key: actual.get(key) for key in threads})
    return wrong, given_up


def check(seed, target, record, report_json, env):
    """Whether every number was compared."""
    print(f"HEAPGAUGE_RANDOM_SEED={seed}")
    run = record([target("random_operations"), str(seed), str(OPERATIONS)], *SAMPLED, env=env)
    assert run.returncode == 0, f"seed {seed}: {run.stdout[-500:]}{run.stderr}"
    wrong, given_up = compare(run, report_json)
    assert given_up or not wrong, f"seed {seed}: {len(wrong)} differences in {run.path}\n" + "\n".join(wrong[:30])
    run.path.unlink()
    return not given_up


@pytest.mark.parametrize("checked", [False, True], ids=["", "checking"])
def test_every_number_is_the_models(checked, build, target, record, report_json):
    env = {"HEAPGAUGE_RECORDER": str(build / "libheapgauge-checked.so")} if checked else {}
    deadline = time.monotonic() + SECONDS / 2
    seed, exact = FIRST, 0
    while seed < FIRST + SEEDS or time.monotonic() < deadline:
        exact += check(seed, target, record, report_json, env)
        seed += 1
    assert exact > 0, "a lock was given up in every run"


PART = """
#include <pthread.h>
#include <sys/mman.h>
static void *unmap_part(void *at) { munmap(at, 3 * 4096); return 0; }
int main(void)
{
	char *at = mmap(0, 10 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	pthread_create(&thread, 0, unmap_part, at);
	return pthread_join(thread, 0) + munmap(at + 3 * 4096, 7 * 4096);
}
"""


def test_a_part_that_another_thread_unmaps_is_counted(scratch, record, report_json):
    """That thread's counters of the site have bytes, and no block: they were left out."""
    run = record([compile_c(scratch, "part", PART)])
    assert run.returncode == 0
    (site,) = [site for site in report_json(run.path, "sites", "--kind", "mmap")["sites"] if site["total_bytes"] == 10 * 4096]
    assert (site["calls"], site["frees"], site["freed_bytes"]) == (1, 1, 10 * 4096)

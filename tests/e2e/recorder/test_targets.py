# SPDX-License-Identifier: Apache-2.0
"""Every program tests/targets/*/t_* prints the truth about itself; here it is compared with what was recorded.

The lines are described in tests/targets/target.h. A new behaviour needs a new target and nothing in this file.
"""

import dataclasses
import os
import pathlib
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, losses

TARGETS = pathlib.Path(__file__).resolve().parents[2] / "targets"
SOURCES = {path.name: path for path in TARGETS.glob("*/*.c*")}
NAMES = sorted(path.stem for path in SOURCES.values() if path.name.startswith("t_"))
assert len(NAMES) > 50, "an empty list would pass"
TRUTH_LINE = re.compile(r"^(EXPECT|HEALTH|HEALTH_MAYBE) ", re.M)

# Word of an EXPECT line -> column of a site, where they differ.
COLUMN = {
    "temporary": "temporary_calls",
    "bytes": "total_bytes",
    "live_bytes": "not_freed_bytes",
    "live_blocks": "not_freed_blocks",
    "fragmentation_bytes": "internal_fragmentation_bytes",
    "live_fragmentation_bytes": "not_freed_internal_fragmentation_bytes",
}


@dataclasses.dataclass
class Truth:
    """What a target said about itself."""

    expectations: list  # of (subject words, comparisons)
    must_health: set
    may_health: set
    output: str  # all other lines


def parse(stdout):
    truth = Truth([], set(), set(), "")
    for line in stdout.splitlines(keepends=True):
        words = line.split()
        if not TRUTH_LINE.match(line):
            truth.output += line
        elif words[0] == "EXPECT":
            subject = [w for w in words[1:] if re.match(r"(process|(site|stack|kind)=)", w)]
            rest = [w for w in words[1:] if w not in subject]
            truth.expectations.append((subject, [re.fullmatch(r"(.+?)(<=|>=|~=|=)(-?\d+)", w).groups() for w in rest]))
        elif words[0] == "HEALTH":
            truth.must_health.add(words[1])
        else:
            truth.may_health.add(words[1])
    return truth


def own_functions(site):
    """Functions of the target's own modules in the stack, leaf first; what is inlined belongs to its function."""
    functions = [
        re.sub(r"\(.*", "", frame["function"] or "?")
        for frame in site["stack"]
        if pathlib.PurePath(frame["module"] or "").parent.name == "targets" and not frame["inlined"]
    ]
    return functions[:-1] if functions and functions[-1] == "_start" else functions


def matches(site, subject):
    functions = own_functions(site)
    for word in subject:
        key, _, value = word.partition("=")
        if key == "kind" and site["kind"] != value:
            return False
        if key == "site" and (not functions or functions[0] not in value.split("+")):
            return False
        if key == "stack" and functions != value.split("<"):
            return False
    return True


def number_of(site, column):
    """One number of a site: a column, realloc.NAME, sizes:SIZE or lifetimes:FROM-TO in milliseconds."""
    if column.startswith("sizes:"):
        size = int(column[6:])
        return sum(s["count"] for s in site["sizes"] if s["low_bytes"] == s["high_bytes"] == size)
    if column.startswith("lifetimes:"):
        low, high = map(int, column[10:].split("-"))
        return sum(s["count"] for s in site["lifetimes"] if s["low_ms"] >= low and (s["high_ms"] or low) <= high)
    if column.startswith("realloc."):
        return (site["realloc"] or {}).get(column[8:], 0)
    return site[COLUMN.get(column, column)]


def differs(actual, operator, wanted, bound):
    if operator == "=":
        return actual != wanted
    if operator == "<=":
        return actual > wanted
    if operator == ">=":
        return actual < wanted
    return abs(actual - wanted) > bound


def compare(truth, process, sites):
    """Sentences about every difference."""
    wrong = []
    for subject, comparisons in truth.expectations:
        mine = [site for site in sites if matches(site, subject)]
        for column, operator, wanted in comparisons:
            if subject == ["process"]:
                actual = process[column]
            else:
                actual = sum(number_of(site, column) for site in mine)
            if differs(actual, operator, int(wanted), process["peak_bound_bytes"]):
                wrong.append(f"{' '.join(subject)}: {column} is {actual}, expected {operator} {wanted} ({len(mine)} sites)")
    health = set(losses(process))
    wrong += [f"health.{name} is missing" for name in sorted(truth.must_health - health)]
    unwanted = sorted(health - truth.must_health - truth.may_health)
    wrong += [f"health.{name} is {process['health'][name]}" for name in unwanted]
    return wrong


def inconsistencies(process, sites):
    """The sites must add up to the process, and each site to itself."""
    heap = [site for site in sites if site["kind"] == "heap"]
    wrong = []
    for total, column in [
        ("calls", "calls"),
        ("total_bytes", "total_bytes"),
        ("frees", "frees"),
        ("not_freed_bytes", "not_freed_bytes"),
        ("not_freed_blocks", "not_freed_blocks"),
        ("temporary_calls", "temporary_calls"),
        ("peak_bytes", "peak_bytes"),
        ("peak_blocks", "peak_blocks"),
    ]:
        actual = sum(site[column] for site in heap)
        if process[total] != actual:
            wrong.append(f"process {total} is {process[total]}, its sites' {column} add up to {actual}")
    if process["peak_at_ns"] > process["duration_ns"]:
        wrong.append(f"the peak is at {process['peak_at_ns']} ns of {process['duration_ns']} ns")
    for site in heap:
        name = "<".join(own_functions(site)[:3]) or "?"
        for good, what in [
            (site["calls"] - site["frees"] == site["not_freed_blocks"], "calls - frees = live blocks"),
            (site["total_bytes"] - site["freed_bytes"] == site["not_freed_bytes"], "bytes - freed bytes = live bytes"),
            (sum(s["count"] for s in site["sizes"]) == site["calls"], "sizes add up to calls"),
            (sum(s["count"] for s in site["lifetimes"]) <= site["frees"], "lifetimes are of freed blocks"),
            (all((s["high_ms"] or 0) * 10**6 <= process["duration_ns"] + 2 * 10**6 for s in site["lifetimes"]), "no block outlives the process"),
            (site["peak_bytes"] <= site["max_bytes"] or not site["max_exact"], "peak part <= own maximum"),
            (site["not_freed_bytes"] <= site["max_bytes"] or not site["max_exact"], "live <= own maximum"),
            (site["not_freed_internal_fragmentation_bytes"] <= site["internal_fragmentation_bytes"], "waste of what is left <= waste"),
        ]:
            if not good:
                wrong.append(f"site {name} does not hold: {what}")
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_target_is_recorded_as_it_says(name, target, record, report_json, clean_env, scratch):
    program = target(name)
    env = {"HEAPGAUGE_LONG": os.environ.get("HEAPGAUGE_LONG", "0")}
    bare = subprocess.run(
        [program],
        env=clean_env | env,
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert bare.returncode == 0, f"bare: {bare.stdout[-2000:]}{bare.stderr}"

    run = record([program], env=env)
    assert run.returncode == 0, f"recorded: {run.stdout[-2000:]}{run.stderr}"
    truth = parse(run.stdout)
    assert truth.expectations, "a target that expects nothing proves nothing"
    assert truth.output == parse(bare.stdout).output
    assert run.stderr == bare.stderr

    process = report_json(run.path, "summary")["processes"][0]
    sites = [s for s in report_json(run.path, "sites")["sites"] if s["pid"] == process["pid"]]
    assert process["mode"] == "exact"
    assert process["end"] == "exit" and process["exit_code"] == 0
    wrong = compare(truth, process, sites) + inconsistencies(process, sites)
    assert not wrong, "\n".join(wrong)

# SPDX-License-Identifier: Apache-2.0
"""Labels of samples from OpenTelemetry's thread context: a publisher as the OTEPs say, its variable in each of the places that a linker
gives it, and records, tables and pointers that are none."""

import gzip
import json
import os
import pathlib
import subprocess

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, losses

HERE = pathlib.Path(__file__).parent
KEYS = ["--otel-labels", "tenant,http.route"]
SAMPLED = ["--mode", "sample", "--interval", "4K"]
BLOCK = 10_000  # larger than the interval: every block is a sample, and its estimate exact

# gcc calls the two dialects by other names on aarch64.
DIALECTS = ("desc", "trad") if os.uname().machine == "aarch64" else ("gnu2", "gnu")
DESCRIPTOR, GET_ADDR = (f"-mtls-dialect={name}" for name in DIALECTS)
# How the variable is compiled, and whether its library is linked, or loaded by dlopen; None: it is in the executable.
PLACES = {
    "executable": ([], None),
    "linked-descriptor": ([DESCRIPTOR], "linked"),
    "linked-get-addr": ([GET_ADDR], "linked"),
    "linked-initial-exec": (["-ftls-model=initial-exec"], "linked"),
    "loaded-descriptor-static": ([DESCRIPTOR], "loaded"),
    "loaded-descriptor-dynamic": ([DESCRIPTOR, "-DLARGE"], "loaded"),
    "loaded-get-addr": ([GET_ADDR], "loaded"),
}


def compile_here(output, *arguments):
    subprocess.run(["gcc", "-g", "-O1", "-o", output, *arguments], check=True, timeout=WAIT_SECONDS)
    return output


@pytest.fixture
def program(scratch):
    """program(place): the arguments that run it, but for what it does."""

    def build(place):
        flags, library = PLACES[place]
        source, variable = HERE / "otel_program.c", HERE / "otel_variable.c"
        if library is None:
            return [compile_here(scratch / "program", source, variable, "-pthread", "-Wl,--export-dynamic")], []
        path = compile_here(scratch / "libvariable.so", "-shared", "-fPIC", *flags, variable)
        if library == "loaded":
            return [compile_here(scratch / "program", source, "-pthread")], [path]
        return [compile_here(scratch / "program", source, "-Wl,--no-as-needed", path, f"-Wl,-rpath,{scratch}", "-pthread")], []

    return build


def bytes_by_label(report_json, path, *more):
    only = ["--kind", "heap", "--focus", "^take$", "--limit", "10000", *more]
    rows = report_json(path, "functions", "--by", "label", "--cost", "total", *only)["labels"]
    return {frozenset(row["label"].split()) - {"(no", "label)"}: row["total_bytes"] for row in rows if row["total_bytes"]}


def large_by_label(report_json, path, *more):
    return bytes_by_label(report_json, path, "--min-size", str(BLOCK), *more)


@pytest.mark.parametrize("memory", ["memfd", "anonymous"])
@pytest.mark.parametrize("place", PLACES)
def test_labels_are_those_of_the_context(place, memory, program, record, report_json):
    before, after = program(place)
    run = record([*before, "truth", memory, *after], *SAMPLED, *KEYS)
    assert run.returncode == 0, run.stderr
    truth = {frozenset(labels.split()): held for labels, held in json.loads(run.stdout).items()}
    assert large_by_label(report_json, run.path) == truth
    assert losses(report_json(run.path)["processes"][0]) == {}
    labels = bytes_by_label(report_json, run.path)
    (function,) = report_json(run.path, "functions", "--cost", "total", "--focus", "^take$", "--kind", "heap", "--limit", "1")["functions"]
    assert sum(labels.values()) == function["total_bytes"]
    assert not any("user" in label for key in labels for label in key)
    assert large_by_label(report_json, run.path, "--label", "tenant=acme") == {k: v for k, v in truth.items() if "tenant=acme" in k}


def test_estimates_of_labels_are_close(program, record, report_json):
    """20,000 blocks of 100 bytes in each of six contexts: about 500 samples each, so that six standard errors are 27 %."""
    before, _ = program("executable")
    run = record([*before, "truth", "memfd"], *SAMPLED, *KEYS)
    small = bytes_by_label(report_json, run.path, "--max-size", "100")
    assert len(small) == 6 and all(abs(held - 2_000_000) < 540_000 for held in small.values()), small


def test_only_requested_keys_are_read(program, record, report_json):
    before, _ = program("executable")
    for options in [[], ["--otel-labels", "absent"]]:
        run = record([*before, "truth", "memfd"], *SAMPLED, *options)
        assert set(bytes_by_label(report_json, run.path)) == {frozenset()}
        assert losses(report_json(run.path)["processes"][0]) == {}


def test_pprof_has_the_labels(program, record, heapgauge, clean_env, scratch):
    before, _ = program("executable")
    run = record([*before, "truth", "memfd"], *SAMPLED, *KEYS)
    profile = scratch / "profile.pb"
    subprocess.run([heapgauge, "export", run.path, "--format", "pprof", "-o", profile], env=clean_env, check=True, timeout=WAIT_SECONDS)
    data = gzip.decompress(profile.read_bytes())
    assert all(text in data for text in [b"tenant", b"initech", b"http.route", b"/orders/{id}"]) and b"somebody" not in data


def test_a_child_has_the_labels_of_its_own_table(program, record, report_json):
    before, _ = program("executable")
    run = record([*before, "fork", "memfd"], *SAMPLED, "--otel-labels", "tenant")
    assert run.returncode == 0, run.stderr
    labels = large_by_label(report_json, run.path)
    assert labels == {frozenset({"tenant=parent"}): 2 * BLOCK, frozenset({"tenant=child"}): 5 * BLOCK, frozenset(): BLOCK}
    # The child's first block and the payload of its table are allocated before there is one.
    assert [losses(p).get("otel_unread", 0) for p in report_json(run.path)["processes"]] == [0, 2]


@pytest.mark.parametrize("place", [place for place in PLACES if place.startswith("loaded")])
def test_the_library_with_the_variable_may_be_unloaded(place, program, record, report_json):
    before, after = program(place)
    run = record([*before, "reload", "memfd", *after], *SAMPLED, *KEYS)
    assert run.returncode == 0, run.stderr
    labels = large_by_label(report_json, run.path)
    assert labels == {frozenset({"tenant=first"}): 2 * BLOCK, frozenset({"tenant=second"}): 4 * BLOCK, frozenset(): 3 * BLOCK}


@pytest.mark.parametrize("place", ["executable", "loaded-descriptor-dynamic"])
def test_garbage_does_no_harm(place, program, record, report_json, clean_env):
    before, after = program(place)
    argv = [*before, "garbage", "memfd", *after]
    alone = subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    run = record(argv, *SAMPLED, *KEYS)
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, run.stdout, run.stderr) and run.returncode == 0
    process = report_json(run.path)["processes"][0]
    assert process["health"]["otel_unread"] >= 100
    assert set(losses(process)) == {"otel_unread"}
    assert sum(large_by_label(report_json, run.path).values()) == BLOCK * (20 * 12 + 500)


@pytest.mark.parametrize("place", ["executable", "loaded-descriptor-dynamic"])
def test_labels_need_little_more_of_a_threads_stack(place, program, record, report_json):
    """The deepest calls of a sample need about as much, even while it reads the table of keys."""
    before, after = program(place)
    argv, env = [*before, "depth", "memfd", *after], {"LD_BIND_NOW": "1"}
    unlabelled, run = record(argv, *SAMPLED, env=env), record(argv, *SAMPLED, *KEYS, env=env)
    assert large_by_label(report_json, run.path) == {frozenset({"tenant=acme", "http.route=/orders/{id}"}): 50 * BLOCK}
    assert int(run.stdout) <= int(unlabelled.stdout) + 64


def test_a_program_without_a_context_is_reported(record, report_json):
    run = record(["sh", "-c", ":"], *SAMPLED, *KEYS)
    assert losses(report_json(run.path)["processes"][0])["otel_no_context"] == 1


@pytest.mark.parametrize("mode, found", [("sample", True), ("exact", False)])
def test_a_program_that_records_itself(mode, found, program, report_json, clean_env, build):
    before, _ = program("executable")
    settings = {"HEAPGAUGE_MODE": mode, "HEAPGAUGE_INTERVAL": "4K", "HEAPGAUGE_OTEL_LABELS": "tenant,http.route"}
    with folder_on_tmpfs() as folder:
        env = preloaded(build, clean_env, folder, HEAPGAUGE_KEEP="1", **settings)
        subprocess.run([*before, "truth", "memfd"], env=env, check=True, capture_output=True, timeout=WAIT_SECONDS)
        (live,) = folder.glob("*.live")
        assert (frozenset({"tenant=acme"}) in bytes_by_label(report_json, live)) == found
        assert ("otel_no_context" in losses(report_json(live)["processes"][0])) != found


@pytest.mark.parametrize(
    "options, sentence",
    [
        ([*KEYS, "true"], "--otel-labels requires --mode sample"),
        ([*SAMPLED, "--otel-labels", "a,,b", "true"], "--otel-labels takes keys such as"),
        ([*SAMPLED, "--otel-labels", "a,b,c,d,e,f,g,h,i", "true"], "--otel-labels takes 1 to 8 keys"),
        ([*KEYS, "--mode", "sample", "--pid", "1"], "set HEAPGAUGE_OTEL_LABELS there"),
    ],
)
def test_what_cannot_be_done_is_said(options, sentence, heapgauge, clean_env):
    run = subprocess.run([heapgauge, "record", *options], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert run.returncode == 2 and sentence in run.stderr, run.stderr

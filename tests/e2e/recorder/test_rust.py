# SPDX-License-Identifier: Apache-2.0
"""The crate `heapgauge`: a Rust program that says what it does, and what is then recorded, to the byte."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CRATE = ROOT / "bindings" / "rust"
SCOPES = pathlib.Path(__file__).parent / "bindings" / "scopes.rs"
CONTROL = SCOPES.with_name("control.rs")
LONG_NAME = "x" * 255


@pytest.fixture(scope="module")
def rustc():
    path = shutil.which("rustc")
    if not path:
        pytest.fail("rustc is not installed")
    return path


def build_library(rustc, folder):
    """The crate, built by rustc alone, every warning an error."""
    argv = [rustc, "--edition=2021", "--crate-type=rlib", "--crate-name=heapgauge", "-O", "-Dwarnings", "-Wmissing_docs"]
    subprocess.run([*argv, "--out-dir", folder, CRATE / "src/lib.rs"], check=True)
    return folder / "libheapgauge.rlib"


@pytest.fixture(scope="module")
def library(rustc, tmp_path_factory):
    return build_library(rustc, tmp_path_factory.mktemp("crate"))


def build(rustc, library, folder, *flags, source=SCOPES):
    program = folder / source.stem
    argv = [rustc, "--edition=2021", "-Dwarnings", "-O", "-g", "--extern", f"heapgauge={library}", *flags]
    subprocess.run([*argv, source, "-o", program], check=True)
    return program


def tags_of(report_json, path):
    """{path of tags: (visits, calls, bytes, frees, bytes freed)}, each tag's own."""
    keys = ("visits", "self_calls", "self_total_bytes", "self_frees", "self_freed_bytes")
    return {row["tag"]: tuple(row[key] for key in keys) for row in report_json(path, "tags")["tags"] if row["tag"]}


def test_scopes_of_a_rust_program(rustc, library, scratch, record, report_json):
    program = build(rustc, library, scratch)
    alone = subprocess.run([program], capture_output=True, text=True, check=True)
    assert alone.stdout == "false\n"
    run = record([program])
    assert (run.returncode, run.stdout) == (0, "true\n"), run.stderr
    tags = tags_of(report_json, run.path)
    # Unwinding allocates as much as Rust's runtime likes.
    assert tags.pop("thrower")[0] == 1
    assert tags == {
        "parser": (8, 16, 8 * 110, 16, 8 * 110),
        "parser/lexer": (8, 0, 0, 0, 0),
        "parser/lexer/words": (8, 8, 56, 8, 56),
        "a": (2, 2, 2000, 2, 2000),
        "b": (1, 1, 1000, 1, 1000),
        LONG_NAME: (1, 1, 1000, 1, 1000),
        "maker": (1, 1, 5000, 1, 5000),
        "freer": (1, 0, 0, 0, 0),
        "freer/growing": (1, 3, 8 + 2048 + 4096, 3, 8 + 2048 + 4096),
        "C": (1, 2, 77 + 78, 2, 77 + 78),
        "value": (1, 1, 11, 1, 11),
    }


def test_the_allocator_tags_what_rust_allocates_and_counts_nothing_twice(rustc, library, scratch, record, report_json):
    plain, tagged = scratch / "plain", scratch / "tagged"
    plain.mkdir()
    tagged.mkdir()
    before = record([build(rustc, library, plain)])
    after = record([build(rustc, library, tagged, "--cfg", "tagged")])
    assert (after.returncode, after.stdout) == (0, "true\n"), after.stderr
    tags = tags_of(report_json, after.path)
    assert tags["parser"] == (8, 0, 0, 0, 0)
    assert tags["parser/rust"] == (16, 16, 8 * 110, 16, 8 * 110)
    assert tags["parser/lexer/words/rust"] == (8, 8, 56, 8, 56)
    assert tags["freer/growing/rust"] == (3, 3, 8 + 2048 + 4096, 3, 8 + 2048 + 4096)
    assert tags["C"] == (1, 1, 77, 1, 77)
    assert tags["C/rust"] == (1, 1, 78, 1, 78)
    assert tags["rust"][1] > 0
    whole = [report_json(run.path, "processes")["processes"][0] for run in (before, after)]
    keys = ("calls", "total_bytes", "frees", "not_freed_bytes")
    assert [whole[0][key] for key in keys] == [whole[1][key] for key in keys]


def test_contexts_labels_control_moments_and_numbers(rustc, library, scratch, record, report_json):
    program = build(rustc, library, scratch, source=CONTROL)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "8\n"
    run = record([program])
    assert (run.returncode, run.stdout) == (0, "8\n"), run.stderr
    held = {path: row[1:3] for path, row in tags_of(report_json, run.path).items() if row[1]}
    assert held == {
        "request/tenant=acme": (1, 100),
        "request/tenant=acme/step": (1, 200),
        "phases/phase=load": (1, 1000),
        "phases": (1, 2000),
        "control": (3, 4000 + 5999 + 6000),
    }
    snapshots = report_json(run.path, "snapshots")["snapshots"]
    assert [row["name"] for row in snapshots] == ["loaded", "half", "done"]
    # From one to the next: what control took, and the 100 bytes that were dropped.
    assert snapshots[2]["live_bytes"] - snapshots[0]["live_bytes"] == 4000 + 5999 + 6000 - 100


def test_the_crate_builds_and_its_examples_run_without_a_registry(scratch):
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed")
    env = os.environ | {"CARGO_TARGET_DIR": str(scratch / "target")}
    copy = scratch / "crate"
    shutil.copytree(CRATE, copy)
    done = subprocess.run(["cargo", "test", "--offline", "-q"], cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr


WRAPPED = """
use std::alloc::System;
#[global_allocator]
static ALLOCATOR: heapgauge::Alloc<System> = heapgauge::Alloc::new(System, heapgauge::tag!("rust"));
pub struct Blob {
    pub words: [u64; 12],
}
#[inline(never)]
fn fill(blobs: &mut Vec<Box<Blob>>) {
    for i in 0..1000 {
        blobs.push(Box::new(Blob { words: [i; 12] }));
    }
}
fn main() {
    let mut blobs = Vec::new();
    fill(&mut blobs);
    assert!(blobs.iter().map(|blob| blob.words[0]).sum::<u64>() > 0);
    std::mem::forget(blobs);
}
"""


def test_n20_our_own_allocator_is_not_blamed(rustc, library, scratch, record, report_json, heapgauge):
    """N20: every site was said to be std::alloc::System's, and no type was known."""
    source = scratch / "wrapped.rs"
    source.write_text(WRAPPED)
    run = record([build(rustc, library, scratch, source=source)])
    summary = subprocess.run([heapgauge, "report", run.path], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "% in wrapped::fill (wrapped.rs" in summary and "alloc::" not in summary
    types = report_json(run.path, "types")["types"]
    assert (types[0]["type"], types[0]["live_blocks"]) == ("Box<wrapped::Blob>", 1000)

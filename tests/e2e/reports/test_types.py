# SPDX-License-Identifier: Apache-2.0
"""Types and containers of real C++ and Rust programs, at both ends of optimization."""

import pathlib
import shutil
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).parent / "types"

CXX_CALLS = {
    "std::vector<Blob>": 5,
    "std::vector<int>": 10 + 2,
    "std::vector<std::vector<short>>": 1,
    "std::vector<short>": 3,
    "std::string": 22,
    "std::map<int, std::string>": 20,
    "std::set<long>": 20,
    "std::unordered_map<int, Blob*>": 22,
    "std::unordered_set<int>": 22,
    "std::list<double>": 20,
    "std::forward_list<double>": 20,
    "std::deque<short>": 10,
    "std::make_shared<Blob>": 1,
    "std::shared_ptr<Owner>": 1,
    "inside Owner": 1,
    "Blob": 1,
}
RUST_CALLS = {
    "Vec<containers::Blob>": 5,
    "Vec<u16>": 1,
    "Vec<u32>": 1,
    "String": 9,
    "HashMap<u32, containers::Blob>": 6,
    "HashSet<u64>": 6,
    "BTreeMap<u32, u16>": 17,
    "VecDeque<u8>": 5,
    "Box<containers::Blob>": 1,
    "Rc<containers::Blob>": 1,
    "Arc<[u64; 9]>": 1,
}


def calls_by_type(report_json, path):
    result = report_json(path, "types", "--cost", "calls")
    total = sum(row["calls"] for row in result["types"])
    assert total == report_json(path)["processes"][0]["calls"], "every call is in one row"
    return {row["type"]: row["calls"] for row in result["types"]}


@pytest.mark.parametrize("compiler", [["g++", "-O0"], ["g++", "-O2"], ["clang++", "-O2"]], ids="".join)
def test_cxx_containers(record, report_json, scratch, compiler):
    program = scratch / "containers"
    subprocess.run([*compiler, "-g", SOURCES / "containers.cc", "-o", program], check=True)
    run = record([program])
    assert run.returncode == 0
    calls = calls_by_type(report_json, run.path)
    assert {name: calls.get(name) for name in CXX_CALLS} == CXX_CALLS
    assert any(name.startswith("std::function<int") for name in calls)
    at_peak = report_json(run.path, "types")["types"]
    assert at_peak == report_json(run.path, "functions", "--by", "type")["types"]
    assert sum(row["live_bytes"] for row in at_peak) == report_json(run.path)["processes"][0]["peak_bytes"]


@pytest.mark.parametrize("level", ["0", "2"])
def test_rust_containers(record, report_json, scratch, level):
    """Rust's default mangling drops the type arguments: they come from the debug information."""
    if not shutil.which("rustc"):
        pytest.skip("no rustc")
    program = scratch / "containers"
    subprocess.run(
        ["rustc", "-g", "-C", f"opt-level={level}", SOURCES / "containers.rs", "-o", program], check=True
    )
    run = record([program])
    assert run.returncode == 0
    calls = calls_by_type(report_json, run.path)
    assert {name: calls.get(name) for name in RUST_CALLS} == RUST_CALLS
    assert calls == calls_by_type(report_json, run.path), "names that were kept say the same"

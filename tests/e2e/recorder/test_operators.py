# SPDX-License-Identifier: Apache-2.0
"""Every form of operator new begins its stack where the program called it, never in the recorder."""

FORMS = {
    "plain": 11,
    "array": 12,
    "nothrow": 13,
    "array_nothrow": 14,
    "aligned": 65,
    "array_aligned": 129,
    "aligned_nothrow": 193,
    "array_aligned_nothrow": 257,
}


def test_the_stack_begins_at_the_call(target, record, report_json):
    recording = record([target("t_operator_forms")])
    assert recording.returncode == 0
    sites = report_json(recording.path, "sites")["sites"]
    leaves = {site["stack"][0]["function"].removesuffix("()"): site["live_bytes"] for site in sites if site["live_bytes"]}
    assert {name: leaves.get(name) for name in FORMS} == FORMS
    frames = [frame["module"] for site in sites for frame in site["stack"]]
    assert not [module for module in frames if "libheapgauge" in module]

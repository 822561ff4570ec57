# SPDX-License-Identifier: Apache-2.0
"""The view modules against what readelf and the frames of every stack say."""

import re
import subprocess


def test_build_ids_are_those_of_readelf(record, report_json):
    run = record(["sqlite3", ":memory:", "select 1"])
    modules = report_json(run.path, "modules")["modules"]
    assert len(modules) >= 2  # the command may have its library linked in
    for module in modules:
        notes = subprocess.run(["readelf", "-n", module["module"]], capture_output=True, text=True, check=True).stdout
        assert re.search(r"Build ID: (\w+)", notes).group(1) == module["build_id"]


def test_frames_are_those_on_the_stacks(record, report_json, target):
    run = record([target("t_histograms")])
    modules = report_json(run.path, "modules")["modules"]
    own = [module for module in modules if module["module"].endswith("t_histograms")][0]
    frames = {
        (frame["offset"], frame["inlined"])
        for site in report_json(run.path, "sites", "--kind", "all")["sites"]
        for frame in site["stack"]
        if frame["module"] == own["module"] and not frame["inlined"]
    }
    assert own["frames"] == len(frames) > 3
    assert own["named_frames"] == own["frames"]
    assert 0 < own["frames_with_lines"] <= own["frames"]
    assert own["names_from"] == "debug information"
    assert own["processes"] == 1

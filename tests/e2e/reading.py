# SPDX-License-Identifier: Apache-2.0
"""What tests of reports share."""

import re


def losses_said(text):
    """What a report tells a person of losses, but for those of a busy machine."""
    return [said for said in re.findall(r"^  ! (.*)$", text, re.M) if "clock tick" not in said]


def nothing_lost_is_said(text):
    return "nothing lost" in text or ("but see ! below" in text and losses_said(text) == [])


def with_frames(result):
    """Puts the frames, which the JSON holds once, into the stacks that name them by number."""
    for rows in result.values():
        for row in rows if isinstance(rows, list) else ():
            for key in ("stack", "free_stack"):
                if isinstance(row, dict) and key in row:
                    row[key] = [result["frames"][number] for number in row[key]]
    return result


def flame_rows(result):
    """The nodes of the view `flame` row by row, as libraries give them."""
    nodes, names = result["nodes"], result["names"]
    nothing = {"function": None, "module": None, "file": None, "line": 0, "inlined": False}
    for i, name in enumerate(nodes["name"]):
        numbers = {key: nodes[key][i] for key in nodes if key != "name"}
        parent = None if nodes["parent"][i] < 0 else nodes["parent"][i]
        yield numbers | (nothing if name < 0 else names[name]) | {"parent": parent}


def head_and_rows(result, name):
    """The JSON of a view as its head and the rows that are called `name`, with stacks in full."""
    result = with_frames(result)
    rows = list(flame_rows(result)) if "nodes" in result else result[name]
    return {key: value for key, value in result.items() if key not in ("schema", "frames", "names", name)}, rows


def differences(here, there, path=""):
    """Where two answers differ. Standard errors are rounded to three digits in JSON, and a bar that has none is without the key."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in here.keys() | there.keys():
            bare = 0 if key == "count_error" else KeyError
            yield from differences(here.get(key, bare), there.get(key, bare), f"{path}.{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for i, (one, other) in enumerate(zip(here, there)):
            yield from differences(one, other, f"{path}[{i}]")
    elif "_error" in path and isinstance(here, (int, float)) and isinstance(there, (int, float)):
        if abs(here - there) > 0.006 * max(abs(here), abs(there)):
            yield f"{path}: {here!r} is not {there!r}"
    elif here != there or isinstance(here, bool) != isinstance(there, bool):
        yield f"{path}: {here!r} is not {there!r}"

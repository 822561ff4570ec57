# SPDX-License-Identifier: Apache-2.0
"""docs/internals/one-allocation.md names files and functions: they exist, each file once, and there are few."""

import re

HOPS_MAX = 20
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")
DEFINITION = r"^[\w *]*\b{}\([^;{{]*\n{{$"


def faults(text, src):
    """What the page says and the code below `src` does not."""
    code = {path: path.read_text() for path in src.rglob("*.[ch]")}
    everything = "\n".join(code.values())
    rows = ROW.findall(text)
    hops = [int(number) for number, *_ in rows]
    if not rows or hops != list(range(1, len(rows) + 1)) or len(rows) > HOPS_MAX:
        yield f"hops are {hops}"
    seen = set()
    for number, name, functions, what in rows:
        if name in seen:
            yield f"hop {number} goes back to {name}"
        seen.add(name)
        if src / name not in code:
            yield f"hop {number}: there is no {name}"
            continue
        yield from (
            f"hop {number}: {name} does not define {function}"
            for function in NAME.findall(functions)
            if not re.search(DEFINITION.format(function), code[src / name], re.MULTILINE)
        )
        yield from (
            f"hop {number}: nothing defines {function}"
            for function in NAME.findall(what)
            if "_" in function and not re.search(DEFINITION.format(function), everything, re.MULTILINE)
        )


def test_every_hop_exists(root):
    assert list(faults((root / "docs/internals/one-allocation.md").read_text(), root / "src")) == []


def test_a_hop_that_is_gone_is_found(tmp_path):
    (tmp_path / "a.c").write_text("static int\nthere(int x)\n{\n}\n\nvoid one_more(void)\n{\n}\n\nvoid only_declared(void);\n")
    good = "| 1 | `a.c` | `there` | by `one_more` |\n"
    assert list(faults(good, tmp_path)) == []
    assert list(faults(good.replace("`there`", "`only_declared`"), tmp_path)) == ["hop 1: a.c does not define only_declared"]
    assert list(faults(good.replace("one_more", "no_more"), tmp_path)) == ["hop 1: nothing defines no_more"]
    assert list(faults(good.replace("a.c", "b.c"), tmp_path)) == ["hop 1: there is no b.c"]
    assert list(faults(good + good.replace("| 1", "| 2"), tmp_path)) == ["hop 2 goes back to a.c"]
    assert list(faults(good.replace("| 1", "| 2"), tmp_path)) == ["hops are [2]"]

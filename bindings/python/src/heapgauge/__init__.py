# SPDX-License-Identifier: Apache-2.0
"""heapgauge for Python: recordings are read, programs tag their own memory, and tests have memory limits.

    heapgauge.record(["python3", "app.py"], "run.hg")
    heapgauge.open("run.hg").view("sites", cost="peak", limit=10)     # a table of dicts; .to_dataframe()

From inside a program that is recorded; in any other, these do nothing:

    with heapgauge.scope("parser"): ...
    with heapgauge.label("tenant", name): ...
    heapgauge.snapshot("loaded")
    heapgauge.stats()

The pytest plugin is heapgauge.pytest_plugin. docs/howto/python.md tells what all of it is good for.
"""

from ._command import Recorded, command, record
from ._inside import (
    Numbers,
    Stats,
    TagStats,
    carry,
    is_recorded,
    label,
    mark,
    mode,
    scope,
    set_label,
    snapshot,
    start,
    stats,
    stop,
    tag_stats,
)
from ._profile import Column, Error, Profile, Table, open, open_process

__all__ = [
    "Column", "Error", "Numbers", "Profile", "Recorded", "Stats", "Table", "TagStats", "carry", "command", "is_recorded", "label", "mark", "mode",
    "open", "open_process", "record", "scope", "set_label", "snapshot", "start", "stats", "stop", "tag_stats",
]  # fmt: skip
__version__ = "0.1.0"

# SPDX-License-Identifier: Apache-2.0
"""Small programs that a test brings along as text, and what several tests ask about running ones."""

import contextlib
import os
import pathlib
import platform
import re
import subprocess
import time

WAIT_SECONDS = 600  # for a hang, not for a slow machine: nothing is judged by it


def compile_c(folder, name, source, *flags):
    """Builds the program `name` in the folder and returns its path."""
    text, program = folder / f"{name}.c", folder / name
    text.write_text(source)
    subprocess.run(["gcc", "-g", "-O1", "-w", *flags, text, "-o", program], check=True, timeout=WAIT_SECONDS)
    return program


def wait_for(condition, what):
    """The first true value of the condition; fails with `what` if it does not come."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited in vain: {what}")


def losses(process):
    """What a process lost, but for the collector's clock, which stands still on a machine that is busy enough."""
    return {name: count for name, count in process["health"].items() if name != "clock_stopped_ms"}


# Before, the kernel does not say how a process ended that is not our child, if its parent was faster.
TELLS_ENDS = tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2]) >= (6, 15)


def ended(process, end, code):
    """Whether it ended so, or that is not known. What is not known is not 0."""
    return (process["end"], process["exit_code"]) in [(end, code), *([] if TELLS_ENDS else [("unknown", None)])]


def is_alive(pid):
    """Whether the process runs: a zombie does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def open_files(pid):
    """What its descriptors lead to; some may be closed meanwhile."""
    links = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(link))
    return links

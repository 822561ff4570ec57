# SPDX-License-Identifier: Apache-2.0
"""The command: where it is, how options are written for it, and `heapgauge record`."""

import os
import shutil
import subprocess
import sysconfig
import typing


def command():
    """The path of the command: of this environment if it was installed with it, else of the machine."""
    own = os.path.join(sysconfig.get_path("scripts"), "heapgauge")
    found = own if os.access(own, os.X_OK) else shutil.which("heapgauge")
    if not found:
        raise FileNotFoundError("the command heapgauge is not on PATH; install the wheel of heapgauge, or a package of your system")
    return found


def option_words(options):
    """{"min_size": "1KiB", "callees": True} as it is typed. False and None are left out; a list repeats the option."""
    words = []
    for name, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if one is True:
                words.append(f"--{name.replace('_', '-')}")
            elif one is not None and one is not False:
                words.append(f"--{name.replace('_', '-')}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


class Recorded(typing.NamedTuple):
    """What heapgauge.record gives: the recording, and the status of the program that was recorded."""

    path: str
    returncode: int


def record(argv, output, **options):
    """Runs a program to its end under `heapgauge record`, with the options of that command: python="domains", mode="sample".

    The program has the input and output of this one. The status is the program's; 125 if it could not be recorded, and the reason is on
    stderr then."""
    output = os.fspath(output)
    words = [command(), "record", f"--output={output}", *option_words(options), "--", *map(os.fspath, argv)]
    return Recorded(output, subprocess.run(words).returncode)

# SPDX-License-Identifier: Apache-2.0
"""Which recorder the tests load: the one that is installed, or with HEAPGAUGE_CHECKED=1 its checking build, which asserts its
invariants and traps where one does not hold."""

import os

CHECKED = os.environ.get("HEAPGAUGE_CHECKED") == "1"
FAILED_CHECK = "heapgauge: check failed"


def library(build):
    """Path of the recorder."""
    return build / ("libheapgauge-checked.so" if CHECKED else "libheapgauge.so")


def chosen(build):
    """What has to be in the environment so that the command loads it."""
    return {"HEAPGAUGE_RECORDER": str(library(build))} if CHECKED else {}

# SPDX-License-Identifier: Apache-2.0
"""An agent of root sees all recorded processes of the machine; here it shall see only those that a script started."""

import os
import sys


def enter_namespace():
    """Starts the script again in a PID namespace. Needs root."""
    if os.environ.get("HEAPGAUGE_SCALE_NAMESPACE") != "1":
        os.environ["HEAPGAUGE_SCALE_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, *sys.argv])

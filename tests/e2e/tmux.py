# SPDX-License-Identifier: Apache-2.0
"""A command in a real terminal: tmux draws what it writes, and tells what the screen shows."""

import os
import shlex
import subprocess
import time

from compiled import WAIT_SECONDS



class Tmux:
    """Runs argv in a tmux of its own; when the command has ended the screen stays, with "ended STATUS" at its end."""

    count = 0

    def __init__(self, argv, env, rows=24, columns=80):
        Tmux.count += 1
        self.socket = f"heapgauge-{os.getpid()}-{Tmux.count}"
        self.env = env | {"TERM": "screen-256color", "LC_ALL": "C.UTF-8"}
        command = "trap : INT; " + shlex.join(map(str, argv)) + '; echo "ended $?"; exec sleep 1000'
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), f"sh -c {shlex.quote(command)}")

    def run(self, *words):
        return subprocess.run(
            ["tmux", "-L", self.socket, *words], env=self.env, check=True, capture_output=True, text=True, timeout=WAIT_SECONDS
        ).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], env=self.env, check=False, capture_output=True)

    def screen(self):
        """The lines that are shown."""
        return self.run("capture-pane", "-p").splitlines()

    def press(self, *keys):
        """Keys by tmux's names: "q", "Enter", "C-c", "BTab"."""
        self.run("send-keys", *keys)

    def resize(self, columns, rows):
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def until(self, done, what):
        """The first screen that done(lines) likes and that is drawn to its end: half of a redraw was seen."""
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            lines = self.screen()
            if done(lines) and lines == self.screen():
                return lines
            shown = "\n".join(lines)
            assert time.monotonic() < limit, f"waited in vain for {what}; the screen shows:\n{shown}"
            time.sleep(0.05)

    def until_shown(self, text):
        return self.until(lambda lines: any(text in line for line in lines), repr(text))

    def until_ended(self):
        """The exit status."""
        lines = self.until(lambda lines: any(line.startswith("ended ") for line in lines), "the end")
        return int(next(line for line in lines if line.startswith("ended ")).split()[1])

# SPDX-License-Identifier: Apache-2.0
"""A command on a terminal of its own: a pty with a size, whose keys the test presses."""

import dataclasses
import fcntl
import os
import pty
import select
import subprocess
import termios
import time

from compiled import WAIT_SECONDS



@dataclasses.dataclass
class Ended:
    returncode: int
    text: str  # what the terminal showed, with \n for its \r\n


class Terminal:
    """Runs argv with stdin, stdout and stderr on a new terminal, as its session's leader."""

    def __init__(self, argv, env, cwd, rows=24, columns=80):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (rows, columns))
        self.process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.shown = b""

    def read_until(self, done):
        """Reads what is shown until done() or the end of the terminal."""
        limit = time.monotonic() + WAIT_SECONDS
        while not done():
            assert time.monotonic() < limit, f"still waiting; shown so far: {self.shown[-500:]!r}"
            if not select.select([self.master], [], [], 0.01)[0]:
                continue
            try:
                part = os.read(self.master, 65536)
            except OSError:  # EIO: the last one closed it
                return
            if not part:
                return
            self.shown += part

    def press(self, keys):
        os.write(self.master, keys)

    def end(self):
        self.read_until(lambda: False)
        code = self.process.wait(WAIT_SECONDS)
        os.close(self.master)
        return Ended(code, self.shown.decode(errors="replace").replace("\r\n", "\n"))

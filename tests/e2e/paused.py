# SPDX-License-Identifier: Apache-2.0
"""Programs that wait, for images of them."""

import pathlib
import platform
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for

NO_COPIES = "only x86-64 processes can be cloned"
needs_copies = pytest.mark.skipif(platform.machine() != "x86_64", reason=NO_COPIES)


class Paused:
    """A recorded program that has said "ready" and waits for its input to end."""

    def __init__(self, heapgauge, argv, env, scratch, *options):
        self.heapgauge, self.env, self.scratch = heapgauge, env, scratch
        self.collector = subprocess.Popen(
            [heapgauge, "record", "-q", "-o", scratch / "paused.hg", *options, "--", *argv],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.lines = []
        while not self.lines or self.lines[-1] != "ready\n":
            self.lines.append(self.collector.stdout.readline())
            assert self.lines[-1], "it ended"
        children = pathlib.Path(f"/proc/{self.collector.pid}/task/{self.collector.pid}/children")
        self.pid = int(wait_for(lambda: children.read_text().split(), "the program")[0])

    def image(self, *options):
        path = self.scratch / "image.hg"
        done = subprocess.run([self.heapgauge, "image", str(self.pid), "-o", path, *options],
                              env=self.env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        if platform.machine() != "x86_64" and f"{NO_COPIES}; --stop examines it" in done.stderr:
            self.end()
            pytest.skip(NO_COPIES)
        return done, path

    def end(self):
        self.collector.communicate(timeout=WAIT_SECONDS)
        return self.collector.returncode


def compile_c(scratch, name, text, *flags):
    source = scratch / f"{name}.cc"
    source.write_text(text)
    program = scratch / name
    subprocess.run(["g++", "-O1", "-g", "-std=c++17", "-pthread", "-o", program, source, *flags], check=True, timeout=WAIT_SECONDS)
    return program

# SPDX-License-Identifier: Apache-2.0
"""Reads the inotify events of a directory."""

import contextlib
import ctypes
import os
import struct

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100


@contextlib.contextmanager
def watched(folder, suffix=""):
    """A function that returns the events so far of names with this suffix: by name, in the order in which they happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0 and libc.inotify_add_watch(fd, bytes(folder), IN_MODIFY | IN_MOVED_TO | IN_CREATE) >= 0
    events = {}

    def read():
        with contextlib.suppress(BlockingIOError):
            while True:
                data = os.read(fd, 65536)
                while data:
                    _, mask, _, length = struct.unpack_from("iIII", data)
                    name = data[16 : 16 + length].rstrip(b"\0").decode()
                    if name.endswith(suffix):
                        events.setdefault(name, []).append(mask)
                    data = data[16 + length :]
        return events

    try:
        yield read
    finally:
        os.close(fd)

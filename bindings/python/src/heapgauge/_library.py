# SPDX-License-Identifier: Apache-2.0
"""libheapgauge-profile.so.0, by ctypes: the functions of <heapgauge/profile.h>. It is loaded when a profile is opened first."""

import ctypes
import functools
import os

from . import _command

SONAME = "libheapgauge-profile.so.0"
UNKNOWN, TEXT, UNSIGNED, SIGNED, DOUBLE, FLAG, TABLE = range(7)

_P, _SIZE, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p


class ErrorLayout(ctypes.Structure):
    _fields_ = [("message", ctypes.c_char * 512)]


class Cell(ctypes.Structure):
    """struct hg_cell; the union is read as a number of 64 bits."""

    _fields_ = [("type", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("value", ctypes.c_uint64)]


_FUNCTIONS = {
    "hg_profile_open": (_P, [_TEXT, ctypes.POINTER(ErrorLayout)]),
    "hg_profile_open_process": (_P, [ctypes.c_int, ctypes.POINTER(ErrorLayout)]),
    "hg_profile_close": (None, [_P]),
    "hg_profile_report": (_P, [_P, ctypes.POINTER(_TEXT), _SIZE, ctypes.POINTER(ErrorLayout)]),
    "hg_report_free": (None, [_P]),
    "hg_report_rows": (_P, [_P]),
    "hg_report_head": (_P, [_P]),
    "hg_table_name": (_TEXT, [_P]),
    "hg_table_row_count": (_SIZE, [_P]),
    "hg_table_column_count": (_SIZE, [_P]),
    "hg_table_column_name": (_TEXT, [_P, _SIZE]),
    "hg_table_column_unit": (_TEXT, [_P, _SIZE]),
    "hg_table_row": (ctypes.c_int, [_P, _SIZE, ctypes.POINTER(Cell)]),
}


def _candidates():
    """Where it lies near the command: in its folder (a build), or in the libraries of its prefix; and last, where the loader looks."""
    try:
        folder = os.path.dirname(os.path.realpath(_command.command()))
        for near in ("", "../lib", "../lib64", "../lib/x86_64-linux-gnu"):
            path = os.path.normpath(os.path.join(folder, near, SONAME))
            if os.path.exists(path):
                yield path
    except FileNotFoundError:
        pass
    yield SONAME


@functools.lru_cache(maxsize=None)
def library():
    """The library with its functions declared. OSError if there is none that can be loaded."""
    reason = None
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path)
            break
        except OSError as error:
            reason = reason or error
    else:
        raise OSError(f"{SONAME} cannot be loaded ({reason}); install heapgauge, or put its command on PATH")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded

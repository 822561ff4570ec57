# SPDX-License-Identifier: Apache-2.0
"""How the recorder is found: libc's `confstr` is asked for a name that nobody else knows, and the recorder, if it is there, answers with the
address of its table of functions. The layouts are those of <heapgauge/recorder.h> and <heapgauge/stats.h>; a later recorder has more at
its end. Calls keep the GIL: none of them blocks."""

import ctypes

_QUESTION = 0x48474131
_MARK, _SNAPSHOT = 0, 1

# struct hg_scope is two numbers of 32 bits: it is returned and passed in one register, as a number of 64 bits is.
_SCOPE = ctypes.c_uint64
_TEXT = ctypes.c_char_p
_POINTER = ctypes.c_void_p


class NumbersLayout(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("calls", "bytes", "frees", "freed_bytes", "live_blocks", "live_bytes")]


class StatsLayout(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_uint32),
        ("estimated", ctypes.c_uint32),
        ("heap", NumbersLayout),
        ("peak_bytes", ctypes.c_uint64),
        ("peak_bound_bytes", ctypes.c_uint64),
        ("mapped", NumbersLayout),
        ("tags", ctypes.c_uint64),
        ("sites", ctypes.c_uint64),
        ("recorder_bytes", ctypes.c_uint64),
    ]


class TagLayout(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 64),
        ("parent", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("visits", ctypes.c_uint64),
        ("self", NumbersLayout),
        ("total", NumbersLayout),
    ]


class _Table(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("enter", ctypes.PYFUNCTYPE(_SCOPE, _POINTER, _POINTER)),
        ("enter_name", ctypes.PYFUNCTYPE(_SCOPE, _TEXT, _POINTER)),
        ("leave", ctypes.PYFUNCTYPE(None, _SCOPE)),
        ("mark", ctypes.PYFUNCTYPE(None, ctypes.c_int, _TEXT)),
        ("pools", _POINTER * 5),
        ("context_get", ctypes.PYFUNCTYPE(ctypes.c_uint32)),
        ("context_set", ctypes.PYFUNCTYPE(None, ctypes.c_uint32)),
        ("label", ctypes.PYFUNCTYPE(None, _TEXT, _TEXT)),
        ("label_enter", ctypes.PYFUNCTYPE(_SCOPE, _TEXT, _TEXT, _POINTER)),
        ("turn", ctypes.PYFUNCTYPE(None, ctypes.c_int)),
        ("go", ctypes.PYFUNCTYPE(None, ctypes.c_int, ctypes.c_int)),
        ("stacks", ctypes.PYFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)),
        ("stats", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(StatsLayout), ctypes.c_size_t)),
        ("tag_stats", ctypes.PYFUNCTYPE(ctypes.c_int, _TEXT, ctypes.POINTER(TagLayout))),
        ("tags", _POINTER),
        ("sites", _POINTER),
    ]


class Recorder:
    """Its functions, each looked up once."""

    def __init__(self, table):
        self.enter_name, self.leave = table.enter_name, table.leave
        self.context_get, self.context_set = table.context_get, table.context_set
        self.label, self.label_enter = table.label, table.label_enter
        self.turn, self.go = table.turn, table.go
        self.stats, self.tag_stats = table.stats, table.tag_stats
        self._mark = table.mark

    def mark(self, name):
        self._mark(_MARK, name)

    def snapshot(self, name):
        self._mark(_SNAPSHOT, name)


def find():
    """The recorder of this process; None: there is none, or one that is older than this package."""
    try:
        confstr = ctypes.PyDLL(None).confstr
    except (OSError, AttributeError):  # not Linux
        return None
    confstr.restype = ctypes.c_size_t
    confstr.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    address = ctypes.c_void_p()
    if confstr(_QUESTION, ctypes.byref(address), ctypes.sizeof(address)) != ctypes.sizeof(address) or not address.value:
        return None
    table = _Table.from_address(address.value)
    return Recorder(table) if table.bytes >= ctypes.sizeof(_Table) else None

# SPDX-License-Identifier: Apache-2.0
"""Recordings, read: every view of `heapgauge report` with its options, as rows. The keys are those of docs/json.md; a stack is a list of
frames, innermost first.

A table keeps its profile open, and a profile stays open as long as one of its tables needs it. Threads may share both: a lock of
the profile lets one read at a time. `frames` and `fold_imports` are the same for all tables of a profile that are in use."""

import ctypes
import os
import struct
import threading
import typing
import weakref

from . import _command
from . import _library as lib
from . import _notebook


class Error(Exception):
    """A recording could not be read, or not be asked that: one sentence."""


class Column(typing.NamedTuple):
    """Units are those of <heapgauge/profile.h>: bytes, ns, count, text ..."""

    name: str
    unit: str


class _Handle:
    """What the library opened. It is closed when nobody has it any more."""

    def __init__(self, pointer):
        self.pointer = pointer
        self.lock = threading.RLock()
        weakref.finalize(self, lib.library().hg_profile_close, pointer)


def _text(data):
    return data.decode(errors="replace")


def _opened(function, argument, source):
    error = lib.ErrorLayout()
    pointer = getattr(lib.library(), function)(argument, ctypes.byref(error))
    if not pointer:
        raise Error(_text(error.message))
    return Profile(_Handle(pointer), source)


def _encoded(text):
    """As C has it: what cannot be decoded stays as it is."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise Error(f"{text!r} has a NUL inside, which no path or option can have")
    return encoded


def open(path):
    """A recording, or the profile that a process which records itself keeps."""
    return _opened("hg_profile_open", _encoded(path), [os.path.abspath(path)])


def open_process(pid):
    """A recorded process that runs, as it is now."""
    if not 0 < pid < 1 << 31:
        raise Error(f"{pid} is not a process id; 'heapgauge list' lists recorded processes")
    return _opened("hg_profile_open_process", int(pid), ["--pid", str(int(pid))])


class Profile:
    """A recording. view() asks it, and page() is all of it for a notebook."""

    def __init__(self, handle, source):
        self._handle = handle
        self._source = source

    def view(self, name=None, **options):
        """A view by its name: view("sites", cost="peak", limit=10). The options are those of `heapgauge report`, with _ for -; True is a
        flag, a list repeats the option. Without a name the options choose it, as there."""
        if not self._handle:
            raise Error("the profile is closed; open it again")
        words = _command.option_words(options if name is None else {"view": name, **options})
        return Table(self._handle, words)

    def page(self, height=720, **options):
        """The page of `heapgauge view`, for a notebook to show: of the recording, or of the process as it is now. The options are those of
        `heapgauge report --format html`."""
        try:
            return _notebook.Page(self._source, height, options)
        except RuntimeError as error:
            raise Error(str(error)) from None

    def close(self):
        """Tables that were made stay usable."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Table:
    """The rows of a view: dicts, when iterated or indexed. `head` is a dict of what is true for all of them; `columns` are the keys with their
    units."""

    def __init__(self, handle, words):
        self._handle = handle
        self._texts = {}
        arguments = (ctypes.c_char_p * len(words))(*map(_encoded, words))
        error = lib.ErrorLayout()
        with handle.lock:
            report = lib.library().hg_profile_report(handle.pointer, arguments, len(words), ctypes.byref(error))
        if not report:
            raise Error(_text(error.message))
        # The handle is an argument so that it cannot be closed before.
        weakref.finalize(self, _free_report, report, handle)
        self._rows = lib.library().hg_report_rows(report)
        self.name = _text(lib.library().hg_table_name(self._rows))
        self.columns = _columns(self._rows)
        with handle.lock:
            (self.head,) = self._dicts(lib.library().hg_report_head(report))

    def __len__(self):
        return lib.library().hg_table_row_count(self._rows)

    def __getitem__(self, index):
        rows = range(len(self))[index]  # negative ones, slices, and IndexError
        if isinstance(rows, range):
            return [self[row] for row in rows]
        with self._handle.lock:
            return self._row(self._rows, self.columns, rows)

    def __iter__(self):
        return (self[row] for row in range(len(self)))

    def __repr__(self):
        return f"<{len(self)} {self.name} of {self.head.get('file')}>"

    def _repr_html_(self):
        """What a notebook shows."""
        return _notebook.table_html(self)

    def to_dataframe(self):
        """A pandas.DataFrame with a column for each key; the head is its `attrs`."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_dataframe() needs pandas; install it, or iterate the table") from None
        frame = pandas.DataFrame(list(self), columns=[column.name for column in self.columns])
        frame.attrs.update(self.head)
        return frame

    # ---- cells; the lock is held ----

    def _row(self, table, columns, row):
        cells = (lib.Cell * max(len(columns), 1))()
        if lib.library().hg_table_row(table, row, cells) < 0:
            raise MemoryError("the row cannot be read: out of memory")
        values = struct.iter_unpack("=IIQ", cells)
        return {column.name: self._value(kind, value, column.unit) for column, (kind, _, value) in zip(columns, values)}

    def _dicts(self, table):
        columns = _columns(table)
        return [self._row(table, columns, row) for row in range(lib.library().hg_table_row_count(table))]

    def _value(self, kind, value, unit):
        if kind == lib.UNSIGNED:
            return value
        if kind == lib.TEXT:
            text = self._texts.get(value)
            if text is None:
                text = self._texts[value] = _text(ctypes.string_at(value))
            return text
        if kind == lib.TABLE:
            rows = self._dicts(value)
            if unit == "record":
                return rows[0]
            return [row["value"] for row in rows] if unit == "series" else rows
        if kind == lib.SIGNED:
            return value - (1 << 64) if value >> 63 else value
        if kind == lib.DOUBLE:
            return struct.unpack("=d", struct.pack("=Q", value))[0]
        return bool(value) if kind == lib.FLAG else None


def _free_report(report, handle):
    with handle.lock:
        lib.library().hg_report_free(report)


def _columns(table):
    library = lib.library()
    count = range(library.hg_table_column_count(table))
    return [Column(_text(library.hg_table_column_name(table, i)), _text(library.hg_table_column_unit(table, i))) for i in count]

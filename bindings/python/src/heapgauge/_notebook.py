# SPDX-License-Identifier: Apache-2.0
"""Tables and the page in a notebook. Names come from recordings, which may be anybody's: all text is escaped, and the page has an origin of
its own, so that it reaches neither the notebook nor its server."""

import base64
import html
import os
import subprocess

from . import _command

ROWS_SHOWN = 20
COLUMNS_SHOWN = 12
_NUMBERS = {"bytes", "ns", "ms", "count", "per second", "bytes per second", "id"}
_STEPS = {"bytes": (1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]), "ns": (1000, ["ns", "us", "ms", "s"])}


def quantity(value, unit):
    """5.3 MiB, 1,204 or 12.5 ms, as reports write it."""
    step, names = _STEPS.get(unit, (None, None))
    if unit == "id":
        return str(value)
    if not names or abs(value) < step:
        number = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
        return number if unit == "count" else f"{number} {names[0] if names else unit}"
    power = 0
    while power + 1 < len(names) and round(abs(value) / step**power, 1) >= step:
        power += 1
    return f"{value / step**power:.1f} {names[power]}"


def _frame(frame):
    file = os.path.basename(frame.get("file") or "")
    return f"{frame['function']} ({file}:{frame['line']})" if file else frame["function"]


def _cell(row, column):
    """(text, title): a number with its error and all its digits, or a stack by its innermost frame."""
    value = row[column.name]
    if value is None:
        return "–", ""
    if column.unit == "stack":
        return (_frame(value[0]), "\n".join(map(_frame, value))) if value else ("[no stack]", "")
    if column.unit not in _NUMBERS:
        return str(value), ""
    error = row.get(f"{column.name}_error")
    spread = f" ± {quantity(error, column.unit)}" if error else ""
    return quantity(value, column.unit) + spread, f"{value:,}"


def _shown(table, rows):
    """The stack, names, and the first numbers, which are those of the terminal, if there is anything in them. Errors are beside their numbers, and
    the tables in a cell are for programs."""
    names = {column.name for column in table.columns}
    errors = {f"{name}_error" for name in names} & names
    filled = [column for column in table.columns if column.name not in errors and any(row[column.name] for row in rows)]
    filled = [column for column in filled if column.unit not in ("distribution", "record", "series")]
    return sorted(filled, key=lambda column: ["stack", "text", column.unit].index(column.unit))[:COLUMNS_SHOWN]


def table_html(table):
    rows = table[:ROWS_SHOWN]
    columns = _shown(table, rows)
    lines = ["<div style='overflow-x: auto'><table>"]
    head = "".join(f"<th title='{html.escape(column.unit)}'>{html.escape(column.name)}</th>" for column in columns)
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for row in rows:
        cells = []
        for column in columns:
            text, title = map(html.escape, _cell(row, column))
            align = "right" if column.unit in _NUMBERS else "left"
            cells.append(f"<td style='text-align: {align}; white-space: nowrap' title='{title}'>{text}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    more = f"{len(rows)} of " if len(table) > len(rows) else ""
    caption = [f"{more}{len(table)} {table.name} of {table.head.get('file')}", table.head.get("moment"), table.head.get("note")]
    lines.append(f"</tbody></table></div><p>{html.escape('; '.join(filter(None, caption)))}</p>")
    return "\n".join(lines)


class Page:
    """The page of `heapgauge view` as a file. A notebook shows it in a frame; `html` is its text."""

    def __init__(self, source, height, options):
        words = [_command.command(), "report", *source, "--format=html", *_command.option_words(options)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace").strip())
        self.html = done.stdout.decode()
        self.height = int(height)

    def _repr_html_(self):
        # Of a data: address the page can change its fragment, in which it keeps its state; that of a frame with srcdoc is the notebook's.
        data = base64.b64encode(self.html.encode()).decode()
        return (
            f"<iframe src='data:text/html;base64,{data}' sandbox='allow-scripts' title='heapgauge' "
            f"style='width: 100%; height: {self.height}px; border: 1px solid #ccc'></iframe>"
        )

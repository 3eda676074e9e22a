"""Where words go: data to standard output, talk to standard error, colours only to a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from toolcrib.core.units import format_duration
from toolcrib.errors import ToolcribError
from toolcrib.host.reports.quiet import stdout_is_talk as stdout_is_talk
from toolcrib.host.reports.words import many as many
from toolcrib.observe.log import escape

_COLOURS = {
    "ok": "32",
    "allow": "32",
    "warn": "33",
    "ask": "33",
    "fail": "31",
    "deny": "31",
    "DENY": "31",
    "denied": "31",
    "error": "31",
}


class Unread(Exception):
    """Whoever read the output has gone. Not an OSError: click would end the program for those."""


class Mistake(Exception):
    """Something in what the user gave is wrong; says what, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Refusal(ToolcribError):
    """A running host said no; carries the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def say(text: str = "") -> None:
    """Talk: one or more lines for the person, on standard error."""
    _write(sys.stderr, "\n".join(escape(line) for line in text.split("\n")) + "\n")


def put(text: str, *, exact: bool = False) -> None:
    """Data: on standard output. `exact` keeps every character, unless a terminal would obey it."""
    if not exact or sys.stdout.isatty():
        text = "\n".join(escape(line) for line in text.split("\n"))
    _write(sys.stdout, text + "\n")


def put_json(value: Any) -> None:
    """Data as JSON: one line for programs, indented on a terminal."""
    import json

    put(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def _write(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with reader_may_leave():
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


@contextmanager
def reader_may_leave() -> Generator[None]:
    """A broken pipe inside becomes `Unread`."""
    try:
        yield
    except BrokenPipeError:
        raise Unread from None


def at_terminal() -> bool:
    """Whether somebody can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def coloured(stream: TextIO) -> bool:
    """Whether colours may go to a stream."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def put_lines(lines: Sequence[Sequence[tuple[str, bool]]]) -> None:
    """Data lines made of pieces; a piece with its mark set is coloured by what it says."""
    paints = coloured(sys.stdout)
    for line in lines:
        text = "".join(_painted(escape(t)) if mark and paints else escape(t) for t, mark in line)
        _write(sys.stdout, text.rstrip() + "\n")


def _painted(text: str) -> str:
    colour = _COLOURS.get(text.strip())
    return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Data in columns."""
    cells = [[escape(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(headers, cells)
        return
    widths = [max(len(line[i]) for line in (headers, *cells)) for i in range(len(headers))]
    for line in (headers, *cells):
        text = "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        _write(sys.stdout, text.rstrip() + "\n")


def _rich_table(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = coloured(sys.stdout)
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for header in headers:
        made.add_column(header, overflow="fold")
    for line in cells:
        made.add_row(*(Text(cell, style=_style(cell)) for cell in line))
    console = Console(
        file=sys.stdout, color_system="auto" if colours else None, highlight=False, markup=False
    )
    console.print(made)


def _style(cell: str) -> str:
    return {"32": "green", "33": "yellow", "31": "red"}.get(_COLOURS.get(cell, ""), "")


def clock(seconds: float) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def took(seconds: float | None) -> str:
    """How long something took."""
    if seconds is None:
        return ""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def left(seconds: float) -> str:
    """A time to come; whole seconds are enough unless it is shorter."""
    return format_duration(max(0, round(seconds, 0 if seconds >= 1 else 3)))

"""The library's log, as the program shows it: not at all, as lines, or whole."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolcrib.observe.log import escape

_LOG_LINE = "%(levelname)s %(message)s"


def show_log() -> None:
    """Have the whole log written to standard error, tracebacks included."""
    log = logging.getLogger("toolcrib")
    log.handlers.clear()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LOG_LINE))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False


def hush_log() -> None:
    """Leave the log unseen: results say what happened, and `--debug` shows the rest."""
    log = logging.getLogger("toolcrib")
    log.handlers.clear()
    log.addHandler(logging.NullHandler())
    log.propagate = False


@contextmanager
def log_shown(write: Callable[[str], None], hide: Callable[[str], str]) -> Generator[None]:
    """Have warnings of the log written as lines, unless `--debug` shows everything anyway; `hide`
    takes the secrets out of both."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(hide(f"{record.levelname.lower()}: {escape(record.getMessage())}"))

    class Hiding(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return hide(super().format(record))

    log = logging.getLogger("toolcrib")
    shown = [each for each in log.handlers if not isinstance(each, logging.NullHandler)]
    for each in shown:
        each.setFormatter(Hiding(_LOG_LINE))
    if shown:
        yield
        return
    handler = Lines(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)

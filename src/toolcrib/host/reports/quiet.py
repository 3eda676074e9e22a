"""Code of tools that is loaded or run leaves nothing behind and writes nothing among our data."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class _Shared:
    """A change to the whole process: made by the first who wants it, taken back by the last."""

    def __init__(self, make: Callable[[], Any], undo: Callable[[Any], None]) -> None:
        self._make = make
        self._undo = undo
        self._lock = threading.Lock()
        self._users = 0
        self._before: Any = None

    @contextmanager
    def __call__(self) -> Generator[None]:
        with self._lock:
            if not self._users:
                self._before = self._make()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._undo(self._before)


def _redirect() -> int:
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _restore(kept: int) -> None:
    sys.stdout.flush()
    os.dup2(kept, 1)
    os.close(kept)


def _stop_compiling() -> bool:
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    return before


def _compile_again(before: bool) -> None:
    sys.dont_write_bytecode = before


stdout_is_talk = _Shared(_redirect, _restore)
"""What tools and their children print inside goes to standard error: it is not our data."""
no_compiled_files = _Shared(_stop_compiling, _compile_again)
"""Modules that tools import inside leave no compiled files beside them."""

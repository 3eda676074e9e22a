"""The files of a SQLite database: that it is the one that was meant, and what sorting leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from toolcrib.errors import Denial, ToolFailure

Identity = tuple[int, int]
"""Device and number of a file."""

_LOOK = 0.02
_OPEN_FILES = Path("/proc/self/fd")


class Place:
    """Where a database is. Links are followed once, when the tool is built: what somebody puts in
    the place of the file or of a folder above it later is not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._folder = _identity(self.path.parent)

    def look(self) -> Identity:
        """Which file is there now; refuses a link, and a folder that is another one by now."""
        for part in (*reversed(self.path.parents), self.path):
            found = _status(part)
            if found is None:
                raise ToolFailure("the database does not exist")
            if stat.S_ISLNK(found.st_mode):
                raise _moved()
        if self._folder is None:
            self._folder = _identity(self.path.parent)
        elif _identity(self.path.parent) != self._folder:
            raise _moved()
        found = self.path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure("the database does not exist")
        return found.st_dev, found.st_ino

    def check_open(self, expected: Identity) -> None:
        """Refuse when the file was exchanged while it was being opened."""
        # Not opened here to be compared: closing it would give up SQLite's locks on it.
        if self.look() != expected or expected not in _open_files(expected):
            raise _moved()


class TempFiles:
    """Counts what SQLite has in temporary files. They have no names and belong to the process, so
    it is what all statements have together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.over = False
        self._next = 0.0

    def too_much(self, now: float) -> bool:
        """Whether there is more than the limit; looks only now and then."""
        if now >= self._next and not self.over:
            self._next = now + _LOOK
            self.over = _temporary() > self.most
        return self.over


def _moved() -> Denial:
    text = "the database's file, or a folder above it, was replaced since the tool was built"
    return Denial("path_outside_root", text)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _identity(path: Path) -> Identity | None:
    found = _status(path)
    return None if found is None else (found.st_dev, found.st_ino)


def _open_files(expected: Identity) -> set[Identity]:
    """The files that this process has open; where that cannot be told, as if all were well."""
    if not _OPEN_FILES.is_dir():
        return {expected}
    return {(status.st_dev, status.st_ino) for _, status in _descriptors()}


def _temporary() -> int:
    return sum(status.st_size for name, status in _descriptors() if "/etilqs_" in name)


def _descriptors() -> Iterator[tuple[str, os.stat_result]]:
    """The files that this process has open: what they were called, and their state."""
    for link in _OPEN_FILES.iterdir() if _OPEN_FILES.is_dir() else ():
        try:
            yield str(link.readlink()), link.stat()
        except OSError:
            continue  # closed meanwhile

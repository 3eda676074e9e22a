"""Going through folders by descriptors. Links are seen and never followed."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_NAMES = 100_000
"""Names that are taken from one folder: sorting needs them all in memory."""


class Found(NamedTuple):
    """Something in a folder that is being gone through; valid until the next one."""

    folder: int
    name: str
    place: str
    info: os.stat_result

    @property
    def kind(self) -> str:
        """`file`, `folder`, `link` or `other`."""
        return kind(self.info.st_mode)


def kind(mode: int) -> str:
    """A file's type in one word."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


@contextmanager
def inside(folder: int, name: str) -> Generator[int, None, None]:
    """The folder of that name in an open folder; `OSError` when it is a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def walk(
    folder: int,
    place: str,
    depth: int,
    wanted: Callable[[str, os.stat_result], bool],
    *,
    most: int = _NAMES,
    strict: bool = False,
) -> Iterator[Found]:
    """Everything in an open folder that is `wanted(place, info)`, sorted, `depth` levels
    down. What is not wanted is not entered; what cannot be read is left out, unless `strict`."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, most))
    for name in names:
        where = name if place == "." else f"{place}/{name}"
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            if strict:
                raise
            continue  # gone since
        if not wanted(where, info):
            continue
        yield Found(folder, name, where, info)
        if stat.S_ISDIR(info.st_mode) and depth > 1:
            try:
                with inside(folder, name) as fd:
                    yield from walk(fd, where, depth - 1, wanted, most=most, strict=strict)
            except OSError:
                if strict:
                    raise
                continue  # not ours to read, or not a folder any more

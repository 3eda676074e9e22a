"""What of the host's lies below a folder; no policy gives access to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class Own:
    """Files of the host's, as `files` meets them: by where they are, and by what they are."""

    def __init__(self, paths: Iterable[Path], root: str) -> None:
        """`root` is the tool's folder, without links."""
        self._places: set[str] = set()
        self._files: set[tuple[int, int]] = set()
        top = root.rstrip("/")
        for path in paths:
            real = os.path.realpath(path)
            link = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118
            for place in (real, link):  # whoever replaces the link replaces what it leads to
                if top == place or top.startswith(f"{place}/"):
                    self._places.add(".")
                elif place.startswith(f"{top}/"):
                    self._places.add(place[len(top) + 1 :])
            self._files |= _identities(Path(real))

    def covers(self, place: str, info: os.stat_result | None = None) -> bool:
        """Whether a place below the root is the host's own or in a folder of its own; `info` says
        what was found there, which may have a second name."""
        if info is not None and (info.st_dev, info.st_ino) in self._files:
            return True
        return any(own in (".", place) or place.startswith(f"{own}/") for own in self._places)

    def beneath(self, place: str) -> bool:
        """Whether something of it lies in the folder at a place, and would go where that goes."""
        return any(own.startswith(f"{place}/") for own in self._places)


def _identities(path: Path) -> set[tuple[int, int]]:
    """A file or folder, and what is in the folder."""
    try:
        entries = [path, *path.iterdir()] if path.is_dir() else [path]
        found = [entry.lstat() for entry in entries]
    except OSError:
        return set()  # not there, or going away just now: then there is nothing to find
    return {(info.st_dev, info.st_ino) for info in found}

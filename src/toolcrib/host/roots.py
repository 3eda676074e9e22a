"""Where the paths of policies lead: decided once, and held from then on."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.errors import Denial

_MOST = 4_096
"""Paths that are remembered; sessions bring folders of their own."""


class Roots:
    """What the paths that policies name led to when they were first asked for.

    A command that may write beside such a path could put a link in its place, and have another
    tool work wherever that leads.
    """

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def __call__(self, path: Path) -> Path:
        """The place, without links. `Denial` when a link stands on the way to it by now."""
        name = str(path)
        real = self._real.get(name)
        if real is None:
            while len(self._real) >= _MOST:
                self._real.pop(next(iter(self._real)))
            real = self._real[name] = os.path.realpath(path)
        elif os.path.realpath(real) != real:
            raise Denial(
                "path_outside_root",
                f"{path.name or name} leads elsewhere than it did when the tool was made; look who "
                "put a link there, then load the configuration anew",
            )
        return Path(real)

"""What a command sees of the file system: the system's programs, and the paths it was given."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolcrib.errors import ToolFailure

Mode = Literal["read", "write"]
Row = tuple[str, str, Mode]
"""Where something is, where it is shown, and how."""

TOPS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Nothing here is private: no shadow, no host keys, no machine's name.
ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
STUB = Path(__file__).parent / "stub"
STUBS = ("passwd", "group", "hosts", "nsswitch.conf")


@functools.cache
def system() -> tuple[str, ...]:
    """The parts of the system tree that exist here and are shown to every command."""
    return tuple(path for path in (*TOPS, *ETC) if Path(path).exists())


@dataclass(frozen=True, slots=True)
class View:
    """The paths of one command, each resolved, parents before children."""

    paths: tuple[Row, ...]

    @staticmethod
    def of(read: Iterable[str], write: Iterable[str], *, system: bool = True) -> View:
        """The view of a command that may read and write these paths; `system` says that it has
        the host's system tree around it."""
        modes: dict[str, Mode] = dict.fromkeys(read, "read")
        modes |= dict.fromkeys(write, "write")
        shown: dict[str, tuple[str, Mode]] = {}
        for path, mode in modes.items():
            real = os.path.realpath(path)
            # A path behind a link is shown at both its names, so that either can be used.
            for place in (real, path):
                if place not in shown or mode == "write":
                    shown[place] = (real, mode)
        rows: list[Row] = [(real, place, mode) for place, (real, mode) in sorted(shown.items())]
        if system:
            rows = [row for row in rows if row[2] == "write" or not _in_system(row[0])]
        return View(tuple(rows))

    def of_mode(self, mode: Mode) -> list[str]:
        """The resolved paths with this mode."""
        return [real for real, _, which in self.paths if which == mode]

    def sees(self, path: str) -> bool:
        """Whether a path that exists on the host exists in the view too."""
        real = os.path.realpath(path)
        roots = [real_root for real_root, _, _ in self.paths]
        return _in_system(real) or any(inside(real, root) for root in roots)

    def folder(self, cwd: str, name: str) -> str:
        """The folder to work in, resolved; a failure in words when it cannot be seen."""
        if cwd == "/tmp":  # noqa: S108 - the command's own
            return cwd
        real = os.path.realpath(cwd)
        if not Path(real).is_dir():
            raise FileNotFoundError(2, "the folder to work in does not exist", cwd)
        if not self.sees(real):
            raise ToolFailure(
                f"the sandbox {name} does not show the folder {cwd} to commands; "
                "name it under read or write in the sandbox's settings"
            )
        return real

    def program(self, path: str, name: str) -> str:
        """The program, if it can be seen; FileNotFoundError otherwise."""
        if not self.sees(path):
            raise FileNotFoundError(
                2, f"the sandbox {name} does not show this program to commands", path
            )
        return path


def inside(path: str, root: str) -> bool:
    """Whether a resolved path is the root or below it."""
    return path == root or path.startswith(f"{root}/")


def between(root: str, place: str, target: str) -> Iterator[Row]:
    """The folders between a place that is shown and a target in it, to be mounted on themselves."""
    parts = Path(target).relative_to(place).parts[:-1]
    for count in range(1, len(parts) + 1):
        below = "/".join(parts[:count])
        yield f"{root}/{below}", f"{place}/{below}", "write"


def shown_by(rows: Sequence[Row], target: str) -> Row:
    """The row that decides what is at a place: the deepest, and of equals the last."""
    found = [row for row in rows if inside(target, row[1])]
    return max(reversed(found), key=lambda row: len(row[1]))


def _in_system(real: str) -> bool:
    return any(inside(real, os.path.realpath(root)) for root in system())

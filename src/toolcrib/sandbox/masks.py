"""Keeping paths out of a command's sight that lie inside what it is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from toolcrib.errors import ToolFailure
from toolcrib.sandbox.settings import Reader, Settings
from toolcrib.sandbox.view import Mode, Row, View, between, inside, shown_by, system

STATE = ".toolcrib"
"""The folder for a host's own files; anything else of its own is a file."""
_OWN_FOLDER = f"Keep it in a folder of its own, such as {STATE}/trail.db"


class Mask(NamedTuple):
    """A place where a command sees something empty instead of what is there."""

    place: str
    folder: bool


def masked(
    seen: View, hide: Sequence[str], own: Sequence[Path], name: str, *, system: bool = True
) -> tuple[View, tuple[Mask, ...]]:
    """What is to be shown, and what of it is covered: the paths `hide` and the host's `own`.

    A covered entry cannot be renamed or deleted, because something is mounted there. The folders
    between it and the path that is shown are mounted on themselves, for the same reason.
    """
    rows: list[Row] = [*(_system_rows() if system else ()), *seen.paths]
    pins: set[Row] = set()
    masks: set[Mask] = set()
    for path, is_own in (*((path, False) for path in hide), *((str(path), True) for path in own)):
        real = os.path.realpath(path)
        _not_behind_links(path, seen, name)
        for root, place, mode in rows:
            if inside(root, real) and root in (at for at, _, _ in seen.paths):
                raise _refused(name, f"{place} is kept from commands")
            target = place + real[len(root) :]
            if inside(real, root) and shown_by(rows, target) == (root, place, mode):
                folder = _coverable(real, mode, name, own=is_own)
                if folder is not None:
                    masks.add(Mask(target, folder))
                    pins |= set(between(root, place, target)) if mode == "write" else set()
    if not masks:
        return seen, ()
    # What is covered by a folder needs no cover of its own.
    folders = [mask.place for mask in masks if mask.folder]
    kept = {m for m in masks if not any(inside(m.place, f) and m.place != f for f in folders)}
    paths = sorted({*seen.paths, *pins}, key=lambda row: row[1])
    return View(tuple(paths)), tuple(sorted(kept))


def check_own(reader: Reader, settings: Settings, own: Sequence[Path], *, masks: bool) -> None:
    """Complain about settings that show the host's own files; `masks` says that they could be
    covered where commands only read."""
    for key, paths in (("read", settings.read), ("write", settings.write)):
        for shown in paths:
            real = os.path.realpath(shown)
            for path in (*own, *map(Path, settings.hide)):
                if inside(real, os.path.realpath(path)):
                    text = f"{key} names {shown}, and {path} is hidden from commands"
                    raise reader.wrong(key, text, "Take it out of the list")
            for path in own:
                if not inside(os.path.realpath(path), real):
                    continue
                if not masks:
                    raise reader.wrong(
                        key,
                        f"{key} names {shown}, and commands in this type of sandbox would see the "
                        f"host's own {path}",
                        "Name the folders in it that are needed, or use type: bubblewrap",
                    )
                if key == "write" and path.name != STATE:
                    text = f"{key} names {shown}, where the host keeps its own {path}"
                    raise reader.wrong(key, text, _OWN_FOLDER)


def check_unshown(read: Sequence[str], write: Sequence[str], own: Sequence[Path]) -> None:
    """Refuse a command of a sandbox that covers nothing, if it were shown the host's own."""
    for shown in (*read, *write):
        real = os.path.realpath(shown)
        for path in own:
            mine = os.path.realpath(path)
            if inside(mine, real) or inside(real, mine):
                raise PermissionError(13, f"{path} of the host's own would be seen", shown)


def _coverable(real: str, mode: Mode, name: str, *, own: bool) -> bool | None:
    """Whether it is a folder; None when there is nothing to cover. Made if it must be."""
    if Path(real).is_dir():
        return True
    if own and mode == "write" and Path(real).name != STATE:
        # SQLite believes a journal that lies beside its file, whoever put it there.
        raise _refused(name, f"commands could change {real}, the host's own. {_OWN_FOLDER}")
    if os.path.lexists(real):
        return False
    if mode == "read":
        return None  # nobody inside can make it
    if own and Path(real).parent.is_dir():
        Path(real).mkdir(mode=0o700, exist_ok=True)
        return True
    raise _refused(name, f"{real}, which is to be hidden, is not there, and commands could make it")


def _not_behind_links(path: str, seen: View, name: str) -> None:
    """A link cannot be covered. One that commands may replace would lead the host elsewhere."""
    here = "/"
    for part in Path(path).parts[1:]:
        entry = f"{here.rstrip('/')}/{part}"
        if Path(entry).is_symlink() and any(inside(entry, top) for top in seen.of_mode("write")):
            raise _refused(name, f"{entry} is a link on the way to {path}, and could be replaced")
        here = os.path.realpath(entry)


def _system_rows() -> Iterator[Row]:
    for path in system():
        yield os.path.realpath(path), path, "read"


def _refused(name: str, why: str) -> ToolFailure:
    return ToolFailure(f"the sandbox {name} refuses: {why}", reason="sandbox_unavailable")

"""Keeping what a command may write apart from what rules and tools come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from toolcrib.errors import ToolFailure
from toolcrib.sandbox.settings import Reader, Settings
from toolcrib.sandbox.view import Row, View, between, inside, shown_by

_CURE = "Give commands a folder of their own to write in, apart from the configuration"


def guard(seen: View, guarded: Sequence[Path], own: Sequence[Path], name: str) -> View:
    """The view in which `guarded` paths can only be read, wherever they lie.

    Each is mounted on itself, so that it can be neither changed nor replaced; so are the folders
    above it, which could be renamed. The host's `own` files are not even shown: others see to that.
    """
    hidden = [os.path.realpath(path) for path in own]
    rows: set[Row] = set()
    for path in map(str, guarded):
        if any(inside(path, top) for top in hidden):
            continue
        for root, place, mode in seen.paths:
            target = place + path[len(root) :]
            if mode == "read":
                continue
            if inside(root, path):
                raise _refused(name, f"{place} holds what rules and tools come from")
            if inside(path, root) and shown_by(seen.paths, target) == (root, place, mode):
                _must_be_there(path, name)
                rows.add((path, target, "read"))
                rows |= set(between(root, place, target))
    # A place that is guarded itself needs not be there to be entered only.
    fixed = {place for _, place, mode in rows if mode == "read"}
    rows = {row for row in rows if row[2] == "read" or row[1] not in fixed}
    kept = [row for row in seen.paths if row[1] not in fixed]
    return View(tuple(sorted({*kept, *rows}, key=lambda row: row[1]))) if rows else seen


def check_guarded(
    reader: Reader, settings: Settings, guarded: Sequence[Path], *, mounts: bool
) -> None:
    """Complain about settings that let commands change them; `mounts` says that they can be kept
    apart inside what is written."""
    for shown in settings.write:
        real = os.path.realpath(shown)
        for path in map(str, guarded):
            if inside(real, path) or (not mounts and inside(path, real)):
                text = f"write names {shown}, and commands could change {path}"
                raise reader.wrong("write", f"{text}, which rules or tools come from", _CURE)


def check_unwritten(write: Sequence[str], guarded: Sequence[Path]) -> None:
    """Refuse a command of a sandbox that cannot keep them apart, if it could change one."""
    for shown in write:
        real = os.path.realpath(shown)
        for path in map(str, guarded):
            if inside(path, real) or inside(real, path):
                text = f"{path}, which rules or tools come from, could be changed"
                raise PermissionError(13, text, shown)


def _must_be_there(path: str, name: str) -> None:
    """What is not there cannot be mounted, and a command could make it: a folder is made."""
    if Path(path).is_symlink():
        raise _refused(name, f"{path} is a link to what rules or tools come from")
    if not Path(path).exists():
        if Path(path).suffix or not Path(path).parent.is_dir():
            raise _refused(name, f"{path}, which rules or tools come from, is gone")
        Path(path).mkdir(mode=0o755, exist_ok=True)


def _refused(name: str, why: str) -> ToolFailure:
    text = f"the sandbox {name} refuses: commands could change it: {why}. {_CURE}"
    return ToolFailure(text, reason="sandbox_unavailable")

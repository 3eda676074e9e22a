"""Keeping git from the host's own files, where those lie in the repository's folder.

Git would read such a file to add it, and would overwrite or delete it to check out a commit that
has one of its name; that the file is ignored does not hold git back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Protocol

from toolcrib.errors import Denial
from toolcrib.tools.git.repository import Repository


class Asked(Protocol):
    """Git, as far as it is needed here."""

    @property
    def own(self) -> tuple[Path, ...]: ...
    @property
    def repository(self) -> Repository: ...
    async def text(self, action: str, *arguments: str) -> str: ...


def resolved(paths: Iterable[Path], repository: Repository) -> tuple[Path, ...]:
    """The host's own files without links; `Denial` when the repository is in one of them."""
    own = tuple(Path(os.path.realpath(path)) for path in paths)
    if any(repository.folder.is_relative_to(path) for path in own):
        raise _denied("the repository lies in the host's own folder")
    return own


def must_not_name(git: Asked, names: Iterable[str]) -> None:
    """Refuse names of files that are the host's own."""
    for name in names:
        path = git.repository.folder / name
        if any(path.is_relative_to(own) or own.is_relative_to(path) for own in git.own):
            # A folder that git names as one has nothing in it that git knows by name.
            raise _denied(f"{name} is the host's own, or holds something that is")


def must_not_hold(git: Asked, folder: Path) -> None:
    """Refuse a folder that holds, or lies in, something of the host's own."""
    if any(folder.is_relative_to(own) or own.is_relative_to(folder) for own in git.own):
        raise _denied("that folder has to do with the host's own files")


async def must_not_track(git: Asked, action: str) -> None:
    """Refuse to look at or change the files of a worktree in which git follows one of them."""
    names = _names(git)
    if names and await git.text(action, "ls-files", "-z", "--", *names):
        raise _denied("the repository follows the host's own files; take them out of it")


async def must_not_bring(git: Asked, action: str, commit: str) -> None:
    """Refuse to check out a commit that has one of them, or puts something in its way."""
    await must_not_track(git, action)
    names = _names(git)
    if not names:
        return
    found = await git.text(action, "ls-tree", "-r", "-z", "--name-only", commit, "--", *names)
    above = {str(up) for name in names for up in PurePosixPath(name).parents if up.name}
    for folder in sorted(above):
        listed = await git.text(action, "ls-tree", "-z", commit, "--", folder)
        found += "" if " tree " in listed.partition("\t")[0] else listed
    if found:
        raise _denied("that commit has files where the host keeps its own")


def _names(git: Asked) -> list[str]:
    folder = git.repository.folder
    return [str(own.relative_to(folder)) for own in git.own if own.is_relative_to(folder)]


def _denied(text: str) -> Denial:
    return Denial("path_not_allowed", text)

"""Keeping git from the host's own files, where those lie in the repository's folder.

Git would read such a file to add it, and would overwrite or delete it to check out a commit that
has one of its name; that the file is ignored does not hold git back. What rules and tools come
from may be read and added, and must not be changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Protocol

from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.git.repository import Repository


class Asked(Protocol):
    """Git, as far as it is needed here."""

    @property
    def own(self) -> tuple[Path, ...]: ...
    @property
    def guarded(self) -> tuple[Path, ...]: ...
    @property
    def repository(self) -> Repository: ...
    async def text(self, action: str, *arguments: str) -> str: ...


def resolved(paths: Iterable[Path], repository: Repository) -> tuple[Path, ...]:
    """The host's own files without links; `Denial` when the repository is in one of them."""
    own = tuple(Path(os.path.realpath(path)) for path in paths)
    if any(repository.folder.is_relative_to(path) for path in own):
        raise _denied("the repository lies in the host's own folder")
    return own


def placed(path: Path) -> Path:
    """A path by its real folder; what it is itself, a link perhaps, stays as it is."""
    return Path(os.path.realpath(path.parent), path.name)


def must_not_name(git: Asked, names: Iterable[str]) -> None:
    """Refuse names of files that are the host's own."""
    for name in names:
        path = git.repository.folder / name
        if any(path.is_relative_to(own) or own.is_relative_to(path) for own in git.own):
            # A folder that git names as one has nothing in it that git knows by name.
            raise _denied(f"{name} is the host's own, or holds something that is")


def must_not_hold(git: Asked, folder: Path) -> None:
    """Refuse a folder that holds, or lies in, something of the host's own or what rules it."""
    both = (*git.own, *git.guarded)
    if any(folder.is_relative_to(own) or own.is_relative_to(folder) for own in both):
        raise _denied("that folder has to do with the host's own files")


async def must_not_track(git: Asked, action: str) -> None:
    """Refuse to look at or change the files of a worktree in which git follows one of them."""
    names = _names(git, git.own)
    if names and await git.text(action, "ls-files", "-z", "--", *names):
        raise _denied("the repository follows the host's own files; take them out of it")


async def must_not_bring(git: Asked, action: str, commit: str) -> None:
    """Refuse to check out a commit that has one of them, or puts something in its way, or has
    other rules and tools than those that are in force."""
    await must_not_track(git, action)
    names = _names(git, git.own)
    if names and await _contents(git, action, commit, names):
        raise _denied("that commit has files where the host keeps its own")
    names = _names(git, git.guarded)
    if names and await _changes(git, action, commit, names):
        raise _denied("that commit changes what the host's rules or tools come from")


async def _contents(git: Asked, action: str, commit: str, names: list[str]) -> str:
    """What a commit has at some places, and in the place of folders above them."""
    found = await git.text(action, "ls-tree", "-r", "-z", commit, "--", *names)
    above = {str(up) for name in names for up in PurePosixPath(name).parents if up.name}
    for folder in sorted(above):
        listed = await git.text(action, "ls-tree", "-z", commit, "--", folder)
        found += "" if " tree " in listed.partition("\t")[0] else listed
    return found


async def _changes(git: Asked, action: str, commit: str, names: list[str]) -> bool:
    """Whether entering a commit changes something at some places: git leaves alone what is equal
    in the commit that is entered and the one that is left."""
    try:
        before = await _contents(git, action, "HEAD", names)
    except ToolFailure:  # there is no commit yet
        before = ""
    return await _contents(git, action, commit, names) != before


def _names(git: Asked, paths: Iterable[Path]) -> list[str]:
    folder = git.repository.folder
    return [str(path.relative_to(folder)) for path in paths if path.is_relative_to(folder)]


def _denied(text: str) -> Denial:
    return Denial("path_not_allowed", text)

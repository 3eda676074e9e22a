"""What one call of `files` asks for, and what it works with."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolcrib.core.context import ToolContext
from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.files.beneath import Root, reopened
from toolcrib.tools.files.own import Own

if TYPE_CHECKING:
    from toolcrib.tools.files.policy import FilesPolicy

Action = Literal["read", "list", "search", "stat", "write", "edit", "move", "delete"]
Encoding = Literal["utf-8", "latin-1", "base64"]


class Spot(NamedTuple):
    """A name in an open folder: where something is, or could be put."""

    folder: int
    name: str
    place: str
    """Where it really is, relative to the root."""

    def info(self) -> os.stat_result | None:
        """What is there, links not followed; None for nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The arguments of a call, the limits in force and the open root."""

    ctx: ToolContext
    policy: FilesPolicy
    root: Root
    own: Own
    """What is the host's, and stays out of reach."""
    guarded: Own
    """What rules and tools come from, which may be read and never changed."""
    action: Action
    path: str
    to: str = ""
    content: str = ""
    old: str = ""
    new: str = ""
    count: int = 1
    pattern: str = ""
    regex: bool = False
    ignore_case: bool = False
    glob: str = ""
    depth: int = 1
    offset: int = 1
    limit: int = 0
    encoding: Encoding = "utf-8"
    overwrite: bool = False
    if_hash: str = ""
    parents: bool = False
    recursive: bool = False

    def still_wanted(self) -> None:
        """Stop here when the call is over already, so that nothing changes late."""
        if self.ctx.cancelled:
            raise ToolFailure("the call ended before anything was changed", reason="cancelled")

    def allowed(self, fd: int, *, folder: bool = False) -> str:
        """Where an open file really is; refused when the globs do not let that be used."""
        place = self.root.place(fd)
        self.must_reach(place, folder=folder, info=os.fstat(fd))
        return place

    def reachable(
        self, place: str, *, folder: bool = False, info: os.stat_result | None = None
    ) -> bool:
        """Whether a place may be used: the globs let it be, and it is not the host's own."""
        return self.policy.reachable(place, folder=folder) and not self.own.covers(place, info)

    def must_reach(
        self, place: str, *, folder: bool = False, info: os.stat_result | None = None
    ) -> None:
        """Refuse a place that may not be used."""
        if not self.reachable(place, folder=folder, info=info):
            text = "it leads to a file that is not among the allowed ones"
            raise Denial("path_not_allowed", text)

    def _must_not_rule(self, place: str, info: os.stat_result | None) -> None:
        """Refuse to change what rules and tools come from, or a folder that holds some of it."""
        if self.guarded.covers(place, info) or self.guarded.beneath(place):
            text = "the host's rules and tools come from there: it may be read, and not changed"
            raise Denial("path_not_allowed", text)

    @contextmanager
    def file(self, path: str) -> Generator[tuple[int, str, os.stat_result], None, None]:
        """A regular file, opened for reading; its place and what it is."""
        with self.root.look(path) as seen:
            place, info = self.allowed(seen), os.fstat(seen)
            only_file(info, path)
            with reopened(seen, os.O_RDONLY) as fd:
                yield fd, place, info

    @contextmanager
    def spot(self, path: str, *, parents: bool = False) -> Generator[Spot, None, None]:
        """The place of something that is to be changed. Links on the way are followed within the
        root; the last name never is."""
        above, name = posixpath.split(path)
        if parents:
            self._make(above or ".")
        with self.root.folder(above or ".") as folder:
            place = _below(self.root.place(folder), name)
            spot = Spot(folder, name, place)
            self.must_reach(place, info=spot.info())
            self._must_not_rule(place, spot.info())
            yield spot

    def _make(self, folder: str) -> None:
        missing: list[str] = []
        while True:
            try:
                with self.root.folder(folder) as fd:
                    place = self.root.place(fd)
                break
            except ToolFailure as failure:
                if failure.reason != "file_not_found" or folder == ".":
                    raise
            folder, name = posixpath.split(folder)
            folder = folder or "."
            missing.insert(0, name)
        self.must_reach(_below(place, *missing), folder=True)
        self._must_not_rule(_below(place, *missing), None)
        for name in missing:
            self.still_wanted()
            with self.root.folder(folder) as fd:
                os.mkdir(name, dir_fd=fd)
            folder = posixpath.join(folder, name)


def _below(place: str, *names: str) -> str:
    return posixpath.normpath(posixpath.join(place, *names))


def only_file(info: os.stat_result, path: str) -> None:
    """Refuse what is not a regular file."""
    if stat.S_ISDIR(info.st_mode):
        raise Denial("is_directory", f"{path} is a folder")
    if stat.S_ISLNK(info.st_mode):
        raise Denial("path_not_allowed", f"{path} is a symbolic link; name the file itself")
    if not stat.S_ISREG(info.st_mode):
        raise Denial("not_a_file", f"{path} is a device, pipe or socket")

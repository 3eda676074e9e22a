"""Finding a repository without trusting it.

Git is told where everything is (`GIT_DIR`, `GIT_COMMON_DIR`, `GIT_WORK_TREE`), so it looks for
nothing itself, and what the repository says about other places (`core.worktree`, a `.git` file,
`commondir`) counts only after it was seen to stay below the root. Git's own check of who owns a
repository is thereby off: it guards against configuration that runs programs, and here no
configuration does.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from toolcrib.errors import Denial, ToolFailure

_SMALL = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """Where the parts of a repository are; all paths absolute and without links."""

    root: Path
    """The folder of the main worktree; nothing outside it belongs to the repository."""
    folder: Path
    """The worktree to work in: the root, or one below it."""
    git_dir: Path
    common_dir: Path


def find(root: Path, worktree: str = "") -> Repository:
    """The repository at `root`, a path without links; `Denial` when it reaches outside or is laid
    out as a trap."""
    try:
        top = root.resolve(strict=True)
        if top != root:
            raise Denial("path_outside_root", "the repository's folder has become a link")
        common = _git_dir(top)
    except OSError:
        raise ToolFailure(
            "there is no git repository in the tool's folder", reason="not_a_repository"
        ) from None
    if common.joinpath("commondir").is_symlink() or common.joinpath("commondir").exists():
        raise _unsafe("its .git belongs to another repository")
    _no_links(common)
    _alternates(common / "objects", top)
    main = Repository(root=top, folder=top, git_dir=common, common_dir=common)
    return main if worktree in ("", ".") else _linked(main, worktree)


def free_place(repository: Repository, worktree: str) -> Path:
    """Where a new worktree may be made: below the root, through no link, and not there yet."""
    place = repository.root
    for name in Path(worktree).parts:
        place /= name
        if place.is_symlink():
            raise Denial("path_outside_root", f"{worktree!r} goes through a symbolic link")
    if place.exists():
        raise Denial("file_exists", f"{worktree} exists")
    return place


def _git_dir(top: Path) -> Path:
    entry = top / ".git"
    mode = entry.lstat().st_mode
    if stat.S_ISDIR(mode):
        return entry
    if not stat.S_ISREG(mode):
        raise _unsafe("its .git is a link")
    target = _pointer(entry, "gitdir: ").resolve(strict=True)
    if not target.is_relative_to(top):
        raise _unsafe("its .git file leads out of the tool's folder")
    return target


def _pointer(file: Path, start: str) -> Path:
    """The path that is written in a small file of git's."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise _unsafe(f"{file.name} is not a file")
    with file.open("rb") as opened:
        text = os.fsdecode(opened.read(_SMALL)).rstrip("\n")
    if not text.startswith(start) or "\0" in text:
        raise _unsafe(f"{file.name} is not what git writes")
    return file.parent / text.removeprefix(start)


def _linked(main: Repository, worktree: str) -> Repository:
    """A worktree below the root, which has to be known on both sides."""
    folder = main.root / worktree
    try:
        real = folder.resolve(strict=True)
        own = _pointer(folder / ".git", "gitdir: ").resolve(strict=True)
        back = _pointer(own / "gitdir", "").resolve(strict=True)
        shared = _pointer(own / "commondir", "").resolve(strict=True)
    except OSError:
        raise ToolFailure(f"{worktree} is no worktree", reason="unknown_worktree") from None
    known = own.parent == main.common_dir / "worktrees" and shared == main.common_dir
    if not known or back != real / ".git" or real != Path(os.path.normpath(folder)):
        raise _unsafe(f"{worktree} is not a worktree of it")
    return Repository(root=main.root, folder=real, git_dir=own, common_dir=main.common_dir)


def _no_links(common: Path) -> None:
    """Git follows links in its own folder. A planted `COMMIT_EDITMSG` would put a message into
    any file, and a planted `info/grafts` any file into a message. Single objects are left out:
    their names cannot be chosen."""
    folders = [common]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _unsafe(f"{entry.name!r} in its .git is a link")
                single = folder.name == "objects" and len(entry.name) == 2
                if not single and entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))


def _alternates(objects: Path, top: Path, depth: int = 5) -> None:
    """Objects may be borrowed only from below the root."""
    file = objects / "info/alternates"
    if not file.is_symlink() and not file.exists():
        return
    if depth == 0 or not stat.S_ISREG(file.lstat().st_mode) or file.stat().st_size > _SMALL:
        raise _unsafe("its objects/info/alternates is not what git writes")
    for line in os.fsdecode(file.read_bytes()).splitlines():
        if not line or line.startswith("#"):
            continue
        other = objects.joinpath(line).resolve()
        if line.startswith('"') or not other.is_relative_to(top):
            raise _unsafe("it borrows objects from outside the tool's folder")
        _alternates(other, top, depth - 1)


def _unsafe(why: str) -> Denial:
    return Denial("unsafe_repository", f"the repository is not used: {why}")

"""The actions of `git` that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.git.names import moment
from toolcrib.tools.git.own import must_not_name
from toolcrib.tools.git.request import Request
from toolcrib.tools.git.running import Git

_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
_STATUS = ("status", "--porcelain=v2", "-z", "--ignore-submodules=dirty")
_FIELDS = ("commit", "author", "email", "date", "subject", "body")
_FORMAT = "--format=tformat:%H%x00%an%x00%ae%x00%aI%x00%s%x00%b"


async def status(git: Git, request: Request) -> dict[str, Any]:
    """The branch, and the files that are not as they were committed."""
    out, cut = await git.shown("status", *_STATUS, "--branch", "--untracked-files=normal")
    answer: dict[str, Any] = {"branch": None, "commit": None}
    files: list[dict[str, str]] = []
    names = {"branch.oid": "commit", "branch.head": "branch", "branch.upstream": "upstream"}
    for line in _status_lines(out, cut):
        if line.startswith("# "):
            key, _, value = line[2:].partition(" ")
            if key in names and value not in ("(initial)", "(detached)"):
                answer[names[key]] = value
            elif key == "branch.ab":
                ahead, behind = value.split()
                answer |= {"ahead": int(ahead), "behind": -int(behind)}
        else:
            files.append(_changed(line))
    most = git.policy.max_files
    cut = cut or len(files) > most
    return {**answer, "clean": not files, "files": files[:most], "truncated": cut}


def _status_lines(out: str, cut: bool) -> Iterator[str]:
    """The records; that of a renamed file has its old name behind a tab."""
    items = iter(out.split("\0")[: -1 if cut else None])
    for item in items:
        if item.startswith("2 "):
            yield f"{item}\t{next(items, '')}"
        elif item:
            yield item


def _changed(line: str) -> dict[str, str]:
    kind = line[0]
    if kind in "?!":
        return {"path": line[2:], "state": "untracked"}
    words = line.split(" ", {"1": 8, "2": 9, "u": 10}[kind])
    found = {"path": words[-1], "state": "conflict" if kind == "u" else "changed"}
    if kind == "2":
        found["path"], _, found["from"] = words[-1].partition("\t")
    return {**found, "index": words[1][0], "worktree": words[1][1]}


async def to_add(git: Git, paths: tuple[str, ...]) -> list[str]:
    """The files at some paths that differ from what is added. Submodules are left out: git would
    run in them, by a configuration of their own."""
    what = ("--untracked-files=all", "--", *paths)
    out = await git.text("add", *_STATUS, *what)
    found: list[str] = []
    for line in _status_lines(out, cut=False):
        submodule = line.endswith("/") if line[0] == "?" else line.split(" ", 3)[2][0] == "S"
        change = _changed(line)
        if not submodule and change.get("worktree") != ".":
            found.append(change["path"])
    return found


async def is_dirty(git: Git, *, untracked: bool) -> bool:
    """Whether there are changes that are in no commit; `untracked` files, ignored ones too, count
    where they would be lost."""
    kinds = ("normal", "traditional") if untracked else ("no", "no")
    flags = (f"--untracked-files={kinds[0]}", f"--ignored={kinds[1]}")
    try:
        return bool(await git.text("status", *_STATUS, *flags))
    except ToolFailure as failure:
        raise ToolFailure(failure.message, reason="worktree_inspection_failed") from None


async def diff(git: Git, request: Request) -> dict[str, Any]:
    """What changed: in the worktree, in the index, or between commits."""
    what = ("--cached",) if request.staged else ()
    rest = (await _commits(git, request.ref),) if request.ref else ()
    return await _diff(git, request, "diff", *what, *rest)


async def _commits(git: Git, ref: str) -> str:
    """The commit or the range of commits that a ref names, by their ids. A file of a commit
    would be compared with any file of the machine that a path leads to."""
    dots = next((dots for dots in ("...", "..") if dots in ref), "")
    sides = ref.split(dots, 1) if dots else [ref]
    return dots.join([await commit_of(git, s or "HEAD", reason="git_diff_failed") for s in sides])


async def diff_since(git: Git, request: Request) -> dict[str, Any]:
    """What changed between the last commit before a time and now."""
    tip = await commit_of(git, request.ref or "HEAD", reason="base_commit_resolution_failed")
    before = f"--before=@{moment(request.since)} +0000"
    base = await git.asked("rev-list", "-1", before, "--end-of-options", tip, "--")
    if base is None:
        raise ToolFailure("the history cannot be read", reason="base_commit_resolution_failed")
    if not base:
        raise ToolFailure(
            f"there is no commit before {request.since!r}", reason="no_commit_before_since"
        )
    return {"base": base, "commit": tip, **await _diff(git, request, "diff_since", base, tip)}


async def _diff(git: Git, request: Request, action: str, *what: str) -> dict[str, Any]:
    plain = ("diff", *_PLAIN, "--ignore-submodules=dirty")
    paths = ("--", *request.paths)
    names, cut = await git.shown(action, *plain, "--name-only", "-z", *what, *paths)
    must_not_name(git, (name for name in names.split("\0") if name))
    count, most = names.count("\0"), git.policy.max_files
    if cut or count > most:
        raise Denial("too_many_files", f"{count} files differ, and at most {most} are shown")
    text, cut = await git.shown(action, *plain, f"-U{git.policy.context_lines}", *what, *paths)
    return {"diff": text, "files": [n for n in names.split("\0") if n], "truncated": cut}


async def log(git: Git, request: Request) -> dict[str, Any]:
    """Commits, newest first."""
    out, cut = await git.shown(
        "log",
        "log",
        "-z",
        _FORMAT,
        "--no-show-signature",
        "--no-color",
        "--no-notes",
        f"--max-count={request.max_count}",
        "--end-of-options",
        request.ref or "HEAD",
        "--",
        *request.paths,
    )
    values = out.split("\0")
    size = len(_FIELDS)
    rows = (values[n : n + size] for n in range(0, len(values) - size + 1, size))
    commits = [dict(zip(_FIELDS, (v.rstrip("\n") for v in row), strict=True)) for row in rows]
    return {"commits": commits, "truncated": cut}


async def show(git: Git, request: Request) -> dict[str, Any]:
    """A commit with its changes, a tag, or a file of a commit (`HEAD:README.md`)."""
    text, cut = await git.shown(
        "show",
        "show",
        *_PLAIN,
        "--no-show-signature",
        "--no-notes",
        "--format=fuller",
        f"-U{git.policy.context_lines}",
        "--end-of-options",
        request.ref or "HEAD",
        "--",
        *request.paths,
    )
    return {"text": text, "truncated": cut}


async def blame(git: Git, request: Request) -> dict[str, Any]:
    """Who last changed each line of a file."""
    commit = await commit_of(git, request.ref or "HEAD", reason="git_blame_failed")
    lines = ()
    if request.first_line or request.last_line:
        lines = (f"-L{request.first_line or 1},{request.last_line or ''}",)
    how = ("--no-textconv", "--date=short", *lines)
    try:
        text, cut = await git.shown("blame", "blame", *how, commit, "--", *request.paths)
    except ToolFailure as failure:
        if not git.settings.has("blame.ignorerevsfile"):
            raise
        # It cannot be overridden, and git quotes what it finds in that file, wherever it is.
        words = "git blame failed, perhaps because of blame.ignoreRevsFile in its configuration"
        raise ToolFailure(words, reason=failure.reason) from None
    return {"path": request.paths[0], "commit": commit, "text": text, "truncated": cut}


async def rev_parse(git: Git, request: Request) -> dict[str, Any]:
    """The object that a ref names."""
    ref = request.ref or "HEAD"
    found = await git.text("rev_parse", "rev-parse", "--verify", "--end-of-options", ref)
    return {"ref": ref, "object": found.strip()}


async def commit_of(git: Git, ref: str, *, reason: str) -> str:
    """The commit that a ref names."""
    found = await git.asked(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
    )
    if not found:
        raise ToolFailure(f"{ref} names no commit", reason=reason)
    return found


async def current_branch(git: Git) -> str:
    """The branch that is checked out, followed to its end; empty for a detached HEAD."""
    head = await git.asked("symbolic-ref", "--quiet", "HEAD")
    return (head or "").removeprefix("refs/heads/")


async def branch(git: Git, request: Request) -> dict[str, Any]:
    """The branches."""
    form = "--format=%(refname)%00%(objectname)"
    out, cut = await git.shown("branch", "for-each-ref", form, "refs/heads/")
    rows = [line.split("\0") for line in out.splitlines()]
    found = [
        {"name": row[0].removeprefix("refs/heads/"), "commit": row[1]}
        for row in (rows[:-1] if cut else rows)
    ]
    return {"current": await current_branch(git), "branches": found, "truncated": cut}


async def worktree(git: Git, request: Request) -> dict[str, Any]:
    """The worktrees below the repository's folder."""
    out, cut = await git.shown("worktree", "worktree", "list", "--porcelain", "-z")
    found: list[dict[str, str]] = []
    for block in out.split("\0\0"):
        facts: dict[str, str] = {}
        for line in block.split("\0"):
            key, _, value = line.partition(" ")
            facts[key] = value
        place = Path(facts.get("worktree", ""))
        if place.is_relative_to(git.repository.root):
            path = place.relative_to(git.repository.root)
            name = facts.get("branch", "").removeprefix("refs/heads/")
            found.append({"path": str(path), "commit": facts.get("HEAD", ""), "branch": name})
    return {"worktrees": found, "truncated": cut}

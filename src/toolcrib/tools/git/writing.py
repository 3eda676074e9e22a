"""The actions of `git` that change something. No hook, filter or other program runs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from toolcrib.core.decision import Decision
from toolcrib.errors import Denial, ToolFailure
from toolcrib.tools.git.config import RECEIVE
from toolcrib.tools.git.own import must_not_bring, must_not_hold, must_not_name
from toolcrib.tools.git.reading import commit_of, current_branch, is_dirty, to_add
from toolcrib.tools.git.repository import find, free_place
from toolcrib.tools.git.request import Request
from toolcrib.tools.git.running import Git

_SWITCH = ("switch", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-overwrite-ignore")


async def create_branch(git: Git, request: Request) -> dict[str, Any]:
    """Make a branch and enter it. From the commit that is checked out this changes no file, so
    uncommitted changes come along; from another one they have to be committed first."""
    start = await commit_of(git, request.ref or "HEAD", reason="base_commit_resolution_failed")
    if await _has_branch(git, request.branch):
        raise ToolFailure(f"the branch {request.branch} exists", reason="branch_exists")
    if start != await git.asked("rev-parse", "--verify", "--quiet", "HEAD"):
        git.settings.must_store_as_is()
        await _must_be_clean(git)
        await must_not_bring(git, "create_branch", start)
    await git.done("create_branch", *_SWITCH, "--no-track", "-c", request.branch, start)
    return {"branch": request.branch, "commit": start}


async def checkout(git: Git, request: Request) -> dict[str, Any]:
    """Enter a branch."""
    git.settings.must_store_as_is()
    if not await _has_branch(git, request.branch):
        raise ToolFailure(
            f"there is no branch {request.branch}; make it with create_branch",
            reason="branch_resolution_failed",
        )
    await _must_be_clean(git)
    await must_not_bring(git, "checkout", f"refs/heads/{request.branch}")
    await git.done("checkout", *_SWITCH, request.branch)
    return {"branch": request.branch, "commit": await git.asked("rev-parse", "HEAD")}


async def add(git: Git, request: Request) -> dict[str, Any]:
    """Put the files at some paths, as they are now, into the next commit."""
    git.settings.must_store_as_is()
    names = await to_add(git, request.paths)
    if not names:
        words = "nothing at those paths has changed; ignored files and submodules are not added"
        raise ToolFailure(words, reason="nothing_to_add")
    must_not_name(git, names)
    _few(git, len(names))
    by_name = ("--pathspec-from-file=-", "--pathspec-file-nul")
    await git.done("add", "add", "--all", *by_name, stdin="\0".join(names))
    return {"staged": await _staged(git)}


async def commit(git: Git, request: Request) -> dict[str, Any]:
    """Commit what was added. Other changes stay as they are."""
    git.settings.must_store_as_is()
    branch = await current_branch(git)
    _refuse(git.policy.writable(branch))
    staged = await _staged(git)
    if not staged:
        raise ToolFailure("nothing was added to commit", reason="nothing_to_commit")
    _few(git, len(staged))
    await git.done(
        "commit",
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--cleanup=whitespace",
        "--file=-",
        stdin=request.message,
    )
    made = await git.asked("rev-parse", "HEAD")
    return {"commit": made, "branch": branch or None, "files": staged}


async def push(git: Git, request: Request) -> dict[str, Any]:
    """Push a branch to the branch of the same name at a remote; never by force."""
    policy = git.policy
    branch = request.branch or await current_branch(git)
    if not branch:
        raise ToolFailure("no branch is checked out", reason="branch_resolution_failed")
    _refuse(policy.writable(branch))
    if not await _has_branch(git, branch):
        raise ToolFailure(f"there is no branch {branch}", reason="branch_resolution_failed")
    protocol, urls = git.settings.push_protocol(request.remote)
    wanted = policy.allowed_remote_urls
    if wanted and not all(any(fnmatchcase(url, glob) for glob in wanted) for url in urls):
        raise Denial("remote_not_allowed", f"{request.remote} is at an address not on the list")
    ended = await git.done(
        "push",
        "push",
        "--porcelain",
        "--no-verify",
        "--no-signed",
        "--no-follow-tags",
        "--recurse-submodules=no",
        f"--receive-pack={RECEIVE if protocol == 'file' else 'git-receive-pack'}",
        "--",
        request.remote,
        f"refs/heads/{branch}:refs/heads/{branch}",
        more={**policy.push_environment, "GIT_ALLOW_PROTOCOL": protocol},
    )
    said = ended.stdout.decode("utf-8", "replace").splitlines()
    sent = [line for line in said if line[:1] in " +-*=!" and "\t" in line]
    return {"remote": request.remote, "branch": branch, "updates": sent}


async def add_worktree(git: Git, request: Request) -> dict[str, Any]:
    """Check a branch out in a folder of its own below the repository; a new branch is made."""
    git.settings.must_store_as_is()
    free = free_place(git.repository, request.worktree)
    must_not_hold(git, free)
    place = str(free)
    flags = ("worktree", "add", "--quiet", "--no-guess-remote")
    if await _has_branch(git, request.branch):
        await git.done("add_worktree", *flags, "--", place, request.branch)
    else:
        _refuse(git.policy.writable(request.branch))
        ref = request.ref or "HEAD"
        start = await commit_of(git, ref, reason="base_commit_resolution_failed")
        new = ("--no-track", "-b", request.branch)
        await git.done("add_worktree", *flags, *new, "--", place, start)
    return {"worktree": request.worktree, "branch": request.branch}


async def remove_worktree(git: Git, request: Request) -> dict[str, Any]:
    """Remove such a folder; its branch stays."""
    loose = git.policy.allow_worktree_dirty
    if not loose and await is_dirty(git, untracked=True):
        words = "has changes, or ignored files, that are in no commit"
        raise Denial("dirty_worktree", f"{request.worktree} {words}")
    must_not_hold(git, git.repository.folder)
    folder = str(git.repository.folder)
    main = git.on(find(git.repository.root))
    force = ("--force",) if loose else ()
    await main.done("remove_worktree", "worktree", "remove", *force, "--", folder)
    return {"worktree": request.worktree}


async def _must_be_clean(git: Git) -> None:
    if not git.policy.allow_worktree_dirty and await is_dirty(git, untracked=False):
        raise Denial("dirty_worktree", "commit the changes first, or make the branch from HEAD")


async def _has_branch(git: Git, name: str) -> bool:
    return await git.asked("show-ref", "--verify", "--quiet", f"refs/heads/{name}") is not None


async def _staged(git: Git) -> list[str]:
    out = await git.text(
        "diff", "diff", "--cached", "--name-only", "-z", "--no-ext-diff", "--no-textconv"
    )
    return [name for name in out.split("\0") if name]


def _few(git: Git, count: int) -> None:
    most = git.policy.max_files
    if count > most:
        raise Denial("too_many_files", f"{count} files, and at most {most} may change at once")


def _refuse(decision: Decision | None) -> None:
    if decision is not None:
        raise Denial(decision.reason or "action_not_allowed", decision.message)

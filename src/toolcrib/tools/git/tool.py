"""The function that `git` is, and its template."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from toolcrib.core.context import ToolContext
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.protocols import Sandbox, Workshop
from toolcrib.core.spec import ToolTemplate
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.tools.git import reading, writing
from toolcrib.tools.git.own import placed, resolved
from toolcrib.tools.git.policy import Action, GitPolicy
from toolcrib.tools.git.repository import find
from toolcrib.tools.git.request import Request
from toolcrib.tools.git.running import Git

PLAIN = "subprocess"
"""The sandbox of that name is an ordinary process with a clean environment."""
_ACTIONS: dict[Action, Callable[[Git, Request], Awaitable[dict[str, Any]]]] = {
    "status": reading.status,
    "diff": reading.diff,
    "log": reading.log,
    "show": reading.show,
    "blame": reading.blame,
    "rev_parse": reading.rev_parse,
    "diff_since": reading.diff_since,
    "branch": reading.branch,
    "worktree": reading.worktree,
    "create_branch": writing.create_branch,
    "checkout": writing.checkout,
    "add": writing.add,
    "commit": writing.commit,
    "push": writing.push,
    "add_worktree": writing.add_worktree,
    "remove_worktree": writing.remove_worktree,
}


def constructor(policy: ToolPolicy, workshop: Workshop) -> Callable[..., Any]:
    """The tool; its limits are those of each call's context."""
    if isinstance(policy, GitPolicy):
        workshop.sandbox(policy.sandbox or PLAIN)  # a name that does not exist is told now
        with suppress(Denial):  # a call will be told
            workshop.root(policy.root)

    async def git(
        ctx: ToolContext,
        action: Action,
        ref: str = "",
        paths: list[str] | None = None,
        since: str = "",
        branch: str = "",
        message: str = "",
        remote: str = "origin",
        worktree: str = "",
        max_count: int = 20,
        staged: bool = False,
        first_line: Annotated[int, Meta(ge=0)] = 0,
        last_line: Annotated[int, Meta(ge=0)] = 0,
    ) -> dict[str, Any]:
        """Look at a git repository, and change it as far as that is allowed.

        Args:
            action: status; diff; log; show; blame; rev_parse; diff_since a time; branch and
                worktree list what there is; create_branch makes and enters a branch; checkout
                enters one; add; commit; push; add_worktree; remove_worktree.
            ref: A commit, branch, tag, range (`main..HEAD`) or file of a commit (`HEAD:a.txt`).
            paths: Only these files or folders, relative to the repository. blame takes one.
            since: diff_since: `2026-01-31`, `24h`, `7d`, `2 weeks ago`, `yesterday`.
            branch: The branch to make, enter or push.
            message: commit: the message.
            remote: push: the name of the remote.
            worktree: The worktree to work in, to add or to remove; the main one when empty.
            max_count: log: how many commits.
            staged: diff: what is added for the next commit.
            first_line: blame: the first line.
            last_line: blame: the last line.
        """
        limits = ctx.policy
        if not isinstance(limits, GitPolicy):
            ctx.deny("guard_failed", "the tool git runs under a GitPolicy only")
        inside = "" if action == "add_worktree" else worktree
        root = workshop.root(_base(ctx, workshop) / limits.root)
        places = await asyncio.to_thread(find, root, inside)
        bare = Git(
            ctx=ctx,
            policy=limits,
            sandbox=_sandbox(limits, workshop),
            repository=places,
            own=resolved(workshop.hidden, places),
            guarded=tuple(map(placed, workshop.guarded)),
        )
        request = Request(
            action=action,
            ref=ref,
            paths=tuple(paths or ()),
            since=since,
            branch=branch,
            message=message,
            remote=remote,
            worktree=worktree,
            max_count=max_count,
            staged=staged,
            first_line=first_line,
            last_line=last_line,
        )
        return await _ACTIONS[action](await bare.prepared(), request)

    return git


def _sandbox(policy: GitPolicy, workshop: Workshop) -> Sandbox:
    try:
        return workshop.sandbox(policy.sandbox or PLAIN)
    except ConfigError:
        raise ToolFailure(
            f"there is no sandbox {policy.sandbox!r}", reason="sandbox_unavailable"
        ) from None


def _base(ctx: ToolContext, workshop: Workshop) -> Path:
    """Where a relative root begins: the session's folder, else the configuration's."""
    session = ctx.session
    return Path(session.cwd) if session is not None and session.cwd else workshop.folder


TEMPLATE = ToolTemplate(
    name="git",
    policy=GitPolicy,
    constructor=constructor,
    description="One git repository: look, branch, commit and push within a policy.",
)

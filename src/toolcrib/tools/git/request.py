"""What one call of `git` asks for."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.tools.git.policy import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The arguments of a call, checked by the policy."""

    action: Action
    ref: str = ""
    paths: tuple[str, ...] = ()
    since: str = ""
    branch: str = ""
    message: str = ""
    remote: str = ""
    worktree: str = ""
    max_count: int = 20
    staged: bool = False
    first_line: int = 0
    last_line: int = 0

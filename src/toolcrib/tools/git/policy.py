"""The limits of `git`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import Effect
from toolcrib.core.units import did_you_mean, duration
from toolcrib.errors import ConfigError
from toolcrib.tools.git.names import is_branch, is_ref, is_remote, moment, path_problem, ref_test

Action = Literal[
    "status",
    "diff",
    "log",
    "show",
    "blame",
    "rev_parse",
    "diff_since",
    "branch",
    "worktree",
    "create_branch",
    "checkout",
    "add",
    "commit",
    "push",
    "add_worktree",
    "remove_worktree",
]
READING: tuple[Action, ...] = get_args(Action)[:9]
_NAMES_A_BRANCH = ("create_branch", "checkout", "add_worktree")
_LIMITS = ("max_output_chars", "max_files", "max_since_chars", "max_count")


class GitPolicy(ToolPolicy):
    """What may be done with a repository, on which branches, and how much it may say."""

    root: str = "."
    """The repository, relative to the session's folder: the folder that has `.git` in it."""
    allowed_actions: list[str] = list(READING)  # noqa: RUF012
    managed_branch_prefix: str = ""
    """The branches that may be written to begin so, such as `bot/`. Empty: any may be."""
    enforce_prefix_for_writes: bool = True
    protected_branches: list[str] = ["main", "master"]  # noqa: RUF012
    """Branches, or globs of them, that are neither committed to, nor pushed, nor made."""
    allow_push: bool = False
    allowed_remotes: list[str] = ["origin"]  # noqa: RUF012
    """The remotes, by name, that may be pushed to."""
    allowed_remote_urls: list[str] = []  # noqa: RUF012
    """Globs of addresses. The repository's own configuration says where a remote is: name the
    addresses here when a push carries credentials."""
    push_environment: dict[str, str] = {}  # noqa: RUF012
    """Variables that only a push gets, such as GIT_SSH_COMMAND or GIT_ASKPASS."""
    allow_worktree_dirty: bool = False
    """Whether branches may be switched, and worktrees removed, with changes not yet committed."""
    allowed_ref_pattern: str = r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~:+=,-]*"
    """What a ref may look like, from its first character to its last."""
    context_lines: int = 3
    max_output_chars: int = 60_000
    max_files: int = 200
    """Files of a difference, and files that are added or committed at once."""
    max_since_chars: int = 64
    max_count: int = 200
    """Commits of a log."""
    timeout: float | str = "60s"
    """After this time git is killed, with everything it started."""
    author_name: str = "Toolcrib"
    author_email: str = "agent@toolcrib.invalid"
    sandbox: str | None = None
    """The sandbox that git runs in. Without one it is an ordinary process with a clean
    environment."""

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        known = get_args(Action)
        for action in self.allowed_actions:
            if action not in known:
                close = did_you_mean(action, known)
                cure = f"Did you mean {close}?" if close else f"Known: {', '.join(known)}"
                raise _wrong("allowed_actions", f"git has no action {action!r}", cure)
        for name in _LIMITS:
            if getattr(self, name) < 1:
                raise _wrong(name, "has to be at least 1")
        if not 0 <= self.context_lines <= 1_000:
            raise _wrong("context_lines", "has to be between 0 and 1000")
        for name in ("author_name", "author_email"):
            text: str = getattr(self, name)
            if not text.strip(" .,:;'\"") or not text.isprintable() or set(text) & set("<>"):
                raise _wrong(name, "has to be a plain name or address")
        try:
            ref_test(self.allowed_ref_pattern)
        except ValueError:
            cure = "Write it without look-around and back-references"
            raise _wrong("allowed_ref_pattern", "is no usable regular expression", cure) from None
        try:
            duration(self.timeout)
        except ValueError as error:
            raise _wrong("timeout", str(error)) from None

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse what the arguments alone show to be outside the limits."""
        asked = ctx.arguments
        action: str = asked["action"]
        if action not in self.allowed_actions:
            allowed = ", ".join(self.allowed_actions) or "none"
            return self.deny("action_not_allowed", f"{action} is not allowed; allowed: {allowed}")
        ref: str = asked.get("ref") or ""
        if ref and not is_ref(ref, self.allowed_ref_pattern):
            return self.deny("invalid_ref", f"{ref[:80]!r} is not a ref that may be used here")
        refused = self._paths(action, asked.get("paths") or (), asked.get("worktree") or "")
        if refused is not None:
            return refused
        if action == "log" and not 1 <= asked.get("max_count", 20) <= self.max_count:
            return self.deny("invalid_max_count", f"ask for 1 to {self.max_count} commits")
        if action == "diff_since":
            return self._since(asked.get("since") or "")
        if action == "commit":
            return self._message(asked.get("message") or "")
        if action == "push":
            return self._push(asked.get("remote") or "", asked.get("branch") or "")
        if action in _NAMES_A_BRANCH:
            return self._branch(action, asked.get("branch") or "")
        return None

    def _paths(self, action: str, paths: Sequence[str], worktree: str) -> Decision | None:
        for path in (*paths, worktree) if worktree else paths:
            problem = path_problem(path)
            if problem is not None:
                return self.deny(problem, f"{path[:80]!r} is no path below the repository")
        if action == "add" and not paths:
            return self.deny("empty_paths", "say which paths to add; . is all of them")
        if action == "blame" and len(paths) != 1:
            return self.deny("invalid_path", "blame needs one path")
        if action in ("add_worktree", "remove_worktree") and worktree in ("", "."):
            return self.deny("invalid_path", f"{action} needs the worktree's path")
        if len(paths) > self.max_files:
            return self.deny("too_many_files", f"at most {self.max_files} paths")
        return None

    def _since(self, since: str) -> Decision | None:
        if not since.strip():
            return self.deny("empty_since", "diff_since needs a time in since")
        if len(since) > self.max_since_chars:
            return self.deny("since_too_long", f"at most {self.max_since_chars} characters")
        if moment(since) is None:
            words = "write 2026-01-31, 2026-01-31T12:00:00Z, 24h, 7d, 2 weeks ago or yesterday"
            return self.deny("invalid_since_format", words)
        return None

    def _message(self, message: str) -> Decision | None:
        if not message.strip():
            return self.deny("empty_commit_message", "a commit needs a message")
        if "\0" in message or len(message) > 100_000 or not _encodable(message):
            return self.deny("invalid_commit_message", "a message is text, and no book")
        return None

    def _branch(self, action: str, branch: str) -> Decision | None:
        if not branch:
            return self.deny("empty_branch", f"{action} needs the name of a branch")
        if not is_branch(branch):
            return self.deny("invalid_branch", f"{branch[:80]!r} cannot be the name of a branch")
        return self.writable(branch) if action == "create_branch" else None

    def _push(self, remote: str, branch: str) -> Decision | None:
        if not self.allow_push:
            return self.deny("push_not_allowed", "this policy does not let anything be pushed")
        if not remote:
            return self.deny("empty_remote", "push needs the name of a remote")
        if not is_remote(remote) or remote not in self.allowed_remotes:
            known = ", ".join(self.allowed_remotes) or "none"
            return self.deny("remote_not_allowed", f"may be pushed to: {known}")
        if branch and not is_branch(branch):
            return self.deny("invalid_branch", f"{branch[:80]!r} cannot be the name of a branch")
        return self.writable(branch) if branch else None

    def writable(self, branch: str) -> Decision | None:
        """The refusal to write to `branch`, which is empty when no branch is checked out."""
        if any(fnmatchcase(branch, name) for name in self.protected_branches):
            return self.deny("protected_branch", f"{branch} is protected")
        prefix = self.managed_branch_prefix
        managed = branch.startswith(prefix) and branch != prefix
        if prefix and self.enforce_prefix_for_writes and not managed:
            words = f"{branch or 'a detached HEAD'} does not begin with {prefix!r}"
            return self.deny("branch_prefix_required", f"{words}; use create_branch")
        return None

    def allowed_effects(self) -> frozenset[Effect]:
        """What the allowed actions can do."""
        effects: set[Effect] = set()
        for action in self.allowed_actions:
            if action in READING:
                effects.add("read")
            elif action != "push":
                effects.add("write")
            elif self.allow_push:
                effects |= {"write", "egress"}
        if "remove_worktree" in self.allowed_actions and self.allow_worktree_dirty:
            effects.add("destructive")
        return frozenset(effects)


def _wrong(key: str, message: str, cure: str | None = None) -> ConfigError:
    return ConfigError(f"{key}: {message}", key=key, cure=cure)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""The limits of `files`."""

from __future__ import annotations

import posixpath
from typing import Any, get_args

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.spec import Effect
from toolcrib.core.units import did_you_mean
from toolcrib.errors import ConfigError
from toolcrib.tools.files.patterns import fits_any, glob, may_hold, regex
from toolcrib.tools.files.request import Action

_EFFECTS: dict[str, frozenset[Effect]] = {
    "read": frozenset({"read"}),
    "list": frozenset({"read"}),
    "search": frozenset({"read"}),
    "stat": frozenset({"read"}),
    "write": frozenset({"write"}),
    "edit": frozenset({"write"}),
    "move": frozenset({"write"}),
    "delete": frozenset({"write", "destructive"}),
}
_PATTERN = 1_000
_LOOKS_AT_FOLDERS = ("list", "search", "stat")
_LIMITS = ("max_read_bytes", "max_write_bytes", "max_search_bytes", "max_entries", "max_depth")


class FilesPolicy(ToolPolicy):
    """Which files may be read and changed, and how much at once."""

    root: str = "."
    """The folder, relative to the session's; nothing outside it can be reached."""
    allowed_actions: list[str] = ["read", "list", "search", "stat"]  # noqa: RUF012
    allowed_paths: list[str] = ["**"]  # noqa: RUF012
    """Globs of files that may be used. `**/` is any number of folders; `docs/**` is the folder
    `docs` and all that is in it."""
    denied_paths: list[str] = [  # noqa: RUF012
        "**/.git/**",
        "**/.env*",
        "**/.ssh/**",
        "**/.toolcrib/**",
        "**/toolcrib.yaml",
    ]
    """Globs of files and folders that stay out of reach whatever is allowed. They are held
    against the path as given and against where it really leads."""
    max_read_bytes: int = 262_144
    max_write_bytes: int = 1_048_576
    max_search_bytes: int = 67_108_864
    """Bytes that one call may look through."""
    max_entries: int = 1_000
    """Entries of a list, matches of a search, files in a folder that is moved or deleted."""
    max_depth: int = 20
    allow_binary: bool = False
    allow_recursive_delete: bool = False
    follow_symlinks_within_root: bool = True

    def __init__(self, **knobs: Any) -> None:
        super().__init__(**knobs)
        known = get_args(Action)
        for action in self.allowed_actions:
            if action not in known:
                close = did_you_mean(action, known)
                cure = f"Did you mean {close}?" if close else f"Known: {', '.join(known)}"
                raise ConfigError(
                    f"allowed_actions: files has no action {action!r}",
                    key="allowed_actions",
                    cure=cure,
                )
        for name in _LIMITS:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} has to be at least 1", key=name)
        for name in ("allowed_paths", "denied_paths"):
            for pattern in getattr(self, name):
                if pattern.startswith("/") or pattern in ("", "."):
                    raise ConfigError(
                        f"{name}: {pattern!r} matches nothing",
                        key=name,
                        cure="Write it relative to the root, such as docs/** or **/*.md",
                    )

    def check(self, ctx: ToolContext) -> Decision | None:
        """Refuse what the arguments alone show to be outside the limits."""
        asked = ctx.arguments
        action: str = asked["action"]
        if action not in self.allowed_actions:
            return self.deny(
                "action_not_allowed",
                f"{action} is not one of the allowed actions: {', '.join(self.allowed_actions)}",
            )
        for name in ("path", "to") if action == "move" else ("path",):
            refused = self._path(asked.get(name, "."), action)
            if refused is not None:
                return refused
        return self._contents(action, asked)

    def _path(self, path: str, action: str) -> Decision | None:
        if any(ord(c) < 32 or ord(c) == 127 for c in path) or not _encodable(path):
            return self.deny("invalid_path", "a path has no control characters")
        plain = normal(path)
        if plain is None:
            return self.deny("path_outside_root", f"{path!r} is outside the tool's folder")
        if plain == "." and action not in _LOOKS_AT_FOLDERS:
            return self.deny("is_directory", f"{action} needs the path of a file")
        if not self.reachable(plain, folder=action in _LOOKS_AT_FOLDERS):
            return self.deny("path_not_allowed", f"{path!r} is not among the allowed files")
        return None

    def _contents(self, action: str, asked: dict[str, Any]) -> Decision | None:
        if asked.get("encoding") == "base64" and not self.allow_binary and action != "search":
            return self.deny("binary_not_allowed", "only text may be used here, not base64")
        if action in ("write", "edit"):
            text: str = asked.get("content" if action == "write" else "new", "")
            if not _encodable(text) or not _encodable(asked.get("old", "")):
                return self.deny("binary_not_allowed", "the text has characters that are none")
            if len(text) > self.max_write_bytes * 2:  # base64 is longer than what it holds
                return self.deny("file_too_large", f"at most {self.max_write_bytes} bytes")
        if action == "edit" and not asked.get("old"):
            return self.deny("edit_not_found", "edit needs the text to replace, in old")
        if action in ("list", "search"):
            return self._patterns(action, asked)
        recursive = action == "delete" and asked.get("recursive")
        if recursive and not self.allow_recursive_delete:
            return self.deny("action_not_allowed", "folders may be deleted only when empty")
        return None

    def _patterns(self, action: str, asked: dict[str, Any]) -> Decision | None:
        pattern: str = asked.get("pattern", "")
        named: str = asked.get("glob", "")
        if action == "search" and not 0 < len(pattern) <= _PATTERN:
            return self.deny("invalid_pattern", f"search needs 1 to {_PATTERN} letters")
        try:
            if asked.get("regex"):
                regex(pattern)
            if len(named) > _PATTERN:
                raise ValueError(named)
            glob(named)
            pattern.encode()
        except ValueError:
            words = "without look-around and back-references, so that no text can stall the search"
            return self.deny("invalid_pattern", f"give a regular expression or glob {words}")
        return None

    def reachable(self, path: str, *, folder: bool = False) -> bool:
        """Whether the globs let `path`, or something in the folder `path`, be used."""
        if not _encodable(path) or fits_any(path, self.denied_paths):
            return False
        allowed = self.allowed_paths
        return fits_any(path, allowed) or (folder and may_hold(path, allowed))

    def allowed_effects(self) -> frozenset[Effect]:
        """What the allowed actions can do."""
        return frozenset(effect for name in self.allowed_actions for effect in _EFFECTS[name])


def normal(path: str) -> str | None:
    """A relative path without detours; None when its words lead outside."""
    if path.startswith("/") or not path:
        return None if path else "."
    plain = posixpath.normpath(path)
    return None if plain == ".." or plain.startswith("../") else plain


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

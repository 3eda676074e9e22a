"""The policy `paths`: arguments that name files stay below a folder."""

from __future__ import annotations

import posixpath
from typing import Any, cast

from toolcrib.core.context import ToolContext
from toolcrib.core.decision import Decision
from toolcrib.core.policy import ToolPolicy


class PathsPolicy(ToolPolicy):
    """Holds path arguments below `root`, which is relative to the session's folder.

    A rule on the words of a path: it keeps `..` and absolute paths out, before anything runs.
    What a symbolic link leads to is for the tool, or its sandbox, to guard.
    """

    arguments: list[str]
    """The arguments that are paths, or lists of paths."""
    root: str = "."

    def check(self, ctx: ToolContext) -> Decision | None:
        """Deny the first path that leads outside."""
        top = posixpath.normpath(posixpath.join(ctx.cwd, self.root))
        for name in self.arguments:
            value: Any = ctx.arguments.get(name)
            many = cast("list[Any]", value) if isinstance(value, list) else [value]
            for path in many:
                if path is not None and not _below(path, ctx.cwd, top):
                    where = "the session's folder" if self.root == "." else repr(self.root)
                    return self.deny("path_outside_root", f"{path!r} is outside {where}")
        return None


def _below(path: Any, base: str, top: str) -> bool:
    if not isinstance(path, str) or "\0" in path or path.startswith("//"):
        return False
    full = posixpath.normpath(posixpath.join(base, path))
    if top == ".":  # there is no folder: only what stays within it for sure
        return not full.startswith(("/", ".."))
    return full == top or full.startswith(top.rstrip("/") + "/")

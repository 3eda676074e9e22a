"""A broad tool and narrow policies: one template, two tools, and what each may do."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable
from typing import Any

from toolcrib import Decision, ToolContext, ToolHost, ToolPolicy, ToolTemplate, tool


class FilesPolicy(ToolPolicy):
    """What may be done, where, and with how many files at once."""

    actions: tuple[str, ...] = ("list",)
    folder: str = "docs/"
    max_files: int = 3

    def check(self, ctx: ToolContext) -> Decision | None:
        """Called before anything runs, and by `explain`."""
        action, paths = ctx.arguments["action"], ctx.arguments["paths"]
        if action not in self.actions:
            return self.deny("action_not_allowed", f"only {', '.join(self.actions)}")
        if len(paths) > self.max_files:
            return self.deny("too_many_files", f"at most {self.max_files} files at once")
        # Normalised first: `docs/../src` begins with `docs/` and is not below it.
        if not all(posixpath.normpath(path).startswith(self.folder) for path in paths):
            return self.deny("path_outside_root", f"only below {self.folder}")
        return None


def files_tool(name: str) -> Callable[[FilesPolicy], Any]:
    """A constructor that makes the tool for a policy, under a name."""

    def construct(policy: FilesPolicy) -> Any:
        @tool(name=name, effects=["read", "write"], policy=policy)
        async def files(action: str, paths: list[str]) -> str:
            """Work with files."""
            return f"{action} {', '.join(paths)}"

        return files

    return construct


def template(name: str) -> ToolTemplate:
    """The broad tool."""
    return ToolTemplate(name=name, policy=FilesPolicy, constructor=files_tool(name))


CALLS: list[tuple[str, list[str]]] = [
    ("list", ["docs/a.md"]),
    ("write", ["docs/a.md"]),
    ("write", ["docs/../src/a.py"]),
    ("list", ["docs/1", "docs/2", "docs/3", "docs/4"]),
]


async def main() -> None:
    """The same calls of both tools."""
    reader = template("files_reader").build()
    writer = template("files_writer").build({"actions": ["list", "write"]})
    async with ToolHost([reader, writer]) as host:
        for name in ("files_reader", "files_writer"):
            for action, paths in CALLS:
                why = host.explain(name, {"action": action, "paths": paths})
                print(f"{name}: {action} {', '.join(paths)}: {why.reason or why.verdict}")


if __name__ == "__main__":
    asyncio.run(main())

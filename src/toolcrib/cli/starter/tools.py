"""Tools of this project. Change them, add your own."""

from __future__ import annotations

from pathlib import Path

from toolcrib import Decision, ToolContext, ToolPolicy, tool


@tool(effects=["read"])
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class NotesPolicy(ToolPolicy):
    """Notes stay in their folder; a profile says which one."""

    folder: str = "notes"

    def check(self, ctx: ToolContext) -> Decision | None:
        path = ctx.arguments["path"]
        root = Path(ctx.cwd, self.folder).resolve()
        if not Path(ctx.cwd, path).resolve().is_relative_to(root):
            return self.deny("path_outside_root", f"{path!r} is outside the folder {self.folder}")
        return None


@tool(effects=["write"], policy=NotesPolicy)
def save_note(path: str, text: str, ctx: ToolContext) -> str:
    """Write a text file in the notes folder."""
    file = Path(ctx.cwd, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")
    return f"saved {path}"

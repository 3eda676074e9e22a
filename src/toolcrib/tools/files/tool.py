"""The function that `files` is, and its template."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from toolcrib.core.context import ToolContext
from toolcrib.core.policy import ToolPolicy
from toolcrib.core.protocols import Workshop
from toolcrib.core.spec import ToolTemplate
from toolcrib.errors import Denial
from toolcrib.tools.files.beneath import Root, said
from toolcrib.tools.files.own import Own
from toolcrib.tools.files.policy import FilesPolicy, normal
from toolcrib.tools.files.reading import listing, read, status
from toolcrib.tools.files.request import Action, Encoding, Request
from toolcrib.tools.files.searching import search
from toolcrib.tools.files.writing import delete, edit, move, write

_ACTIONS: dict[Action, Callable[[Request], dict[str, Any]]] = {
    "read": read,
    "list": listing,
    "search": search,
    "stat": status,
    "write": write,
    "edit": edit,
    "move": move,
    "delete": delete,
}


def constructor(policy: ToolPolicy, workshop: Workshop) -> Callable[..., Any]:
    """The tool; its limits are those of each call's context."""
    if isinstance(policy, FilesPolicy):
        with suppress(Denial):  # a call will be told
            workshop.root(policy.root)

    # Not async: the host runs it in a thread, and says so when a call had to leave one at work.
    def files(
        ctx: ToolContext,
        action: Action,
        path: str = ".",
        to: str = "",
        content: str = "",
        old: str = "",
        new: str = "",
        count: Annotated[int, Meta(ge=1)] = 1,
        pattern: str = "",
        regex: bool = False,
        ignore_case: bool = False,
        glob: str = "",
        depth: Annotated[int, Meta(ge=1)] = 1,
        offset: Annotated[int, Meta(ge=1)] = 1,
        limit: Annotated[int, Meta(ge=0)] = 0,
        encoding: Encoding = "utf-8",
        overwrite: bool = False,
        if_hash: str = "",
        parents: bool = False,
        recursive: bool = False,
    ) -> dict[str, Any]:
        """Read, list, search, write, edit, move and delete files below one folder.

        Args:
            action: read a file; list a folder; search for lines; stat a path; write a file;
                edit by replacing a text; move; delete.
            path: The file or folder, relative to the tool's folder.
            to: move: the new path.
            content: write: the whole new content.
            old: edit: the exact text to replace.
            new: edit: the text to put there.
            count: edit: how often `old` occurs; all of them are replaced.
            pattern: search: the text, or regular expression, that a line contains.
            regex: search: the pattern is a regular expression.
            ignore_case: search: capital and small letters are the same.
            glob: list, search: only paths like this, such as `**/*.py`.
            depth: list: how many levels of folders.
            offset: read: the first line, counted from 1.
            limit: read: how many lines; 0 is all of them.
            encoding: read, write: how the file's bytes are given.
            overwrite: write, move: replace a file that is there.
            if_hash: write: replace the file only if this is the SHA-256 of what it holds.
            parents: write, move: make missing folders.
            recursive: delete: a folder with all that is in it.
        """
        limits = ctx.policy
        if not isinstance(limits, FilesPolicy):
            ctx.deny("guard_failed", "the tool files runs under a FilesPolicy only")
        here, there = normal(path), normal(to)
        if here is None or there is None:
            ctx.deny("path_outside_root", "the path is outside the tool's folder")
        folder = workshop.root(_base(ctx, workshop) / limits.root)
        root = Root(str(folder), follow=limits.follow_symlinks_within_root)
        changes = action in ("write", "edit", "move", "delete")
        try:
            request = Request(
                ctx=ctx,
                policy=limits,
                root=root,
                own=Own(workshop.hidden, root.path),
                guarded=Own(workshop.guarded if changes else (), root.path),
                action=action,
                path=here,
                to=there,
                content=content,
                old=old,
                new=new,
                count=count,
                pattern=pattern,
                regex=regex,
                ignore_case=ignore_case,
                glob=glob,
                depth=depth,
                offset=offset,
                limit=limit,
                encoding=encoding,
                overwrite=overwrite,
                if_hash=if_hash,
                parents=parents,
                recursive=recursive,
            )
            return _ACTIONS[action](request)
        except OSError as error:
            raise said(error, path) from None
        finally:
            root.close()

    return files


def _base(ctx: ToolContext, workshop: Workshop) -> Path:
    """Where a relative root begins: the session's folder, else the configuration's."""
    session = ctx.session
    return Path(session.cwd) if session is not None and session.cwd else workshop.folder


TEMPLATE = ToolTemplate(
    name="files",
    policy=FilesPolicy,
    constructor=constructor,
    description="Files below one folder: read, list, search, write, edit, move, delete.",
)

"""One small tool in every kind: it leaves a mark when it runs, and does as it is told."""

from __future__ import annotations

import asyncio
import json
import select
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loopback import Answer, Seen, Server, reply, reply_json, serve

NAMES = ("python", "process", "shell", "http", "storage", "template")
MUCH = 5_000
"""Characters of what a tool gives that was told to give much."""

_CODE = """
import asyncio
import time
from pathlib import Path

from toolcrib import ToolFailure


def begin(text, how):
    with Path(__file__).with_name("marks").open("a") as marks:
        marks.write("x")
    if how == "fail":
        raise ToolFailure(f"no luck with {text}")
    if how == "break":
        raise RuntimeError(f"broken by {text}")


async def work_here(text: str, how: str = "say") -> str:
    begin(text, how)
    if how == "hang":
        await asyncio.sleep(60)
    return text * 5000 if how == "much" else text


def work_there(text: str, how: str = "say") -> str:
    begin(text, how)
    if how == "hang":
        time.sleep(60)
    return text * 5000 if how == "much" else text
"""
_SCRIPT = """
printf x >> "$(dirname "$0")/marks"
case "$2" in
  hang) sleep 60;;
  fail) printf 'no luck with %s' "$1" >&2; exit 3;;
  much) head -c 5000 /dev/zero | tr '\\0' "$1";;
  *) printf %s "$1";;
esac
"""
_ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "how": {"type": "string", "default": "say"}},
    "required": ["text"],
    "additionalProperties": False,
}
Call = tuple[str, dict[str, Any]]


class Kind:
    """One kind, set up in a folder."""

    failure = "tool_error"
    """The reason of a call that was told to fail."""
    tool = "work"

    def __init__(self, name: str, folder: Path, server: Server) -> None:
        self.name = name
        self.folder = folder
        self.server = server

    def entry(self) -> dict[str, Any]:
        """The configuration of the tool itself."""
        configs: dict[str, dict[str, Any]] = {
            "python": {"module": str(self.folder / "work.py"), "function": "work_here"},
            "process": {"config": {"module": "work.py", "function": "work_there", "workers": 1}},
            "shell": {"config": {"argv": ["sh", "work.sh", "{text}", "{how}"]}},
            "http": {
                "config": {
                    "method": "POST",
                    "url": f"{self.server.url}/{{how}}",
                    "body": {"json": {"text": "{text}"}},
                    "private": True,
                }
            },
        }
        described = {"name": "work", "kind": self.name, "input_schema": dict(_SCHEMA)}
        return {**described, **configs[self.name]}

    def config(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a configuration that brings the tool; `fields` are of its spec."""
        return {"tools": [{"effects": ["read", "write"], **self.entry(), **fields}]}

    def call(self, how: str, text: str = "hello") -> Call:
        """The tool's name, and what makes it do that."""
        return self.tool, {"text": text, "how": how}

    def said(self, output: Any) -> str:
        """The text that came back."""
        return output if isinstance(output, str) else json.dumps(output)

    def wrong(self) -> list[dict[str, Any]]:
        """Arguments that do not fit."""
        return [{}, {"text": 7}, {"text": "x", "more": 1}]

    def ran(self) -> int:
        """How often it really ran."""
        if self.name == "http":
            return len(self.server.seen)
        marks = self.folder / "marks"
        return len(marks.read_text()) if marks.exists() else 0

    @property
    def goes_on(self) -> bool:
        """Whether nobody can know what becomes of work that was stopped: a request has left."""
        return self.name == "http"

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """A time in which a call that was told to hang does."""
        yield


class Storage(Kind):
    """The store's own tools: to say something is to write it."""

    failure = "version_conflict"
    tool = "notes-write"

    def config(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        path = str(self.folder / "notes.db")
        return {"providers": {"notes": {"type": "storage", "backend": "sqlite", "path": path}}}

    def call(self, how: str, text: str = "hello") -> Call:
        if how == "fail":
            return self.tool, {"key": text, "value": 1, "if_version": 77}
        if how == "much":
            return "notes-read", {"key": "much"}
        return self.tool, {"key": text, "value": text}

    def said(self, output: Any) -> str:
        if "value" in output:
            return output["value"]
        assert set(output) == {"version"}, output
        return self.rows("select value from toolcrib_storage_items")[0][0].strip('"')

    def wrong(self) -> list[dict[str, Any]]:
        return [{}, {"key": 7, "value": 1}, {"key": "x", "value": 1, "more": 1}]

    def ran(self) -> int:
        return len(self.rows("select 1 from toolcrib_storage_items where key <> 'much'"))

    def rows(self, statement: str) -> list[Any]:
        """What is really in the file."""
        path = self.folder / "notes.db"
        if not path.exists():
            return []
        database = sqlite3.connect(path)
        try:
            return database.execute(statement).fetchall()
        finally:
            database.close()

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        database = sqlite3.connect(self.folder / "notes.db", isolation_level=None)
        try:
            database.execute("begin immediate")
            yield
            database.execute("rollback")
        finally:
            database.close()


class Template(Kind):
    """A broad tool, `sql`, under a policy: to say something is to insert it."""

    tool = "sql"

    def config(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        knobs = {
            "database": f"sqlite:{self.folder / 'words.db'}",
            "read_only": False,
            "allowed_statements": ["select", "with", "insert"],
        }
        entry = {"template": "sql", "effects": ["read", "write"], "policy": knobs, **fields}
        return {"tools": [entry]}

    def call(self, how: str, text: str = "hello") -> Call:
        if how == "hang":
            return self.tool, {"statement": _ENDLESS}
        if how == "fail":
            return self.tool, {"statement": f'select 1 from "no luck with {text}"'}
        given = [text * MUCH if how == "much" else text]
        return self.tool, {
            "statement": "insert into words values (?) returning word",
            "parameters": given,
        }

    def said(self, output: Any) -> str:
        return output["rows"][0][0]

    def wrong(self) -> list[dict[str, Any]]:
        return [{}, {"statement": 7}, {"statement": "select 1", "more": 1}]

    def ran(self) -> int:
        database = sqlite3.connect(self.folder / "words.db")
        try:
            return database.execute("select count(*) from words").fetchone()[0]
        finally:
            database.close()


def _make(name: str, folder: Path, server: Server) -> Kind:
    if name == "storage":
        return Storage(name, folder, server)
    if name == "template":
        database = sqlite3.connect(folder / "words.db")
        database.execute("create table words(word text)")
        database.close()
        return Template(name, folder, server)
    return Kind(name, folder, server)


async def _never(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """No answer, until whoever asked has hung up."""
    gone = select.poll()
    gone.register(writer.get_extra_info("socket").fileno(), select.POLLRDHUP)
    while not gone.poll(0):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def _answer(seen: Seen) -> Answer:
    text = seen.json["text"]
    if seen.path == "/hang":
        return _never
    if seen.path == "/fail":
        return reply_json(f"no luck with {text}", 418)
    much = text * MUCH if seen.path == "/much" else text
    return reply(much, headers={"Content-Type": "text/plain"})


@asynccontextmanager
async def kind(name: str, folder: Path) -> AsyncIterator[Kind]:
    """A kind, ready to be configured; a server runs beside it."""
    (folder / "work.py").write_text(_CODE)
    (folder / "work.sh").write_text(_SCRIPT)
    async with serve(_answer) as server:
        yield _make(name, folder, server)


def written(folder: Path, config: Mapping[str, Any]) -> Path:
    """A configuration file; JSON is YAML too."""
    path = folder / "toolcrib.yaml"
    path.write_text(json.dumps({"version": 1, **config}))
    return path

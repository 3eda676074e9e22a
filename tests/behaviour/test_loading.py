"""Tools that are described elsewhere, in a host: files, a module, a table, an address."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolHost

SHELL = {"name": "hello", "kind": "shell", "effects": ["read"], "config": {"argv": ["echo", "hi"]}}


def _http(name: str, url: str = "https://api.example.com/x") -> dict[str, Any]:
    return {"name": name, "kind": "http", "effects": ["read"], "config": {"url": url}}


def _write(path: Path, *tools: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"tools": list(tools)}))


def _config(folder: Path, *items: dict[str, Any], **more: Any) -> Path:
    path = folder / "toolcrib.yaml"
    path.write_text(json.dumps({"version": 1, "tools": list(items), **more}))
    return path


async def test_files_and_modules_are_read_at_once_and_run(tmp_path: Path) -> None:
    _write(tmp_path / "tools/a.json", SHELL)
    text = "from toolcrib import tool\n@tool(effects=['read'])\ndef one() -> int:\n    return 1\n"
    (tmp_path / "calc.py").write_text(text)
    config = _config(tmp_path, {"load": "tools"}, {"load": "calc.py"})
    host = ToolHost.from_config(config)
    assert sorted(host.catalog.snapshot()) == ["hello", "one"]
    async with host:
        assert (await host.call("hello")).output == "hi\n"
        assert (await host.call("one")).output == 1


async def test_every_mistake_of_every_entry_is_told_and_nothing_is_loaded(tmp_path: Path) -> None:
    wrong = {"name": "bad", "kind": "shell", "confg": {}}
    unsafe = {**SHELL, "name": "pipe", "config": {"command": "cat /etc/passwd | wc"}}
    _write(tmp_path / "tools/a.json", wrong, SHELL, unsafe)
    with pytest.raises(ConfigError) as caught:
        ToolHost.from_config(_config(tmp_path, {"load": "tools/*.json"}, {"load": "gone.yaml"}))
    said = [str(mistake) for mistake in caught.value.all()]
    assert any("confg" in text and "config" in text for text in said)
    assert any("pipe" in text or "shell" in text for text in said)
    assert any("gone.yaml" in text for text in said)
    assert len(said) == 3


async def test_a_settings_of_another_form_is_refused(tmp_path: Path) -> None:
    config = _config(tmp_path, {"load": "tools", "effects": ["read"]}, {"name": "x", "table": "t"})
    with pytest.raises(ConfigError) as caught:
        ToolHost.from_config(config)
    said = [str(mistake) for mistake in caught.value.all()]
    assert any("a load entry has no setting 'effects'" in text for text in said)
    assert any("an entry without load has no setting 'table'" in text for text in said)


async def test_a_table_brings_tools_when_the_host_starts(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "tools.db") as database:
        database.execute("create table tools (name, spec)")
        rows = [("rates", json.dumps(_http("rates"))), ("id", json.dumps({**SHELL, "name": "id"}))]
        database.executemany("insert into tools values (?, ?)", rows)
    database.close()
    rules = {"reader": {"rules": [{"allow": ["rates", "id"]}]}}
    config = _config(tmp_path, {"load": "sqlite:tools.db"}, profiles=rules)
    async with ToolHost.from_config(config) as host:
        assert [tool.name for tool in host.tools()] == ["rates"]
        (status,) = host.sources.status()
        assert (status.state, status.tools) == ("up", 1)
        assert "may not carry" in status.problems[0]
        assert (await host.call("id")).reason == "unknown_tool"


@asynccontextmanager
async def _served(document: dict[str, Any]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server for one changing document; gives its address and the requests it saw."""
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # a host that stopped before it asked
            writer.close()
            return
        seen.append(head)
        body = json.dumps(document).encode()
        tag = f'"{hash(body)}"'
        if tag in head:
            writer.write(f"HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n".encode())
        else:
            size = len(body)
            lines = f"HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {size}\r\n"
            writer.write(f"{lines}Content-Type: application/json\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/tools.json", seen
    finally:
        server.close()
        await server.wait_closed()


async def test_an_address_is_asked_again_and_its_changes_arrive(tmp_path: Path) -> None:
    document = {"tools": [_http("one")]}
    async with _served(document) as (url, seen):
        item = {"load": url, "private": True, "interval": "50ms"}
        async with ToolHost.from_config(_config(tmp_path, item)) as host:
            assert [tool.name for tool in host.tools()] == ["one"]
            document["tools"] = [_http("one"), _http("two")]
            async with asyncio.timeout(10):
                async for event in host.events():
                    if event.data.get("tool") == "two":
                        break
            assert [tool.name for tool in host.tools()] == ["one", "two"]
            document["tools"] = [{**SHELL, "name": "evil"}, _http("two")]
            async with asyncio.timeout(10):
                async for event in host.events():
                    if event.data.get("tool") == "one":
                        break
            assert [tool.name for tool in host.tools()] == ["two"]
            (status,) = host.sources.status()
            assert "may not carry" in " ".join(status.problems)
        assert any("If-None-Match" in head or "if-none-match" in head for head in seen)


async def test_an_address_that_is_down_delays_nothing_and_comes_later(tmp_path: Path) -> None:
    item = {"load": "http://127.0.0.1:9/tools.json", "private": True}
    config = _config(tmp_path, item, SHELL)
    async with ToolHost.from_config(config) as host:
        assert (await host.call("hello")).output == "hi\n"
        (status,) = host.sources.status()
        assert status.state == "down"


FILE_OF_TOOLS = """\
tools:
  - name: reader
    description: Read a text
    tool_type: python
    input_schema:
      type: object
      properties:
        path: {type: string}
    implementation_config:
      module: read_and_delete
      function_name: read
    metadata:
      category: filesystem
      requires_approval: false
  - name: remover
    description: Remove a file
    tool_type: shell
    input_schema:
      type: object
      properties:
        path: {type: string}
    implementation_config:
      command: "rm {path}"
    metadata:
      is_dangerous: true
      requires_approval: true
"""


async def test_a_command_written_as_one_text_needs_all_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(FILE_OF_TOOLS)
    text = "import pathlib\ndef read(path):\n    return pathlib.Path(path).read_text()\n"
    (tmp_path / "read_and_delete.py").write_text(text)
    (tmp_path / "a.txt").write_text("kept")
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request.arguments)
        return len(asked) > 1

    host = ToolHost.from_config(tmp_path / "tools.yaml", approver=approve)
    async with host, host.session(cwd=tmp_path) as session:
        read = await session.call("reader", {"path": str(tmp_path / "a.txt")})
        assert read.output == "kept"
        assert (await session.call("remover", {})).reason == "invalid_arguments"
        assert (await session.call("remover", {"path": "-rf"})).reason == "argument_not_allowed"
        assert asked == []
        assert (await session.call("remover", {"path": "a.txt"})).reason == "approval_rejected"
        assert (tmp_path / "a.txt").exists()
        assert (await session.call("remover", {"path": "a.txt"})).status == "ok"
        assert not (tmp_path / "a.txt").exists()


async def test_a_function_named_without_a_schema_brings_its_own(tmp_path: Path) -> None:
    text = 'def twice(n: int = 2) -> int:\n    """Double it."""\n    return 2 * n\n'
    (tmp_path / "calc.py").write_text(text)
    item = {"name": "twice", "module": "calc.py", "function": "twice"}
    async with ToolHost.from_config(_config(tmp_path, item)) as host:
        spec = host.get("twice")
        assert spec is not None
        assert spec.input_schema["properties"]["n"]["type"] == "integer"
        assert spec.description == "Double it."
        assert (await host.call("twice", {"n": 4})).output == 8
        assert (await host.call("twice", {"n": "x"})).reason == "invalid_arguments"

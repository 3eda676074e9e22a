"""What a program adds by itself: templates with their policy, providers; content that is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ConfigError, ToolContext, ToolHost, ToolResult, ToolSpec, tool
from toolcrib.errors import NameTaken, SpecError
from toolcrib.sync import ToolHost as SyncToolHost
from toolcrib.tools.files import TEMPLATE as FILES


async def test_a_template_is_narrowed_and_registered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    reading = FILES.narrowed(name="look", allowed_actions=["read"])
    async with ToolHost([reading, FILES]) as host, host.session(cwd=tmp_path) as session:
        seen = await session.call("look", {"action": "read", "path": "a.txt"})
        assert "hello" in str(seen.output)
        refused = await session.call("look", {"action": "list"})
        assert (refused.status, refused.reason) == ("denied", "action_not_allowed")
        assert (await session.call("files", {"action": "list"})).status == "ok"


def test_a_narrowed_template_refuses_unknown_knobs_at_once() -> None:
    with pytest.raises(ConfigError, match="allowed_actions"):
        FILES.narrowed(allowed_action=["read"])


def test_a_template_that_needs_a_host_says_so() -> None:
    with pytest.raises(SpecError, match="built by a host"):
        FILES.build({})


class Two:
    """A provider of one tool that doubles."""

    kind = "two"

    def __init__(self, name: str = "two") -> None:
        self.name = name

    async def __aenter__(self) -> Two:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def list_tools(self) -> Sequence[ToolSpec]:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return [ToolSpec(name=f"{self.name}-double", kind=self.kind, input_schema=schema)]

    async def execute(self, ctx: ToolContext) -> Any:
        return 2 * ctx.arguments["n"]


async def test_a_provider_of_the_programs_own_outlives_a_reload(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.yaml"
    config.write_text("version: 1\n")
    async with ToolHost(config=config) as host:
        await host.add_provider("two", Two)
        assert (await host.call("two-double", {"n": 4})).output == 8
        await host.reload()
        assert (await host.call("two-double", {"n": 5})).output == 10
        with pytest.raises(NameTaken, match="two"):
            await host.add_provider("two", Two)
        assert [status.name for status in host.sources.status()] == ["two"]


def test_a_provider_without_asyncio() -> None:
    with SyncToolHost() as host:
        host.add_provider("two", Two)
        assert host.call("two-double", {"n": 4}).output == 8


async def test_content_blocks_are_cut_with_a_mark() -> None:
    @tool(effects=["read"])
    async def pages(ctx: ToolContext) -> ToolResult:
        """Give many blocks."""
        blocks = [
            {"type": "text", "text": "short"},
            {"type": "image", "data": "x" * 5000, "mimeType": "image/png"},
            {"type": "text", "text": "y" * 5000},
            {"type": "text", "text": "after"},
        ]
        return ToolResult(call_id=ctx.call_id, output="pages", content=blocks)

    config = {"version": 1, "host": {"max_output": "1kB"}}
    async with ToolHost([pages], config=config) as host:
        result = await host.call("pages")
    assert result.status == "ok"
    assert result.truncated is not None
    assert result.truncated.original > 10_000
    first, image, text, last = result.content or []
    assert first == {"type": "text", "text": "short"}
    assert image["text"].startswith("[cut: image of 50")
    assert text["text"].endswith("of 5000 characters]")
    assert len(text["text"]) < 1100
    assert "cut" in last["text"]

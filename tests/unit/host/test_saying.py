"""What tools say while they run: told under their own names, and written to the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolContext, ToolHost, tool
from toolcrib.testing import EventRecorder, make_host

FUNCTIONS = """
import sys

def prints() -> str:
    print("half \\x1b[31mway")
    print("token s3cr3t-value", file=sys.stderr)
    return "done"
"""
CONFIG = """
version: 1
tools:
  - name: prints
    kind: process
    description: d
    effects: [read]
    config: {module: f.py, function: prints}
  - name: lists
    kind: shell
    description: d
    effects: [read]
    config: {argv: [sh, -c, "echo warned >&2; echo out"]}
"""


@tool
def pretends(ctx: ToolContext) -> str:
    """Say something under another tool's name."""
    ctx.log("paid", tool="bank")
    announce: Any = ctx.runtime
    announce.announce(ctx, "tool.emitted", {"name": "paid", "data": {}, "tool": "bank"})
    return "ok"


async def test_a_tool_speaks_under_its_own_name() -> None:
    async with make_host([pretends]) as host:
        recorder = EventRecorder(host)
        assert (await host.call("pretends")).success
        told = [e for e in recorder.events if e.type in ("tool.log", "tool.emitted")]
    assert [event.data["tool"] for event in told] == ["pretends", "pretends"]


async def test_what_is_printed_reaches_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("toolcrib"), "propagate", True)
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "toolcrib.yaml").write_text(CONFIG)
    with caplog.at_level(logging.INFO, logger="toolcrib"):
        async with ToolHost.from_config(tmp_path / "toolcrib.yaml") as host:
            host.redactor.add_secret("s3cr3t-value")
            assert (await host.call("prints")).output == "done"
            assert (await host.call("lists")).success
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert "prints: half \\u001b[31mway" in lines
    assert "lists: warned" in " ".join(lines)
    assert "s3cr3t-value" not in caplog.text
    assert any(line.startswith("prints: token ") for line in lines)

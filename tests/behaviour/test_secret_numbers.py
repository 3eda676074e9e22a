"""A secret that is a number is hidden also where calls go the short way."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import ToolHost, tool

PIN = 48151623421337


@tool(effects=["read"])
async def same(number: int) -> int:
    """Give back a number."""
    return number


@pytest.mark.parametrize("secret", [str(PIN), "no-number-at-all-0123"])
async def test_numbers_are_looked_at_when_one_is_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("PIN", secret)
    file = tmp_path / "toolcrib.yaml"
    file.write_text("version: 1\nprincipals: {ann: {attributes: {pin: '${PIN}'}}}\n")
    async with ToolHost([same], config=file) as host:
        result = await host.call("same", {"number": PIN})
        other = await host.call("same", {"number": 7})
        kept = str([event.data for event in await host.trail()])
    assert other.output == 7
    assert (result.output == PIN) is (secret != str(PIN))
    assert (str(PIN) in kept) is (secret != str(PIN))

"""How a server introduces itself, and what it does not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_door import ERAS, Door, handshake, modern, opened
from toolcrib import tool
from toolcrib.core.version import __version__
from toolcrib.protocol.mcp import keys
from toolcrib.transports.mcp.asked import Endpoint, asked_handshake, asked_modern
from toolcrib.transports.mcp.faults import McpFault

CONFIG: dict[str, Any] = {
    "version": 1,
    "host": {"profile": "plain"},
    "profiles": {"plain": {"default": "allow"}},
}


@tool(effects=["read"])
async def add(a: int) -> int:
    """Add."""
    return a


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened([add], CONFIG) as door:
        yield door


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
        (7, "2025-11-25"),
    ],
)
async def test_initialize_agrees_on_a_revision(door: Door, offered: Any, agreed: str) -> None:
    found = await door.answer(handshake("initialize", {"protocolVersion": offered}))
    assert found["protocolVersion"] == agreed
    assert found["serverInfo"] == {"name": "toolcrib", "title": "Toolcrib", "version": __version__}
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert "prompts" not in found["capabilities"]


async def test_discover_says_the_same_without_a_handshake(door: Door) -> None:
    found = await door.answer(modern("server/discover"))
    assert found["supportedVersions"][0] == "2026-07-28"
    assert found["resultType"] == "complete"
    assert found["ttlMs"] == 60000
    assert found["cacheScope"] == "public"
    assert found["_meta"][keys.SERVER]["version"] == __version__
    old = await door.answer(handshake("initialize"))
    assert found["capabilities"] == old["capabilities"]


async def test_ping(door: Door) -> None:
    assert await door.answer(handshake("ping")) == {}


@pytest.mark.parametrize(
    ("era", "method"),
    [
        ("modern", "initialize"),
        ("modern", "ping"),
        ("modern", "logging/setLevel"),
        ("modern", "resources/subscribe"),
        ("modern", "resources/unsubscribe"),
        ("modern", "unknown/method"),
        ("modern", "prompts/list"),
        ("modern", "resources/list"),
        ("modern", "completion/complete"),
        ("handshake", "server/discover"),
        ("handshake", "prompts/get"),
        ("handshake", "resources/read"),
        ("handshake", "tools.call"),
        ("handshake", ""),
    ],
)
async def test_methods_that_are_not_there(door: Door, era: str, method: str) -> None:
    with pytest.raises(McpFault) as fault:
        await door.answer(ERAS[era](method))
    assert (fault.value.code, fault.value.http) == (-32601, 404)


async def test_notifications_have_no_effect(door: Door) -> None:
    await door.dispatcher.told(
        door.caller(), Endpoint(), "notifications/roots/list_changed", {}, None
    )


# What a request says of itself.

GOOD: dict[str, Any] = {keys.VERSION: "2026-07-28", keys.CAPABILITIES: {}}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (None, -32602),
        ([], -32602),
        ({}, -32602),
        ({keys.VERSION: "2026-07-28"}, -32602),
        ({keys.CAPABILITIES: {}}, -32602),
        ({**GOOD, keys.VERSION: 5}, -32602),
        ({**GOOD, keys.CAPABILITIES: []}, -32602),
        ({**GOOD, keys.CLIENT: "me"}, -32602),
        ({**GOOD, keys.PROGRESS: 1.5}, -32602),
        ({**GOOD, keys.PROGRESS: True}, -32602),
        ({**GOOD, keys.VERSION: "2025-11-25"}, -32022),
        ({**GOOD, keys.VERSION: "2099-01-01"}, -32022),
    ],
    ids=repr,
)
def test_a_modern_request_says_what_it_speaks(meta: Any, code: int) -> None:
    with pytest.raises(McpFault) as fault:
        asked_modern(1, "tools/list", {"_meta": meta})
    assert (fault.value.code, fault.value.http) == (code, 400)
    if code == -32022:
        assert fault.value.data["requested"] == meta[keys.VERSION]
        assert "2026-07-28" in fault.value.data["supported"]


@pytest.mark.parametrize("params", [[], "x", 5, True], ids=repr)
def test_params_are_an_object(params: Any) -> None:
    for read in (
        lambda: asked_modern(1, "x", params),
        lambda: asked_handshake(1, "x", params, version="2025-11-25"),
    ):
        with pytest.raises(McpFault) as fault:
            read()
        assert fault.value.code == -32602


def test_what_belongs_to_one_hop_is_not_handed_on() -> None:
    meta = {**GOOD, keys.CLIENT: {"name": "c"}, keys.PROGRESS: 0, keys.LOG_LEVEL: "info", "x/y": 1}
    asked = asked_modern("7", "tools/call", {"_meta": meta})
    assert asked.meta == {"x/y": 1}
    assert (asked.progress_token, asked.log_level, asked.client) == (0, "info", {"name": "c"})
    old = asked_handshake(1, "x", {"_meta": {keys.PROGRESS: "t", "a": 1}}, version="2025-11-25")
    assert (old.meta, old.progress_token) == ({"a": 1}, "t")
    assert asked_handshake(1, "x", None, version="2025-11-25").params == {}


async def test_a_greeting_needs_none_of_the_rest(door: Door) -> None:
    """It is what a client that starts a process waits for."""
    parts = {"running", "changes", "relays", "tools"}
    await door.answer(handshake("initialize", {"protocolVersion": "2025-11-25"}))
    await door.answer(modern("server/discover"))
    assert parts.isdisjoint(vars(door.dispatcher))
    door.dispatcher.load()
    assert parts <= vars(door.dispatcher).keys()


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_a_greeting_is_for_those_who_may_be_here(door: Door, method: str) -> None:
    asked = handshake(method) if method == "initialize" else modern(method)
    limited = door.caller("eve", profiles=frozenset({"plain"}))
    with pytest.raises(McpFault, match="may not use the profile"):
        await door.answer(asked, caller=limited, endpoint=Endpoint(profile="other"))
    with pytest.raises(McpFault, match="no profile"):
        await door.answer(asked, endpoint=Endpoint(profile="nowhere"))
